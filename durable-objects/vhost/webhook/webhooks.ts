/**
 * The webhooks of a key [C-12.4]: posts the stored events of the journal, and stores how far each webhook is delivered.
 *
 *   turn that stores events ─► show ─► attempts under way ─► state in memory ─► stored together, within a second
 *
 * An event is posted again if the object ends before it has stored that the event is delivered. Each attempt has a
 * deadline on the agenda, so an object that ends in between wakes and goes on.
 */
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { EVENT_KINDS } from '../../../protocol/routing-keys.ts';
import type { WebhookAttempt } from '../../../protocol/webhook.ts';
import type { WebhookCopy } from '../../../registry/organization-copy.ts';
import type { WebhookStatusChange } from '../../../registry/webhook-status.ts';
import type { OwnCounts } from '../../metrics/counts.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { EventJournal } from '../journal/journal.ts';
import { isMarked } from '../journal/marks.ts';
import { sequenceBefore } from '../journal/since.ts';
import { type AllowanceHost, type Held, PostAllowance } from './allowance.ts';
import { AttemptLog } from './attempt-log.ts';
import { Endpoint } from './endpoint.ts';
import { messageOf, verifyMessage } from './message.ts';
import type { Posted, WebhookMessage } from './post.ts';
import type { WebhookRows } from './rows.ts';
import { type SenderHost, send } from './sender.ts';
import { StatusReports } from './status-reports.ts';

/** How long the state of a webhook may be only in memory. */
const STORE_MS = 1_000;
/** The most attempts that are not stored: then all are stored at once. A crash repeats no more than these. */
const MAX_UNSTORED = 200;
/** Attempts that one call or alarm begins. Cloudflare limits the requests of each; the next alarm goes on. */
const ATTEMPTS_PER_RUN = 500;
/** How often a post apart looks whether another call has its answer about posts. */
const ASKING_LOOK_MS = 20;
const COPY_RETRY_MS = 60_000;
/** After so many events that a webhook does not want, its cursor is stored. */
const PASSED_EVENTS = 256;

export interface WebhooksHost extends SenderHost {
  turns: Turns;
  counts: OwnCounts;
  journal: EventJournal;
  rows: WebhookRows;
  allowance: Pick<AllowanceHost, 'ceilings' | 'lease'>;
  /** Whether the key and its organization get events now. False while the Vhost has no copy of the registry. */
  mayDeliver(): boolean;
  /** Reads the copy of the registry again in the background if it is old, or absent. */
  keepUp(): void;
  writeStatus(change: WebhookStatusChange): Promise<void>;
  keepAlive(work: Promise<void>): void;
  /** Due times may have changed. */
  changed(): void;
}

interface Live {
  endpoint: Endpoint;
  log: AttemptLog;
  /** The cursor that is stored. */
  storedCursor: number;
  /** Posts under way. */
  posting: number;
  isPostingApart: boolean;
}

/** How many more attempts a call or alarm may begin. */
interface Run {
  left: number;
}

export class Webhooks implements DueSource {
  readonly name = 'webhooks';
  readonly #host: WebhooksHost;
  readonly #live = new Map<string, Live>();
  readonly #dirty = new Set<string>();
  readonly #allowance: PostAllowance;
  readonly #reports: StatusReports;
  #isStoring = false;
  /** The turn that stores states begins no attempts: they belong to the run of the attempts before. */
  #isOwnTurn = false;
  /** When to read the copy of the registry: webhooks are stored, but the copy is not. Undefined: it is there. */
  #copyAtMs: number | undefined;
  /** A run has begun as many attempts as it may. */
  #mustGoOn = false;
  /** Posts under way of all webhooks, besides those apart from the order. */
  #posting = 0;
  #attempts = { delivered: 0, failed: 0 };
  #disabled = { GONE: 0, ATTEMPTS_FAILED: 0 };

