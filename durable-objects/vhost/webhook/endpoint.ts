/**
 * Delivery to one webhook [C-12.4]: an ordered cursor on the journal. Which event is next, which are under way, and when
 * the next attempt may begin. It does no work itself: `Webhooks` posts and stores.
 *
 *   cursor ──► done or under way, a window of eight ──► read ahead ──► the journal's last event
 *
 * While the receiver answers, events of the window are under way together. After a failure, and after a pause, only the
 * oldest is tried, and the others wait.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { DisabledReason, WebhookStatus } from '../../../protocol/webhook.ts';
import type { WebhookCopy } from '../../../registry/organization-copy.ts';
import type { JournalQuery } from '../../journal-rpc.ts';
import type { JournalPage } from '../journal/journal.ts';
import type { JournalEvent } from '../journal/line.ts';
import { LONGEST_MS, pauseMs } from './retry.ts';

const READ_AHEAD = 32;
/** How long after an event was delivered more than one may be under way: a receiver that has gone then costs one attempt. */
const TRUSTED_MS = 60_000;

/** What is stored of an endpoint. */
export interface EndpointState {
  /** The URL that this state is about. */
  url: string;
  /** The URL that has answered `webhook.verify`. */
  verifiedUrl: string | null;
  /** Null unless the webhook is disabled. */
  disabled: DisabledReason | null;
  statusAtMs: number;
  /** Whether D1 has the status. */
  isReported: boolean;
  /** All events up to this sequence are delivered, or not wanted. */
  cursor: number;
  /** Delivered events after the cursor. */
  done: number[];
  /** Failed attempts in a row. */
  failures: number;
  failingSinceMs: number | null;
  /** No attempt begins before; null: one may begin now. */
  nextAtMs: number | null;
  /** Events before this sequence were no longer kept when it was their turn. */
  missedBefore: number | null;
  /** When events were last delivered again; absent: never. */
  recoveredAtMs?: number;
}

/** An attempt that is under way. `round`: grows with each failure that counts; an attempt of an older round does not count. */
export interface Begun {
  /** Null: of `webhook.verify`. */
  sequence: number | null;
  url: string;
  round: number;
}

export interface Outcome {
  outcome: 'delivered' | 'failed' | 'gone';
  laterMs: number | null;
}

export class Endpoint {
  #webhook: WebhookCopy;
  readonly #state: EndpointState;
  readonly #underWay = new Set<number>();
  #isVerifying = false;
  #deliveredAtMs = Number.NEGATIVE_INFINITY;
  #round = 0;
  #ahead: JournalEvent[] = [];
  #readTo: number;

  constructor(webhook: WebhookCopy, state: EndpointState) {
    this.#webhook = webhook;
    this.#state = state;
    this.#readTo = state.cursor;
    this.use(webhook, state.statusAtMs);
  }

  /** The state of a new webhook: it gets the events after `cursor`. */
  static begin(url: string, cursor: number, now: number): EndpointState {
    return {
      ...{ url, verifiedUrl: null, disabled: null, statusAtMs: now, isReported: true },
      ...{ cursor, done: [], failures: 0, failingSinceMs: null, nextAtMs: null, missedBefore: null },
    };
  }

  get webhook(): WebhookCopy {
    return this.#webhook;
  }

  get state(): Readonly<EndpointState> {
    return this.#state;
  }

  get status(): WebhookStatus {
    const { disabled, verifiedUrl, url } = this.#state;
    if (disabled !== null) return 'DISABLED';
    return verifiedUrl === url ? 'ENABLED' : 'PENDING';
  }

  // changes by the organization

