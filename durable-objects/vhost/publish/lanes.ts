/**
 * The lanes that submit publishes to Sites, one lane per Site. While a call with one batch is open, the lane
 * collects the next batch (rule 4). A publish never waits for another Site, and an emergency never waits for
 * a lane. A failed call is retried while its publishes may still be confirmed; messageIds make retries
 * harmless.
 */

import { LIMIT } from '../../../protocol/limits.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Submission, SubmissionResult } from '../../rpc.ts';

const MAX_BATCH = 256;
const MAX_BATCH_CHARS = 256 * 1024;
const RETRY_MS = [50, 250, 1_000, 2_000];
/**
 * A Site accepts a batch only until this long before the nack: clocks differ, and a publish must not
 * be recorded after its nack.
 */
const NACK_MARGIN_MS = 500;
/** When the lanes have been busy for this time without a pause, a pause is due. */
const BUSY_MS = 25;
const PAUSE_MS = 1;

/** A publish that is being submitted to a Site. */
export interface Pending {
  submission: Submission;
  acceptedAtMs: number;
  /** The publishing connection, which gets the confirm. */
  connectionId: string;
  seq: number;
  /** Called with the Site's answer. */
  onResult?(result: SubmissionResult): void;
}

/** One attempt to submit a batch to its Site. */
export interface Attempt {
  siteId: string;
  batch: readonly Pending[];
  /**
   * The Site must not record the batch after this time, because soon after it the Vhost nacks the publishes, and
   * a nacked publish must not take effect.
   */
  notAfterMs: number;
  /** When the Vhost stops waiting for the answer. */
  giveUpAtMs: number;
  isRepeated: boolean;
}

export interface LaneHost {
  now(): number;
  /**
   * Submits a batch, stores the events of the answer, and confirms or nacks each publish, in this order (rule 5).
   * Throws if the Site fails or does not answer in time; the lane then tries again while there is time.
   */
  submit(attempt: Attempt): Promise<void>;
  /** Nacks the publishes: the Site did not answer in time, or the key has ended. Whether they are recorded is unknown. */
  giveUp(batch: readonly Pending[]): void;
  /** Whether the key has ended; then nothing more is submitted. */
  hasEnded(): boolean;
}

export class Lanes {
  readonly #host: LaneHost;
  readonly #lanes = new Map<string, Lane>();
  readonly #running = new Set<Promise<void>>();
  readonly #yieldTimer: YieldTimer;

  constructor(host: LaneHost) {
    this.#host = host;
    this.#yieldTimer = new YieldTimer(() => host.now());
  }

  /** Adds a publish to its lane. Returns the work that this starts, to be kept alive with waitUntil. */
  submit(siteId: string, pending: Pending): Promise<void> | undefined {
    if (this.#running.size === 0) this.#yieldTimer.begin();
    if (pending.submission.family === 'emergency')
      return this.#track(new Lane(this.#host, siteId, NO_PAUSE).add(pending));
    let lane = this.#lanes.get(siteId);
    if (!lane) {
      lane = new Lane(this.#host, siteId, () => this.#yieldTimer.due());
      this.#lanes.set(siteId, lane);
    }
    return this.#track(lane.add(pending), siteId);
  }

  /** Resolves when no call is open. */
  async idle(): Promise<void> {
    await Promise.all(this.#running);
  }

  /** Tracks open work for `idle`. `laneOf`: the site whose lane is deleted when the work has ended. */
  #track(work: Promise<void> | undefined, laneOf?: string): Promise<void> | undefined {
    if (!work) return undefined;
    const tracked = work.finally(() => {
      this.#running.delete(tracked);
      if (laneOf !== undefined) this.#lanes.delete(laneOf);
    });
    this.#running.add(tracked);
    return tracked;
  }
}

/** Emergencies are sent without a pause. */
const NO_PAUSE = () => undefined;

class Lane {
  readonly #host: LaneHost;
  readonly #siteId: string;
  readonly #pause: () => Promise<void> | undefined;
  #waiting: Pending[] = [];
  #running = false;

  constructor(host: LaneHost, siteId: string, pause: () => Promise<void> | undefined) {
    this.#host = host;
    this.#siteId = siteId;
    this.#pause = pause;
  }

  add(pending: Pending): Promise<void> | undefined {
    this.#waiting.push(pending);
    if (this.#running) return undefined;
    this.#running = true;
    return this.#run();
  }

  async #run(): Promise<void> {
    // Wait for one microtask, so that the other publishes of the same link message join the batch.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      await this.#pause();
      await this.#send(this.#takeBatch());
    }
    this.#running = false;
  }

  #takeBatch(): Pending[] {
    const batch: Pending[] = [];
    let chars = 0;
    for (;;) {
      const next = this.#waiting[0];
      if (!next || batch.length === MAX_BATCH || (batch.length > 0 && chars > MAX_BATCH_CHARS)) return batch;
      this.#waiting.shift();
      chars += next.submission.payloadText.length;
      batch.push(next);
    }
  }

  async #send(batch: readonly Pending[]): Promise<void> {
    const giveUpAtMs = Math.min(...batch.map((pending) => pending.acceptedAtMs)) + LIMIT.confirmMs;
    for (let attempt = 0; ; attempt++) {
      if (this.#host.hasEnded()) {
        this.#host.giveUp(batch);
        return;
      }
      try {
        const notAfterMs = giveUpAtMs - NACK_MARGIN_MS;
        await this.#host.submit({
          siteId: this.#siteId,
          batch,
          notAfterMs,
          giveUpAtMs,
          isRepeated: attempt > 0,
        });
        return;
      } catch (error) {
        const pauseMs = RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)] ?? 0;
        if (this.#host.now() + pauseMs >= giveUpAtMs) {
          console.warn(
            'site did not confirm publishes in time, nacked: their client has to send them again',
            {
              siteId: this.#siteId,
              attempts: attempt + 1,
              reason: reasonOf(error),
            },
          );
          this.#host.giveUp(batch);
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    }
  }
}

/**
 * Pauses the lanes of a key that publishes without a break: the runtime handles other events of the object
 * only when it is idle. From time to time all lanes therefore start nothing new for a moment. They must pause
 * together, because the object is not idle as long as one lane works.
 */
export class YieldTimer {
  readonly #now: () => number;
  #busySinceMs = 0;
  #pause: Promise<void> | undefined;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Restarts the busy timer; called when the lanes were idle. */
  begin(): void {
    this.#busySinceMs = this.#now();
  }

  /** The pause to await before a batch is sent; undefined if none is due. */
  due(): Promise<void> | undefined {
    if (this.#pause || this.#now() - this.#busySinceMs < BUSY_MS) return this.#pause;
    this.#pause = new Promise<void>((resolve) => setTimeout(resolve, PAUSE_MS)).then(() => {
      this.#busySinceMs = this.#now();
      this.#pause = undefined;
    });
    return this.#pause;
  }
}
