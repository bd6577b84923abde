/** Where a target stands in the plan stack, as people see it [C-13.1]. */
import type { PlanLevel } from '../../../protocol/dry-run.ts';
import type { Target } from '../plan/stack.ts';
import type { PlanState } from '../plan/state.ts';

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
