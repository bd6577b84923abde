/** Judges a command of an export again [C-13.4]. */

import { type JudgementInputs, replayed } from '../../durable-objects/site/command/inputs.ts';
import { kindOf } from '../../durable-objects/site/command/kind/kinds.ts';
import {
  type Decision,
  type Judgement,
  judge,
  receive,
  rejection,
  resultsOf,
} from '../../durable-objects/site/command/pipeline.ts';
import type { SiteView } from '../../durable-objects/site/site-view.ts';
import type { CommandOf } from '../../protocol/command.ts';
import type { ExportedCommand } from '../../protocol/export.ts';
import { COMMAND_FAMILIES, type CommandType, FAMILY_RULES } from '../../protocol/routing-keys.ts';

/** Undefined: the record does not have what a judgement needs. */
export function judgeAgain(command: ExportedCommand): string[] | undefined {
  if (!command.inputs || isCut(command)) return undefined;
  const inputs = command.inputs as unknown as JudgementInputs;
  const view = replayed(inputs.view);
  try {
    return differences(command, inputs, judged(command, inputs, view), view);
  } catch (error) {
    return [`the rules of today cannot judge it: ${(error as Error).message}`];
  }
}

/** Of a long rejected payload the log has only the beginning. */
function isCut({ status, payload }: ExportedCommand): boolean {
  return status === 'REJECTED' && payload.startsWith('{"truncated":');
}

function judged(command: ExportedCommand, inputs: JudgementInputs, view: SiteView): Judgement {
  const { messageId, source, routingKey, payload: payloadText } = command;
  const { signature, timestampMs, isUsed } = inputs;
  const family = COMMAND_FAMILIES.find((one) => FAMILY_RULES[one].commandType === command.commandType);
  if (!family) throw new Error(`no family has commands of type ${command.commandType}`);
  const submission = {
    messageId,
    correlationId: null,
    source,
    routingKey,
    family,
    payloadText,
    signature,
    timestampMs,
  };
  const earlier = isUsed
    ? { digest: '', acknowledgement: { status: 'REJECTED' as const, commandType: command.commandType } }
    : undefined;
  return judge(receive(submission), earlier, view, command.atMs);
}

function differences(
  command: ExportedCommand,
  { signature }: JudgementInputs,
  judgement: Judgement,
  view: SiteView,
): string[] {
  const { status, rejectionCode, message, results } = command;
  const decision = command.decision as unknown as Decision | null;
  if (judgement.verdict === 'repeat') return ['derived: a repeat of an earlier command'];
  if (judgement.verdict === 'rejected') {
    const { commandType } = command;
    const derived = rejection(
      { family: familyOf(commandType) } as Parameters<typeof rejection>[0],
      judgement,
    );
    // The hint of a wrong signature is the organization's choice, and not stored as an input.
    const isCode = signature === 'mismatch';
    const shown = (text: string | null) => (isCode ? ((text ?? '').split(';')[0] ?? '') : text);
    return [
      ...differs('acknowledgement', status === 'REJECTED' ? 'REJECTED' : 'accepted', 'REJECTED'),
      ...differs('code', rejectionCode, derived.rejectionCode ?? null),
      ...differs('message', shown(message), shown(derived.message ?? null)),
      ...differs('stage', decision?.stage ?? null, judgement.stage),
      ...differs('results', results, derived.results ?? null),
    ];
  }
  if (status === 'REJECTED')
    return differs('acknowledgement', `REJECTED ${rejectionCode} ${message}`, 'accepted');
  const refused = (all: typeof results) =>
    (all ?? []).map((one) => (one.status === 'REJECTED' ? one : { ...one, status: 'accepted' }));
  const derivedResults = judgement.items.length > 0 ? resultsOf(judgement.items, () => false) : null;
  const planned = planOf(judgement.command as CommandOf<CommandType>, judgement, view);
  return [
    ...differs('results', refused(results), refused(derivedResults)),
    ...differs('MQTT commands', decision?.facts.dispatches ?? [], planned),
  ];
}

function planOf(
  command: CommandOf<CommandType>,
  { items }: Extract<Judgement, { verdict: 'valid' }>,
  view: SiteView,
): object[] {
  const planned = kindOf(command).plan(command.payload, items, view);
  return planned.map(({ action, deviceId }) => ({ action, deviceId, isThere: view.isLive(deviceId) }));
}

function familyOf(commandType: CommandType) {
  return COMMAND_FAMILIES.find((one) => FAMILY_RULES[one].commandType === commandType);
}

/** Empty if both are equal. */
export function differs(what: string, recorded: unknown, derived: unknown): string[] {
  const [one, other] = [JSON.stringify(recorded), JSON.stringify(derived)];
  return one === other ? [] : [`${what}: recorded ${one}, derived ${other}`];
}