  /** Takes a changed webhook over. A new URL must be verified first. */
  use(webhook: WebhookCopy, now: number): void {
    this.#webhook = webhook;
    this.#rewind();
    // D1 has a status of later: the one here must get there, whatever the clock of the Worker says.
    if (webhook.statusAtMs > this.#state.statusAtMs) this.#statusChanges(webhook.statusAtMs + 1);
    if (webhook.url === this.#state.url) return;
    this.#state.url = webhook.url;
    this.#deliveredAtMs = Number.NEGATIVE_INFINITY;
    this.#state.verifiedUrl = null;
    this.#state.statusAtMs = now;
    this.enable(now);
  }

  /** Delivers again, from where it stopped. */
  enable(now: number): void {
    if (this.#state.disabled !== null) this.#statusChanges(now);
    this.#state.disabled = null;
    this.#beginAgain();
  }

  /** Until when `recover` is refused [C-15.3]. */
  get recoverableAtMs(): number {
    return (this.#state.recoveredAtMs ?? Number.NEGATIVE_INFINITY) + LIMIT.webhookRecoverMs;
  }

  /** Delivers again all events after this sequence, besides those that are not delivered yet. */
  recover(after: number, now: number): void {
    const state = this.#state;
    state.recoveredAtMs = now;
    state.done = state.done.filter((sequence) => sequence <= after);
    state.cursor = Math.min(state.cursor, after);
    state.missedBefore = null;
    this.#beginAgain();
  }

  reported(): void {
    this.#state.isReported = true;
  }

  // attempts

  /** Whether the receiver must be asked now whether it wants messages. */
  mustVerify(now: number): boolean {
    return this.status === 'PENDING' && !this.#isVerifying && this.#mayBegin(now);
  }

  /**
   * The next event to be posted; undefined if none is, or none may be yet. `mayPost`: asked only when there is an event.
   */
  next(
    now: number,
    read: (query: JournalQuery) => JournalPage,
    mayPost: () => boolean = () => true,
  ): JournalEvent | undefined {
    if (this.status !== 'ENABLED' || !this.#mayBegin(now)) return undefined;
    const { failures, done } = this.#state;
    const isTrusted = failures === 0 && now - this.#deliveredAtMs < TRUSTED_MS;
    const most = isTrusted ? LIMIT.webhookWindow - done.length : 1;
    // The oldest event may always be tried: events after it may have been delivered while it was read again.
    if (this.#underWay.size > 0 && this.#underWay.size >= most) return undefined;
    if (this.#ahead.length === 0) this.#readOn(read);
    while (this.#ahead[0] && !this.#isOpen(this.#ahead[0].sequence)) this.#ahead.shift();
    return this.#ahead.length > 0 && mayPost() ? this.#ahead.shift() : undefined;
  }

  /** Whether the event is neither delivered nor under way. */
  #isOpen(sequence: number): boolean {
    const { cursor, done } = this.#state;
    return sequence > cursor && !done.includes(sequence) && !this.#underWay.has(sequence);
  }

  begin(sequence: number | null): Begun {
    if (sequence === null) this.#isVerifying = true;
    else this.#underWay.add(sequence);
    return { sequence, url: this.#state.url, round: this.#round };
  }

  /** Notes how an attempt ended. Returns true if the status has changed. */
  settle({ sequence, url, round }: Begun, { outcome, laterMs }: Outcome, now: number): boolean {
    if (sequence === null) this.#isVerifying = false;
    else this.#underWay.delete(sequence);
    const before = this.status;
    if (url !== this.#state.url) this.#rewind();
    else if (outcome === 'delivered') this.#delivered(sequence, round, now);
    else {
      this.#rewind();
      if (before !== 'DISABLED' && outcome === 'gone') this.#disable('GONE', now);
      else if (before !== 'DISABLED' && round === this.#round) this.#failed(laterMs, now);
    }
    return this.status !== before;
  }

  /**
   * When this endpoint needs a turn; undefined: when an attempt ends, or an event is stored. `last`: of the journal. Reads
   * on first: events that are not wanted need no turn.
   */
  dueMs(last: number, read: (query: JournalQuery) => JournalPage): number | undefined {
    if (this.status === 'DISABLED' || this.#isVerifying || this.#underWay.size > 0) return undefined;
    const mayRead = this.status === 'ENABLED' && this.#state.nextAtMs === null;
    if (mayRead && this.#ahead.length === 0 && this.#readTo < last) this.#readOn(read);
    const hasWork = this.status === 'PENDING' || this.#ahead.length > 0 || this.#readTo < last;
    return hasWork ? (this.#state.nextAtMs ?? 0) : undefined;
  }

  #mayBegin(now: number): boolean {
    return this.#state.nextAtMs === null || this.#state.nextAtMs <= now;
  }

  /** Reads one page. It may have none of the wanted events: then the next turn reads on. */
  #readOn(read: (query: JournalQuery) => JournalPage): void {
    const { types: kinds, siteIds } = this.#webhook;
    const page = read({ after: this.#readTo, limit: READ_AHEAD, kinds, siteIds: siteIds ?? undefined });
    if (page.gap) this.#state.missedBefore = page.firstKept;
    this.#ahead = page.events;
    this.#readTo = page.next;
    this.#moveCursor();
  }

  #delivered(sequence: number | null, round: number, now: number): void {
    if (sequence === null) {
      this.#state.verifiedUrl = this.#state.url;
      this.#statusChanges(now);
    } else {
      this.#deliveredAtMs = now;
      if (sequence > this.#state.cursor) this.#state.done.push(sequence);
    }
    if (round === this.#round) this.#succeed();
    this.#moveCursor();
  }

  #beginAgain(): void {
    this.#succeed();
    this.#round += 1;
    this.#rewind();
  }

  #succeed(): void {
    Object.assign(this.#state, { failures: 0, failingSinceMs: null, nextAtMs: null });
  }

  #failed(laterMs: number | null, now: number): void {
    const state = this.#state;
    this.#round += 1;
    state.failingSinceMs ??= now;
    // A receiver that asks for a later attempt uses up no attempt, but it cannot ask for ever.
    if (laterMs === null) state.failures += 1;
    else state.failures = Math.max(state.failures, 1);
    const pause = laterMs ?? pauseMs(state.failures);
    const isOver = laterMs !== null && now - state.failingSinceMs >= LONGEST_MS;
    if (pause === undefined || isOver) this.#disable('ATTEMPTS_FAILED', now);
    else state.nextAtMs = now + pause;
  }

  #disable(reason: DisabledReason, now: number): void {
    this.#state.disabled = reason;
    this.#state.nextAtMs = null;
    this.#statusChanges(now);
  }

  #statusChanges(now: number): void {
    this.#state.statusAtMs = Math.max(now, this.#state.statusAtMs + 1);
    this.#state.isReported = false;
  }

  /** Forgets what was read ahead: the events after the cursor are read again. */
  #rewind(): void {
    this.#ahead = [];
    this.#readTo = this.#state.cursor;
  }

  /** Moves the cursor to the last event before the first one that is not delivered. */
  #moveCursor(): void {
    const state = this.#state;
    const unread = this.#ahead.find(({ sequence }) => this.#isOpen(sequence));
    const open = [...this.#underWay, ...(unread ? [unread.sequence] : [])];
    const before = open.length > 0 ? Math.min(...open) - 1 : this.#readTo;
    state.cursor = Math.max(state.cursor, Math.min(before, this.#readTo));
    state.done = state.done.filter((sequence) => sequence > state.cursor);
  }
}
