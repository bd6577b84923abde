/**
 * Why a command was decided as it was: the stage that decided and what it saw, kept with the log row and shown as
 * `decision` [C-4.3]. Pure.
 */
import type { Command } from '../../../protocol/command.ts';
import type { OperatingMode } from '../../../protocol/enums.ts';
import type { Submission } from '../../rpc.ts';
import { findSubDevice, type SiteFacts } from '../site-facts.ts';
import type { JudgedItem, PlannedDispatch } from './kind/kind.ts';
import type { DecidingStage, Judgement } from './pipeline.ts';

export interface Decision {
  stage: DecidingStage | 'plan' | 'dispatch';
  facts: Record<string, unknown>;
}

/** What the plant is told where a setpoint is not on top: another's, an emergency, or the mode in force. */
export type OnTop =
  | { by: 'entry' | 'emergency'; commandId: string | undefined }
  | { by: 'slot'; commandId: string | undefined; slotIndex: number }
  | { by: 'mode'; mode: OperatingMode };

type Rejected = Extract<Judgement, { verdict: 'rejected' }>;

export function rejectedDecision(
  { stage, refusal: why, results }: Rejected,
  submission: Submission,
  facts: SiteFacts,
): Decision {
  return {
    stage,
    facts: { ...factsOf(stage, submission, facts), ...limitSeen(why.violation), ...named(results, facts) },
  };
}

/** A setpoint takes its place in the plan; everything else goes to its devices. */
export function acceptedDecision(
  command: Command,
  items: readonly JudgedItem[],
  seen: { planned: readonly PlannedDispatch[]; onTop: OnTop | undefined; facts: SiteFacts },
): Decision {
  const dispatches = seen.planned.map(({ deviceId, action }) => ({
    action,
    deviceId,
    isThere: seen.facts.isLive(deviceId),
  }));
  if (command.commandType === 'SITE_SETPOINT') {
    const { priority: level } = command.payload;
    const { onTop } = seen;
    return { stage: 'plan', facts: { level, isOnTop: !onTop, ...(onTop && { onTop }), dispatches } };
  }
  const refused = items
    .filter((judged) => judged.refusal)
    .map(({ item, stage }) => ({ deviceId: item.deviceId, stage }));
  return { stage: 'dispatch', facts: { dispatches, ...(refused.length > 0 ? { refused } : {}) } };
}

function factsOf(stage: DecidingStage, submission: Submission, facts: SiteFacts): Record<string, unknown> {
  switch (stage) {
    case 'signature':
      return { signature: submission.signature };
    case 'freshness':
      return { timestampMs: submission.timestampMs };
    case 'topology':
      return { assetTypes: [...new Set(facts.subDevices.map(({ assetType }) => assetType))] };
    case 'constraint':
      return facts.emergency ? { emergency: facts.emergency.type } : {};
    case 'target':
      return { gateway: facts.gatewayId ?? null };
    default:
      return {};
  }
}

function limitSeen(violation: Rejected['refusal']['violation']): Record<string, unknown> {
  if (!violation) return {};
  const { constraint, limit, value, unit } = violation;
  return { constraint, limit, value, unit };
}

/** The first item that was refused, as the topology has it. */
function named(results: Rejected['results'], facts: SiteFacts): Record<string, unknown> {
  const [first] = results ?? [];
  if (!first) return {};
  const subDevice = findSubDevice(facts, first.deviceId);
  const topology = subDevice
    ? { assetType: subDevice.assetType, linkedDeviceId: subDevice.linkedDeviceId }
    : null;
  return { deviceId: first.deviceId, topology };
}
