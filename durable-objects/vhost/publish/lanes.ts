/**
 * One lane per Site: while a call with one batch is open, the next batch is collected (rule 4). A publish
 * never waits for another Site, and an emergency never waits for a lane. A failed call is retried while its
 * publishes may still be confirmed; messageIds make retries harmless.
 */

import { LIMIT } from '../../../protocol/limits.ts';
import type { SiteStub } from '../../env.ts';
import type { Calls } from '../../object/calls.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Submission, SubmissionBatch, SubmitAnswer } from '../../rpc.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import { Rest } from './rest.ts';

const MAX_BATCH = 256;
const MAX_BATCH_CHARS = 256 * 1024;
const RETRY_MS = [50, 250, 1_000, 2_000];
/**
 * A Site accepts a batch only until this long before the nack: clocks differ, and a nacked publish must not
 * be recorded.
 */
const NACK_MARGIN_MS = 500;

/** A publish that is being submitted to a Site. */
export interface Pending {
  submission: Submission;
  acceptedAtMs: number;
  /** The publishing connection, which gets the confirm. */
  connectionId: string;
  seq: number;
}

/** The fields of a batch that the lane sets; the others come from the key. */
export type LaneBatch = Pick<SubmissionBatch, 'siteId' | 'submissions' | 'notAfterMs' | 'isRepeated'>;

export interface LaneHost {
  readonly calls: Calls;
  now(): number;
  site(siteId: string): SiteStub;
  submit(stub: SiteStub, batch: LaneBatch): Promise<SubmitAnswer>;
  /** Stores the events of an answer, then confirms or nacks each publish, in this order (rule 5). */
  finish(siteId: string, answer: SubmitAnswer, batch: readonly Pending[]): Promise<void>;
  /** Nacks the publishes: the Site did not answer in time, so it is unknown whether they are recorded. */
  giveUp(batch: readonly Pending[]): void;
  /** Whether the key has ended; then nothing more is submitted. */
  hasEnded(): boolean;
}

export class Lanes {
  readonly #host: LaneHost;
  readonly #lanes = new Map<string, Lane>();
  readonly #running = new Set<Promise<void>>();
  readonly #rest: Rest;

  constructor(host: LaneHost) {
    this.#host = host;
    this.#rest = new Rest(() => host.now());
  }

  /** Adds a publish to its lane. Returns the work that this starts, to be kept alive with waitUntil. */
  submit(siteId: string, pending: Pending): Promise<void> | undefined {
    if (this.#running.size === 0) this.#rest.begin();
    if (pending.submission.family === 'emergency')
      return this.#track(new Lane(this.#host, siteId, NO_REST).add(pending));
    let lane = this.#lanes.get(siteId);
    if (!lane) {
      lane = new Lane(this.#host, siteId, () => this.#rest.due());
      this.#lanes.set(siteId, lane);
    }
    return this.#track(lane.add(pending));
  }

  /** Resolves when no call is open. */
  async idle(): Promise<void> {
    await Promise.all(this.#running);
  }

  #track(work: Promise<void> | undefined): Promise<void> | undefined {
    if (!work) return undefined;
    const tracked = work.finally(() => {
      this.#running.delete(tracked);
      if (this.#lanes.size > VHOST_BOUNDS.idleLanes)
        for (const [id, lane] of this.#lanes) if (lane.isIdle) this.#lanes.delete(id);
    });
    this.#running.add(tracked);
    return tracked;
  }
}

/** Emergencies do not pause. */
const NO_REST = () => undefined;

class Lane {
  readonly #host: LaneHost;
  readonly #siteId: string;
  readonly #rest: () => Promise<void> | undefined;
  #waiting: Pending[] = [];
  #running = false;
  #stub: SiteStub | undefined;

  constructor(host: LaneHost, siteId: string, rest: () => Promise<void> | undefined) {
    this.#host = host;
    this.#siteId = siteId;
    this.#rest = rest;
  }

  get isIdle(): boolean {
    return !this.#running;
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
      await this.#rest();
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
        this.#stub ??= this.#host.site(this.#siteId);
        const call = this.#host.submit(this.#stub, {
          siteId: this.#siteId,
          submissions: batch.map((pending) => pending.submission),
          notAfterMs: giveUpAtMs - NACK_MARGIN_MS,
          isRepeated: attempt > 0,
        });
        const answer = await this.#host.calls.until(giveUpAtMs, call);
        await this.#host.finish(this.#siteId, answer, batch);
        return;
      } catch (error) {
        this.#stub = undefined;
        const pauseMs = RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)] ?? 0;
        if (this.#host.now() + pauseMs >= giveUpAtMs) {
          console.warn('site did not answer', {
            siteId: this.#siteId,
            attempts: attempt + 1,
            reason: reasonOf(error),
          });
          this.#host.giveUp(batch);
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    }
  }
}
