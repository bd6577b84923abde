/**
 * Selects the keys that get an alarm for a violated limit: the key that violated it every time, all others at
 * most once per limit and ten seconds, so that one partner's mistakes do not fill other partners' queues
 * [C-8.3].
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { Turn } from '../../object/turn.ts';

export class ViolationDamping {
  /** By constraint; bounded by the number of a site's limits. */
  readonly #sentAtMs = new Map<string, number>();

  keysFor(turn: Turn, constraint: string, ownKeyId: string, keyIds: readonly string[]): readonly string[] {
    const { now } = turn;
    const sentAtMs = this.#sentAtMs.get(constraint);
    // If the clock went back, the time in the future must not suppress alarms.
    if (sentAtMs !== undefined && Math.abs(now - sentAtMs) < LIMIT.violationDampingMs) return [ownKeyId];
    turn.undo(() => this.#sentAtMs.delete(constraint));
    this.#sentAtMs.set(constraint, now);
    return keyIds;
  }
}
