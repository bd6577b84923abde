/**
 * Records the submit calls of Vhosts to Sites, and holds them, fails them or delays their answers. Test and objects are
 * different I/O contexts and must not resolve each other's promises, so each polls once per turn of the event loop.
 */
import { vi } from 'vitest';
import type { SubmissionBatch } from '../../../durable-objects/rpc.ts';
import { Site } from '../../../durable-objects/site.ts';

/** Runs before or after a call, which waits for the returned promise. `call` counts from 1. */
type Interference = (batch: SubmissionBatch, call: number) => Promise<void> | void;

const nextTurn = globalThis.setTimeout;

/** One turn of the event loop, whatever the clock says. */
export async function turn(): Promise<void> {
  await new Promise((resolve) => nextTurn(resolve, 0));
}

export class SiteCalls {
  /** Every call so far, in order of arrival. */
  readonly batches: SubmissionBatch[] = [];
  readonly #underWay = new Map<string, number>();
  /** The most calls that were under way at once, by site. */
  readonly mostUnderWay = new Map<string, number>();
  readonly #before = new Map<string, Interference>();
  readonly #after = new Map<string, Interference>();

  /** Watches all sites until `vi.restoreAllMocks()`. */
  static watch(): SiteCalls {
    const calls = new SiteCalls();
    const submit = Site.prototype.submit;
    vi.spyOn(Site.prototype, 'submit').mockImplementation(async function (this: Site, batch) {
      return await calls.#through(batch, () => submit.call(this, batch));
    });
    return calls;
  }

  async #through<Answer>(batch: SubmissionBatch, make: () => Promise<Answer>): Promise<Answer> {
    const { siteId } = batch;
    this.batches.push(batch);
    const underWay = (this.#underWay.get(siteId) ?? 0) + 1;
    this.#underWay.set(siteId, underWay);
    this.mostUnderWay.set(siteId, Math.max(underWay, this.mostUnderWay.get(siteId) ?? 0));
    const call = this.of(siteId).length;
    try {
      await this.#before.get(siteId)?.(batch, call);
      const answer = await make();
      await this.#after.get(siteId)?.(batch, call);
      return answer;
    } finally {
      this.#underWay.set(siteId, (this.#underWay.get(siteId) ?? 1) - 1);
    }
  }

  of(siteId: string): SubmissionBatch[] {
    return this.batches.filter((batch) => batch.siteId === siteId);
  }

  /** Waits until a site has been called `count` times. */
  async arrived(siteId: string, count: number): Promise<void> {
    while (this.of(siteId).length < count) await turn();
  }

  /** Sets a function that runs before each call. If it throws, the caller gets its error, and the call is not made. */
  before(siteId: string, interfere: Interference): void {
    this.#before.set(siteId, interfere);
  }

  /** Sets a function that runs after each call. If it throws, the caller gets its error instead of the answer. */
  after(siteId: string, interfere: Interference): void {
    this.#after.set(siteId, interfere);
  }

  /** Holds back all calls except emergencies, until the returned function is called. */
  hold(siteId: string): () => void {
    let isHeld = true;
    this.before(siteId, async (batch) => {
      const isEmergency = batch.submissions.every(({ family }) => family === 'emergency');
      while (isHeld && !isEmergency) await turn();
    });
    return () => {
      isHeld = false;
    };
  }
}
