/**
 * The publish rate of a key [C-6.5]. Publishes over the rate are held in the bridge, which sends them again in
 * order: a publish is never accepted before an earlier held one of its connection. Emergencies are exempt from
 * both.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { Wait } from '../../../protocol/link/frame.ts';
import { TokenBucket } from '../../object/token-bucket.ts';
import { VHOST_BOUNDS } from '../bounds.ts';

/** Pause before the bridge sends held publishes again. */
const PACE_MS = 250;

export class PublishRate {
  readonly #bucket = new TokenBucket(LIMIT.publishesBurst);
  /** Sequences of held publishes by connection, ascending. */
  readonly #waiting = new Map<string, number[]>();

  /**
   * Whether a publish is accepted now. `full`: the connection has more held publishes than a bridge may hold.
   */
  take(connectionId: string, seq: number, perSecond: number, now: number): 'taken' | 'waits' | 'full' {
    const waiting = this.#waiting.get(connectionId) ?? [];
    const first = waiting[0];
    const isNext = first === undefined || seq <= first;
    if (isNext && this.takeNow(perSecond, now)) {
      if (seq === first) waiting.shift();
      if (waiting.length === 0) this.#waiting.delete(connectionId);
      return 'taken';
    }
    if (waiting.includes(seq)) return 'waits';
    if (waiting.length >= VHOST_BOUNDS.waitingPublishes) return 'full';
    waiting.push(seq);
    waiting.sort((left, right) => left - right);
    this.#waiting.set(connectionId, waiting);
    return 'waits';
  }

  /** The same for publishes that nobody can hold: whether all of them are accepted now. */
  takeNow(perSecond: number, now: number, amount = 1): boolean {
    return this.#bucket.take(amount, perSecond, Math.max(LIMIT.publishesBurst, perSecond), now);
  }

  /**
   * Removes a held publish that was refused: the bridge does not send it again, and later ones need not wait
   * for it.
   */
  drop(connectionId: string, seq: number): void {
    const waiting = this.#waiting.get(connectionId);
    if (!waiting?.includes(seq)) return;
    const rest = waiting.filter((other) => other !== seq);
    if (rest.length > 0) this.#waiting.set(connectionId, rest);
    else this.#waiting.delete(connectionId);
  }

  forget(connectionId: string): void {
    this.#waiting.delete(connectionId);
  }

  /** Asks the bridge to hold these publishes, to wait `ms`, and then to send `count` of them. */
  wait(seqs: number[], perSecond: number): Wait {
    // Connections with held publishes share the rate of the key.
    const share = (perSecond * PACE_MS) / 1_000 / Math.max(1, this.#waiting.size);
    return { kind: 'wait', seqs, ms: PACE_MS, count: Math.max(1, Math.ceil(share)) };
  }
}