  /** `webhooks`: those of the stored copy of the registry; undefined: there is no copy. */
  constructor(host: WebhooksHost, webhooks: readonly WebhookCopy[] | undefined) {
    this.#host = host;
    const { clock, calls, allowance } = host;
    this.#allowance = new PostAllowance({
      ...allowance,
      now: () => clock.now(),
      until: (deadlineMs, work) => calls.until(deadlineMs, work),
    });
    this.#reports = new StatusReports({
      ...host,
      settled: (id) => {
        if (this.#live.has(id)) this.#dirty.add(id);
        this.#storeLater();
      },
    });
    const stored = host.rows.all();
    for (const { id, state, recent } of stored) {
      const webhook = webhooks?.find((one) => one.id === id);
      if (webhook) this.#add(new Endpoint(webhook, state), recent);
    }
    if (stored.length > this.#live.size) this.#copyAtMs = 0;
  }

  get wantTelemetry(): boolean {
    return [...this.#live.values()].some(({ endpoint }) => endpoint.webhook.types.includes('telemetry'));
  }

  get(id: string): Pick<Live, 'endpoint' | 'log'> | undefined {
    return this.#live.get(id);
  }

  /** Takes over the webhooks of the registry. A new one gets the events since its creation. */
  use(turn: Turn, webhooks: readonly WebhookCopy[]): void {
    const { rows, journal } = this.#host;
    const known = new Map(this.#live);
    turn.undo(() => {
      this.#live.clear();
      for (const [id, live] of known) this.#live.set(id, live);
    });
    const stored = rows.all();
    for (const { id } of stored) {
      if (webhooks.some((webhook) => webhook.id === id)) continue;
      rows.delete(turn, id);
      this.#live.delete(id);
    }
    for (const webhook of webhooks) {
      const row = stored.find(({ id }) => id === webhook.id);
      const live = this.#live.get(webhook.id);
      if (live) {
        live.endpoint.use(webhook, turn.now);
        this.#dirty.add(webhook.id);
        continue;
      }
      const state =
        row?.state ?? Endpoint.begin(webhook.url, sequenceBefore(journal, webhook.createdAtMs), turn.now);
      const { endpoint, log } = this.#add(new Endpoint(webhook, state), row?.recent ?? []);
      rows.set(turn, webhook.id, endpoint.state, log.recent);
    }
    this.#copyAtMs = undefined;
    if (this.#dirty.size > 0) turn.send(() => this.#storeLater());
  }

  /** Forgets all webhooks after their tables were deleted. */
  clear(): void {
    this.#live.clear();
    this.#dirty.clear();
    this.#copyAtMs = undefined;
  }

  /** Must be called after each turn: begins the attempts that are due. */
  show(): void {
    const { clock, mayDeliver, keepUp } = this.#host;
    if (this.#isOwnTurn || (this.#live.size === 0 && this.#copyAtMs === undefined)) return;
    if (this.#copyAtMs !== undefined) this.#copyAtMs = clock.now() + COPY_RETRY_MS;
    keepUp();
    if (!mayDeliver()) return;
    const run: Run = { left: ATTEMPTS_PER_RUN };
    this.#mustGoOn = false;
    for (const live of [...this.#live.values()]) {
      this.#begin(live, run);
      this.#reports.report(live.endpoint);
      this.#storePassed(live);
    }
  }

  /** Why the posts of a webhook wait for the next minute; undefined: they do not. */
  held(id: string): Held | undefined {
    const live = this.#live.get(id);
    return live && this.#allowance.held(live.endpoint.webhook.url);
  }

  /**
   * Posts a message once, apart from the order of the events. `busy`: such a post of the webhook is under way. Returns
   * why if posts must wait.
   */
  async postApart(id: string, message: WebhookMessage): Promise<WebhookAttempt | Held | 'busy'> {
    const live = this.#live.get(id);
    if (!live || live.isPostingApart) return 'busy';
    live.isPostingApart = true;
    try {
      const { url } = live.endpoint.webhook;
      while (!this.#allowance.has(url)) {
        const held = this.#allowance.held(url);
        if (held) return held;
        // Another call may be asking: its answer cannot be awaited here, only looked for.
        await (this.#allowance.take(url) ?? scheduler.wait(ASKING_LOOK_MS));
      }
      this.#allowance.spend(url);
      const atMs = this.#host.clock.now();
      const posted = await send(this.#host, live.endpoint.webhook, message);
      if (posted.outcome === 'delivered') this.#confirm(live.endpoint, message);
      return this.#note(live, atMs, message, posted);
    } finally {
      live.isPostingApart = false;
      // Events may have waited for what this call has asked for.
      this.#beginAll({ left: ATTEMPTS_PER_RUN });
    }
  }

  /** Stores the state of a webhook that the organization has changed, and begins its attempts. */
  changed(id: string): void {
    this.#dirty.add(id);
    this.#store();
    this.show();
    this.#host.changed();
  }

  // agenda

  dueMs(): number | undefined {
    if (this.#copyAtMs !== undefined) return this.#copyAtMs;
    if (this.#live.size === 0 || !this.#host.mayDeliver()) return undefined;
    const all = [...this.#live.values()];
    const { journal } = this.#host;
    const dueOf = ({ endpoint }: Live) => {
      const dueMs = endpoint.dueMs(journal.last, (query) => journal.read(query));
      const { url } = endpoint.webhook;
      // The answer to a question for posts begins what is due.
      if (dueMs === undefined || this.#allowance.isAsking(url)) return undefined;
      return Math.max(dueMs, this.#allowance.held(url)?.untilMs ?? 0);
    };
    // While all post slots are taken, the next post starts when one ends.
    const isFull = this.#posting >= LIMIT.webhookPostsOfKey;
    const attempts = this.#mustGoOn ? [0] : isFull ? [] : all.map(dueOf);
    const reports = all.map(({ endpoint }) => this.#reports.dueMs(endpoint));
    return earliest([...attempts, ...reports]);
  }

  /** `show`, which follows each turn, does what is due. */
  run(): void {}

  // attempts

  #add(endpoint: Endpoint, recent: WebhookAttempt[]): Live {
    const { id } = endpoint.webhook;
    const log = new AttemptLog(this.#host.rows, id, recent);
    const storedCursor = endpoint.state.cursor;
    const live = { endpoint, log, storedCursor, posting: 0, isPostingApart: false };
    this.#live.set(id, live);
    return live;
  }

  #begin(live: Live, run: Run): void {
    const { clock, journal, mayDeliver } = this.#host;
    const { endpoint } = live;
    if (!mayDeliver()) return;
    const now = clock.now();
    if (this.#posting < LIMIT.webhookPostsOfKey && endpoint.mustVerify(now) && this.#isAllowed(live, run))
      this.#attempt(live, verifyMessage(endpoint.webhook.id, now), run);
    for (; run.left > 0 && this.#hasPlace(live); ) {
      const isAllowed = () => this.#isAllowed(live, run);
      const event = endpoint.next(now, (query) => journal.read(query), isAllowed);
      if (!event) return;
      this.#attempt(live, messageOf(event), run);
    }
    if (run.left <= 0) this.#mustGoOn = true;
  }

  /**
   * Cloudflare lets six requests of an object wait for the head of their answer. One webhook leaves a place to the others.
   */
  #hasPlace({ posting }: Live): boolean {
    return posting < LIMIT.webhookPosts && this.#posting < LIMIT.webhookPostsOfKey;
  }

  /** Whether a post may begin. If that is not known, asks, and then goes on. */
  #isAllowed(live: Live, run: Run): boolean {
    const { url } = live.endpoint.webhook;
    if (this.#allowance.has(url)) return true;
    const taken = this.#allowance.take(url);
    if (taken) this.#host.keepAlive(taken.then(() => this.#beginAll(run)));
    return false;
  }

  #beginAll(run: Run): void {
    for (const one of [...this.#live.values()]) this.#begin(one, run);
    this.#host.changed();
  }

  #attempt(live: Live, message: WebhookMessage, run: Run): void {
    run.left -= 1;
    this.#allowance.spend(live.endpoint.webhook.url);
    this.#host.keepAlive(this.#tryOnce(live, message, run));
  }

  async #tryOnce(live: Live, message: WebhookMessage, run: Run): Promise<void> {
    const { endpoint } = live;
    const begun = endpoint.begin(message.sequence);
    this.#posting += 1;
    live.posting += 1;
    const { clock } = this.#host;
    const atMs = clock.now();
    const posted = await send(this.#host, endpoint.webhook, message);
    this.#posting -= 1;
    live.posting -= 1;
    const hasStatusChanged = endpoint.settle(begun, posted, clock.now());
    if (posted.outcome === 'delivered') this.#confirm(endpoint, message);
    this.#note(live, atMs, message, posted);
    const isThere = this.#live.get(endpoint.webhook.id) === live;
    if (isThere && hasStatusChanged) {
      const { disabled } = endpoint.state;
      if (disabled !== null) this.#disabled[disabled] += 1;
      this.#store();
      this.#reports.report(endpoint);
    }
    // Others may have waited for the place.
    this.#beginAll(run);
  }

  #confirm({ webhook }: Endpoint, { id: messageId, type, timestamp }: WebhookMessage): void {
    if (!EVENT_KINDS.some((kind) => kind === type && isMarked(kind))) return;
    const { clock, journal } = this.#host;
    const madeAtMs = Date.parse(timestamp);
    journal.confirm({ messageId, madeAtMs, atMs: clock.now(), by: `webhook ${webhook.id}` });
  }

  /** Adds an attempt to the log. */
  #note(live: Live, atMs: number, message: WebhookMessage, posted: Posted): WebhookAttempt {
    const { id: messageId, type, sequence } = message;
    const { outcome, status, answer, error } = posted;
    const isDelivered = outcome === 'delivered';
    this.#attempts[isDelivered ? 'delivered' : 'failed'] += 1;
    const durationMs = Math.max(0, this.#host.clock.now() - atMs);
    const at = formatInstant(atMs);
    const attempt = { at, type, messageId, sequence, isDelivered, status, durationMs, answer, error };
    live.log.add(attempt);
    const { id } = live.endpoint.webhook;
    if (this.#live.get(id) === live) {
      this.#dirty.add(id);
      if (this.#attempts.delivered + this.#attempts.failed >= MAX_UNSTORED) this.#store();
      else this.#storeLater();
    }
    return attempt;
  }

  // storing

  #storeLater(): void {
    if (this.#isStoring) return;
    this.#isStoring = true;
    const stored = new Promise<void>((resolve) => setTimeout(resolve, STORE_MS)).then(() => {
      this.#isStoring = false;
      if (this.#dirty.size > 0) this.#store();
    });
    this.#host.keepAlive(stored);
  }

  /** Events that are not wanted move the cursor, too: after many it is stored, so that a wake does not read them again. */
  #storePassed({ endpoint, storedCursor }: Live): void {
    if (endpoint.state.cursor - storedCursor < PASSED_EVENTS) return;
    this.#dirty.add(endpoint.webhook.id);
    this.#storeLater();
  }

  #store(): void {
    this.#isOwnTurn = true;
    try {
      this.#host.turns.run((turn) => this.#storeDirty(turn));
    } finally {
      this.#isOwnTurn = false;
    }
  }

  #storeDirty(turn: Turn): void {
    const { rows, counts, journal } = this.#host;
    if (journal.hasConfirmations) journal.flush(turn, false);
    for (const id of this.#dirty) {
      const live = this.#live.get(id);
      if (!live) continue;
      live.log.store(turn);
      rows.set(turn, id, live.endpoint.state, live.log.recent);
      live.storedCursor = live.endpoint.state.cursor;
    }
    this.#dirty.clear();
    for (const outcome of ['delivered', 'failed'] as const)
      counts.add(turn, `webhook_attempts/${outcome}`, this.#attempts[outcome]);
    this.#attempts = { delivered: 0, failed: 0 };
    for (const reason of ['GONE', 'ATTEMPTS_FAILED'] as const)
      counts.add(turn, `webhooks_disabled/${reason}`, this.#disabled[reason]);
    this.#disabled = { GONE: 0, ATTEMPTS_FAILED: 0 };
  }
}
