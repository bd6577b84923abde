/** Where a target stands in the plan stack, as people see it [C-13.1], [C-13.3]. */
import type { PlanLevel } from '../../../protocol/dry-run.ts';
import type { Target } from '../plan/stack.ts';
import type { PlanState } from '../plan/state.ts';
import type { ScheduleRows } from '../schedule/rows.ts';

export interface Place {
  level: PlanLevel;
  /** The sequence of its command; null: the mode in force. */
  sequence: number | null;
  /** When it ends; null: it has no end. */
  endsAtMs: number | null;
}

export function placeOf(target: Target, state: PlanState, schedules: ScheduleRows, now: number): Place {
  switch (target.by) {
    case 'entry': {
      const entry = state.entries.find(target.sequence);
      return {
        level: entry?.level ?? 'NORMAL',
        sequence: target.sequence,
        endsAtMs: entry?.endsAtMs ?? null,
      };
    }
    case 'slot':
      return {
        level: 'SLOT',
        sequence: target.sequence,
        endsAtMs: schedules.activeSlot(now)?.endsAtMs ?? null,
      };
    case 'emergency':
      return { level: state.emergency?.type ?? 'STOP', sequence: target.sequence, endsAtMs: null };
    case 'mode':
      return { level: 'MODE', sequence: null, endsAtMs: null };
  }
}
