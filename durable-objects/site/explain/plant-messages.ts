/** The messages to devices that a command leads to [C-13.2]. Pure. */

import { parseCommand } from '../../../protocol/command.ts';
import type { CommandType } from '../../../protocol/routing-keys.ts';
import type { PlantMessage } from '../../../protocol/timeline.ts';
import type { Asker } from '../../ask-rpc.ts';
import { type JudgementInputs, NotRecorded, replayed } from '../command/inputs.ts';
import { kindOf } from '../command/kind/kinds.ts';
import { judgeCommand } from '../command/pipeline.ts';
import type { CommandRow } from '../command/rows.ts';
import type { DispatchRow } from '../dispatch/rows.ts';
import { shownPayload } from './place.ts';

/** The payloads of others are made when they are sent: a schedule is sent slot by slot, a configuration as it is then. */
const PLANNED_WHOLE: readonly CommandType[] = ['SITE_SETPOINT', 'DEVICE_COMMAND', 'MODE_CHANGE', 'EMERGENCY'];

/**
 * While the command has dispatches, these are its messages. Dispatches are deleted when they have ended: then the command is
 * planned again from what was known when it was judged, if it was sent at all.
 */
export function plantMessages(
  asker: Asker,
  command: CommandRow,
  inputs: JudgementInputs | undefined,
  dispatches: readonly DispatchRow[],
): PlantMessage[] {
  if (dispatches.length > 0)
    return dispatches.map((row) => ({
      ...{ deviceId: row.device_id, cmdId: row.cmd_id, action: row.action },
      payload: shownPayload(asker, row, command),
    }));
  if (command.dispatched_at_ms === null || !inputs) return [];
  if (!PLANNED_WHOLE.includes(command.command_type)) return [];
  try {
    return plannedAgain(command, inputs);
  } catch (error) {
    // A rule that is newer than the command reads what was not recorded, so the messages are not known.
    if (error instanceof NotRecorded) return [];
    throw error;
  }
}

function plannedAgain(command: CommandRow, inputs: JudgementInputs): PlantMessage[] {
  const parsed = parseCommand(command.command_type, command.payload);
  if (!parsed.ok) return [];
  const view = replayed(inputs.view);
  const judgement = judgeCommand(parsed.value, view, command.created_at_ms);
  if (judgement.verdict !== 'valid') return [];
  const { payload } = judgement.command;
  return kindOf(judgement.command)
    .plan(payload, judgement.items, view)
    .map(({ deviceId, action, payloadText }) => ({
      ...{ deviceId, cmdId: null, action },
      payload: JSON.parse(payloadText),
    }));
}
