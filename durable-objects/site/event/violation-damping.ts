/**
 * Whom a violated limit is told: the key that broke it each time, the others at most once per limit and ten seconds,
 * so that nobody's mistakes fill anybody else's queue [C-8.3].
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { Turn } from '../../object/turn.ts';

export class ViolationDamping {
  /** By constraint: there are as many as a site has limits. */
  readonly #toldAtMs = new Map<string, number>();

  keysFor(turn: Turn, constraint: string, ownKeyId: string, keyIds: readonly string[]): readonly string[] {
    const { now } = turn;
    const toldAtMs = this.#toldAtMs.get(constraint);
    // A clock that went back must not silence anybody.
    if (toldAtMs !== undefined && Math.abs(now - toldAtMs) < LIMIT.violationDampingMs) return [ownKeyId];
    turn.undo(() => this.#toldAtMs.delete(constraint));
    this.#toldAtMs.set(constraint, now);
    return keyIds;
  }
}
