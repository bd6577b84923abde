/**
 * The publish rate of a key [C-6.5]. What is over it waits in its bridge and comes again, in order: nothing that was
 * sent behind a waiting publish is taken before it. Emergencies do not come here.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { Wait } from '../../../protocol/link/frame.ts';
import { TokenBucket } from '../../object/token-bucket.ts';
import { VHOST_BOUNDS } from '../bounds.ts';

/** How often waiting publishes come again. */
const PACE_MS = 250;

export class PublishRate {
  readonly #bucket = new TokenBucket(LIMIT.publishesBurst);
  /** Sequences told to wait, by connection, ascending. */
  readonly #waiting = new Map<string, number[]>();

  /** Whether a publish may go now. `full`: the connection has more waiting than a bridge holds. */
  take(connectionId: string, seq: number, perSecond: number, now: number): 'taken' | 'waits' | 'full' {
    const waiting = this.#waiting.get(connectionId) ?? [];
    const first = waiting[0];
    const isNext = first === undefined || seq <= first;
    const burst = Math.max(LIMIT.publishesBurst, perSecond);
    if (isNext && this.#bucket.take(1, perSecond, burst, now)) {
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

  /** A publish that waited was refused: it comes no more, and what stands behind it may go. */
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

  /** What the bridge is told of those that wait. */
  wait(seqs: number[], perSecond: number): Wait {
    // The connections that wait share what the key may publish.
    const share = (perSecond * PACE_MS) / 1_000 / Math.max(1, this.#waiting.size);
    return { kind: 'wait', seqs, ms: PACE_MS, count: Math.max(1, Math.ceil(share)) };
  }
}
