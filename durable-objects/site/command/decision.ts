/**
 * Explains the decision on a command: the deciding stage and the facts that it used, stored with the log row
 * and shown as `decision` [C-4.3]. Pure.
 */
import type { Submission } from '../../rpc.ts';
import type { PlannedDispatch } from '../dispatch/planned.ts';
import { findSubDevice, type SiteView } from '../site-view.ts';
import type { JudgedItem } from './kind/kind.ts';
import type { DecidingStage, Judgement } from './pipeline.ts';

export interface Decision {
  stage: DecidingStage | 'plan' | 'dispatch';
  facts: Record<string, unknown>;
}

type Rejected = Extract<Judgement, { verdict: 'rejected' }>;

export function rejectedDecision(
  { stage, refusal: why, results }: Rejected,
  submission: Submission,
  view: SiteView,
): Decision {
  return {
    stage,
    facts: { ...factsOf(stage, submission, view), ...limitSeen(why.violation), ...named(results, view) },
  };
}

/** `planFacts`: what the plan says of a command that takes a place in it; the others go straight to their devices. */
export function acceptedDecision(
  items: readonly JudgedItem[],
  planned: readonly PlannedDispatch[],
  planFacts: Record<string, unknown> | undefined,
  view: SiteView,
): Decision {
  const dispatches = planned.map(({ deviceId, action }) => ({
    action,
    deviceId,
    isThere: view.isLive(deviceId),
  }));
  if (planFacts) return { stage: 'plan', facts: { ...planFacts, dispatches } };
  const refused = items
    .filter((judged) => judged.refusal)
    .map(({ item, stage }) => ({ deviceId: item.deviceId, stage }));
  return { stage: 'dispatch', facts: { dispatches, ...(refused.length > 0 ? { refused } : {}) } };
}

function factsOf(stage: DecidingStage, submission: Submission, view: SiteView): Record<string, unknown> {
  switch (stage) {
    case 'signature':
      return { signature: submission.signature };
    case 'freshness':
      return { timestampMs: submission.timestampMs };
    case 'topology':
      return { assetTypes: [...new Set(view.subDevices.map(({ assetType }) => assetType))] };
    case 'constraint':
      return view.emergency ? { emergency: view.emergency.type } : {};
    case 'target':
      return { gateway: view.gatewayId ?? null };
    default:
      return {};
  }
}

function limitSeen(violation: Rejected['refusal']['violation']): Record<string, unknown> {
  if (!violation) return {};
  const { constraint, limit, value, unit } = violation;
  return { constraint, limit, value, unit };
}

/** The first result's sub-device and its entry in the topology. */
function named(results: Rejected['results'], view: SiteView): Record<string, unknown> {
  const [first] = results ?? [];
  if (!first) return {};
  const subDevice = findSubDevice(view, first.deviceId);
  const topology = subDevice
    ? { assetType: subDevice.assetType, linkedDeviceId: subDevice.linkedDeviceId }
    : null;
  return { deviceId: first.deviceId, topology };
}
