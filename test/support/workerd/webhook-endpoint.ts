/** The delivery to one webhook without an object: a test ends each attempt, and the journal is a list of numbers. */
import type { JournalQuery } from '../../../durable-objects/journal-rpc.ts';
import type { JournalPage } from '../../../durable-objects/vhost/journal/journal.ts';
import {
  type Begun,
  Endpoint,
  type EndpointState,
  type Outcome,
} from '../../../durable-objects/vhost/webhook/endpoint.ts';
import type { EventKind } from '../../../protocol/routing-keys.ts';
import type { WebhookCopy } from '../../../registry/organization-copy.ts';

export const START_MS = Date.parse('2030-03-05T12:00:00.000Z');
export const URL_A = 'https://a.example.com/hook';
export const URL_B = 'https://b.example.com/hook';

type End = Outcome['outcome'];

export function webhookCopy(changes: Partial<WebhookCopy> = {}): WebhookCopy {
  return {
    ...{ id: 'w', url: URL_A, types: ['ack'], siteIds: null },
    ...{ secretSealed: '', previousSealed: null, previousUntilMs: null, createdAtMs: 0, statusAtMs: 0 },
    ...changes,
  };
}

export class Delivery {
  now = START_MS;
  endpoint: Endpoint;
  /** The events of the journal, by sequence from 1. */
  readonly kinds: EventKind[] = [];
  firstKept = 1;
  /** Every sequence that was posted, in order; a message `webhook.verify` is 0. */
  readonly posted: number[] = [];
  readonly underWay: Begun[] = [];

  constructor(events: number, state: Partial<EndpointState> = {}, webhook: Partial<WebhookCopy> = {}) {
    this.add(events);
    const verified = { ...Endpoint.begin(URL_A, 0, this.now), verifiedUrl: URL_A };
    this.endpoint = new Endpoint(webhookCopy(webhook), { ...verified, ...state });
    this.trust();
  }

  /** As if an event had just been delivered, before all others. */
  trust(): void {
    this.endpoint.settle(this.endpoint.begin(0), { outcome: 'delivered', laterMs: null }, this.now);
  }

  get last(): number {
    return this.kinds.length;
  }

  /** When the endpoint needs a turn. */
  dueMs(): number | undefined {
    return this.endpoint.dueMs(this.last, (query) => this.#read(query));
  }

  get state(): Readonly<EndpointState> {
    return this.endpoint.state;
  }

  get sequences(): (number | null)[] {
    return this.underWay.map(({ sequence }) => sequence);
  }

  add(count: number, kind: EventKind = 'ack'): void {
    for (let index = 0; index < count; index++) this.kinds.push(kind);
  }

  /** Begins all attempts that may begin, and returns their sequences. */
  begin(): number[] {
    const before = this.posted.length;
    if (this.endpoint.mustVerify(this.now)) this.#begin(null);
    for (let event = this.#next(); event; event = this.#next()) this.#begin(event.sequence);
    return this.posted.slice(before);
  }

  /** Ends the attempt of an event that began first, without beginning others. Returns whether the status changed. */
  end(sequence: number | null, outcome: End = 'delivered', laterMs: number | null = null): boolean {
    const index = this.underWay.findIndex((begun) => begun.sequence === sequence);
    const [begun] = index < 0 ? [] : this.underWay.splice(index, 1);
    if (!begun) throw new Error(`no attempt of ${sequence} is under way`);
    return this.endpoint.settle(begun, { outcome, laterMs }, this.now);
  }

  endAll(outcome: End = 'delivered'): void {
    for (const { sequence } of [...this.underWay]) this.end(sequence, outcome);
  }

  /** Moves the clock to the next attempt. Returns how long that took. */
  wait(): number {
    const before = this.now;
    this.now = Math.max(this.now, this.state.nextAtMs ?? this.now);
    return this.now - before;
  }

  /** Begins the only attempt that may begin now, and ends it. */
  tryOnce(outcome: End, laterMs: number | null = null): void {
    const begun = this.begin();
    if (begun.length !== 1) throw new Error(`one attempt should begin, but these did: ${begun}`);
    this.end(begun[0] || null, outcome, laterMs);
  }

  /** Begins and ends attempts until none may begin, and returns their sequences in order. */
  drain(): number[] {
    const before = this.posted.length;
    for (let round = 0; round < 100 && (this.begin().length > 0 || this.underWay.length > 0); round++)
      this.endAll();
    return this.posted.slice(before).toSorted((a, b) => a - b);
  }

  /** The object restarts: attempts under way are forgotten, and the state is read from storage. */
  restart(): void {
    this.underWay.length = 0;
    this.endpoint = new Endpoint(this.endpoint.webhook, JSON.parse(JSON.stringify(this.state)));
  }

  #begin(sequence: number | null): void {
    this.underWay.push(this.endpoint.begin(sequence));
    this.posted.push(sequence ?? 0);
  }

  #next() {
    return this.endpoint.next(this.now, (query) => this.#read(query));
  }

  #read({ after, limit, kinds }: JournalQuery): JournalPage {
    const { firstKept, last } = this;
    const gap = after < firstKept - 1;
    const events: JournalPage['events'] = [];
    let next = Math.max(after, firstKept - 1);
    for (; next < last && events.length < limit; next++) {
      const kind = this.kinds[next] as EventKind;
      if (kinds && !kinds.includes(kind)) continue;
      events.push({ sequence: next + 1, kind, siteId: 's', body: '' });
    }
    return { events, next, firstKept, last, gap };
  }
}
