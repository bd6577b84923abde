/** Where a target stands in the plan stack, as people see it [C-13.1]. */
import type { PlanLevel } from '../../../protocol/dry-run.ts';
import type { Asker } from '../../ask-rpc.ts';
import type { Target } from '../plan/stack.ts';
import type { PlanState } from '../plan/state.ts';
import { seesAll } from '../sight.ts';

export interface Place {
  level: PlanLevel;
  /** The sequence of its command; null: the mode in force. */
  sequence: number | null;
}

export function placeOf(target: Target, state: PlanState): Place {
  switch (target.by) {
    case 'entry':
      return { level: state.entries.find(target.sequence)?.level ?? 'NORMAL', sequence: target.sequence };
    case 'slot':
      return { level: 'SLOT', sequence: target.sequence };
    case 'emergency':
      return { level: state.emergency?.type ?? 'STOP', sequence: target.sequence };
    case 'mode':
      return { level: 'MODE', sequence: null };
  }
}

/**
 * The payload of a message to a device, as the asker may read it: of a schedule a partner reads its own id, and not the
 * place of the command in the log of all partners [C-15.1]. `command`: the row of its command.
 */
export function shownPayload(
  asker: Asker,
  { payload }: { payload: string },
  command: { id: string; payload: string },
): Record<string, unknown> {
  const sent = JSON.parse(payload) as Record<string, unknown>;
  if (seesAll(asker) || sent.scheduleId === undefined) return sent;
  const { scheduleId = command.id } = JSON.parse(command.payload) as { scheduleId?: string };
  const { sequence: _place, ...rest } = sent;
  return { ...rest, scheduleId };
}
