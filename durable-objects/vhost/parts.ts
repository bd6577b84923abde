/** Creates and connects the parts of one vhost when the object is loaded. The Vhost class and the rules use them. */
import { LIMIT } from '../../protocol/limits.ts';
import { CLOSE_CODES } from '../../protocol/link/live.ts';
import type { QueueName } from '../../protocol/routing-keys.ts';
import { type OrganizationCopy, readOrganization } from '../../registry/organization-copy.ts';
import { type WebhookStatusChange, writeWebhookStatus } from '../../registry/webhook-status.ts';
import { webhookUrlFaultIn } from '../../registry/webhook-url.ts';
import { markUsed, writeRevoked } from '../../registry/writes.ts';
import { SeenConnections } from '../dial.ts';
import type { Env } from '../env.ts';
import { OwnCounts } from '../metrics/counts.ts';
import { anyCounting } from '../metrics/report.ts';
import { Calls } from '../object/calls.ts';
import { Clock } from '../object/clock.ts';
import type { Fence } from '../object/fence.ts';
import { KeyValues } from '../object/key-values.ts';
import { reasonOf } from '../object/reason.ts';
import { RegistryCopy } from '../object/registry-copy.ts';
import { Sql } from '../object/sql.ts';
import { Streams } from '../object/streams.ts';
import { type Turn, Turns } from '../object/turn.ts';
import { objectNamed } from '../object-id.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { ClientSockets } from './client/sockets.ts';
import { Broker } from './delivery/broker.ts';
import { Outflow } from './delivery/outflow.ts';
import { ConsumerRows } from './delivery/rows.ts';
import { EventIntake } from './event/intake.ts';
import { EventStore } from './event/store.ts';
import { EventJournal, type JournalBounds } from './journal/journal.ts';
import { JournalRows } from './journal/rows.ts';
import { Ending } from './key/ending.ts';
import { Key, type VhostFact } from './key/key.ts';
import { PublishRate } from './publish/publish-rate.ts';
import { Publisher } from './publish/publisher.ts';
import { PartnerQueueRows } from './queue/partner-queues.ts';
import { Queues } from './queue/queues.ts';
import { type Message, QueueRows, type Safety } from './queue/rows.ts';
import { WebhookRows } from './webhook/rows.ts';
import { Webhooks } from './webhook/webhooks.ts';

/** The tables whose rows are deleted when the key ends, besides `received`, which `EventIntake` deletes. */
const KEY_TABLES = [
  'connection',
  'consumer',
  'channel_limit',
  'queue',
  'chunk',
  'partner_queue',
  'binding',
  'journal',
  'journaled',
  'webhook',
  'webhook_attempts',
];
const DAY_MS = 24 * 60 * 60_000;

export class VhostParts {
  readonly clock = new Clock();
  readonly turns: Turns;
  readonly calls: Calls;
  readonly key: Key;
  readonly counts: OwnCounts;
  readonly ending: Ending;
  readonly sockets: ClientSockets;
  readonly organization: OrganizationCopy;
  readonly journal: EventJournal;
  readonly streams: Streams;
  readonly webhooks: Webhooks;
  readonly intake: EventIntake;
  readonly outflow: Outflow;
  readonly store: EventStore;
  readonly publisher: Publisher;
  readonly rate = new PublishRate();
  /** The rate of dry runs. */
  readonly dryRuns = new PublishRate();
  readonly database: D1Database;
  readonly keepAlive: (work: Promise<void>) => void;
  readonly #consumerRows: ConsumerRows;
  readonly #queueRows: QueueRows;
  readonly #partnerQueueRows: PartnerQueueRows;
  #broker: Broker;

  /** `onKeyEnd`: the key has expired; called in the turn that notices it. `onChange`: due times may have changed; with `dueMs` only this one is new. */
  constructor(
    ctx: DurableObjectState,
    env: Env,
    fence: Fence,
    onKeyEnd: (turn: Turn) => void,
    onChange: (dueMs?: number) => void,
  ) {
    const { clock } = this;
    const sql = new Sql(ctx.storage);
    const keyValues = new KeyValues<VhostFact>(sql);
    const keepAlive = (work: Promise<void>) => ctx.waitUntil(work);
    const written = () => ctx.storage.sync();
    this.keepAlive = keepAlive;
    this.database = env.DB;
    const broker = () => this.#broker;
    const ended = () => {
      this.counts.report();
      this.streams.show();
      this.webhooks.show();
      onChange();
    };
    this.turns = new Turns(ctx, clock, { ending: (turn) => this.save(turn), ended }, fence);
    this.calls = new Calls(clock, onChange);
    this.#consumerRows = new ConsumerRows(sql);
    this.#queueRows = new QueueRows(sql);
    this.#partnerQueueRows = new PartnerQueueRows(sql);
    this.counts = new OwnCounts({
      ...{ clock, calls: this.calls, keepAlive, changed: onChange },
      report: (counts) => anyCounting(env).add(counts),
    });
    const secrets = new SecretBox(env.DATA_KEYS);
    this.key = new Key(keyValues, secrets, onKeyEnd);
    this.ending = new Ending(keyValues, {
      clock,
      turns: this.turns,
      write: (unwritten) => writeRevoked(env.DB, unwritten),
      until: (deadlineMs, work) => this.calls.until(deadlineMs, work),
      keepAlive,
    });
    this.sockets = new ClientSockets(ctx, sql, new SeenConnections(sql), clock);
    this.organization = new RegistryCopy(keyValues, {
      clock,
      turns: this.turns,
      read: () => this.key.record && readOrganization(env.DB, this.key.record),
      keepAlive,
      onChange: (turn, record) => {
        if (record && !this.hasEnded()) this.webhooks.use(turn, record.webhooks);
        if (!record?.isSuspended) return;
        this.closeConnections(turn, this.sockets.ids(), CLOSE_CODES.revoked, 'organization suspended');
        this.streams.closeAll(turn, CLOSE_CODES.revoked, 'organization suspended');
      },
    });
    this.#broker = this.#readBroker();
    this.journal = new EventJournal({
      rows: new JournalRows(sql),
      retentionMs: () =>
        DAY_MS * (this.organization.record?.journalRetentionDays ?? LIMIT.journalRetentionDays),
      isAwaited: (kinds) => this.streams.isAwaited(kinds),
      wantsTelemetry: () => this.webhooks.wantTelemetry,
      countDeleted: (turn, why, events) => this.counts.add(turn, `journal_deleted/${why}`, events),
      bounds: {
        get: () => keyValues.get<JournalBounds>('journal'),
        set: (turn, bounds) => {
          keyValues.set(turn, 'journal', bounds);
          // A key that has no client yet has no copy of the organization's retention.
          if (!this.organization.record) turn.send(() => this.organization.keepUp());
        },
      },
    });
    this.streams = new Streams({
      ...{ ctx, clock, turns: this.turns, source: this.journal, keepAlive },
      most: LIMIT.streamsPerKey,
    });
    const webhooksHost = {
      ...{ clock, turns: this.turns, calls: this.calls, counts: this.counts, journal: this.journal },
      ...{ rows: new WebhookRows(sql), secrets, keepAlive },
      urlFault: (url: string) => webhookUrlFaultIn(env, url),
      allowance: {
        ceilings: () => this.organization.record?.webhookPosts,
        lease: (name: string, perMinute: number, count: number) =>
          objectNamed(env, 'REQUESTS', name).lease(perMinute, count),
      },
      fetch: (url: string, init: RequestInit) =>
        env.WEBHOOK_EGRESS ? env.WEBHOOK_EGRESS.fetch(url, init) : fetch(url, init),
      mayDeliver: () => this.organization.record?.isSuspended === false && !this.hasEnded(),
      keepUp: () => this.organization.keepUp(),
      writeStatus: (change: WebhookStatusChange) =>
        writeWebhookStatus(env.DB, this.key.record?.organizationId ?? '', change),
      changed: onChange,
    };
    this.webhooks = new Webhooks(webhooksHost, this.organization.record?.webhooks);
    const queues = {
      push: (turn: Turn, queue: QueueName, message: Message, safety: Safety | undefined) =>
        this.#broker.publish(turn, queue, message, safety),
      firstKept: (siteId: string) => this.#broker.queues.firstKept(siteId),
    };
    this.intake = new EventIntake(sql, this.key, queues, this.journal);
    const { turns, sockets } = this;
    const hasUnstored = () => this.hasUnstored;
    const store = (turn: Turn) => this.storeAll(turn);
    const taken = () => this.noteUse();
    this.outflow = new Outflow({ turns, sockets, broker, hasUnstored, store, keepAlive, taken });
    this.store = new EventStore({
      turns: this.turns,
      outflow: this.outflow,
      broker,
      hasEnded: () => this.hasEnded(),
      written,
      keepAlive,
    });
    const { calls, key, counts, organization, intake, outflow } = this;
    const siteOf = (siteId: string) => objectNamed(env, 'SITE', siteId);
    this.publisher = new Publisher({
      clock,
      calls,
      key,
      counts,
      organization,
      intake,
      store: this.store,
      outflow,
      siteOf,
      keepAlive,
    });
  }

  get broker(): Broker {
    return this.#broker;
  }

  /** The publish rate of each key, from the organization's settings. */
  get publishesPerSecond(): number {
    return this.organization.record?.publishRatePerSecond ?? LIMIT.publishesPerSecond;
  }

  /** A client connected, published or received something: updates `lastUsedAt`, exact to a minute [C-5.2]. */
  noteUse(): void {
    const { record } = this.key;
    const now = this.clock.now();
    if (!record || this.key.hasEnded(now) || !this.sockets.noteUse(now)) return;
    const used = markUsed(this.database, { id: record.keyId, lastUsedAtMs: null }, now);
    this.keepAlive(
      used.catch((error: unknown) => {
        console.warn(
          'lastUsedAt of an API key not written by its vhost, its first use after a minute writes it',
          {
            keyId: record.keyId,
            reason: reasonOf(error),
          },
        );
      }),
    );
  }

  hasEnded(): boolean {
    return this.key.hasEnded(this.clock.now());
  }

  /** Whether any event, or state of events, is only in memory. */
  get hasUnstored(): boolean {
    return this.#broker.queues.hasUnstored || this.intake.hasUnstored || this.journal.hasConfirmations;
  }

  /**
   * Stores everything that is only in memory, in all queues and in the journal at once: the vhost remembers only one
   * sequence per site, which must cover all earlier events.
   */
  storeAll(turn: Turn): void {
    this.#broker.queues.flush(turn);
    this.intake.save(turn);
    this.journal.flush(turn, true);
  }

  /** Stores the journal's events that are only in memory, and deletes those that are too old. */
  keepJournal(turn: Turn): void {
    this.undoBroker(turn);
    this.storeAll(turn);
    if (!this.organization.record) turn.send(() => this.organization.keepUp());
    this.journal.dropAged(turn, this.organization.record !== undefined);
  }

  /**
   * Stores what must not be only in memory; called last in each turn. Leased events may be stored a moment
   * later, because their site still has them or they are telemetry.
   */
  save(turn: Turn): void {
    if (this.#broker.queues.mustStore) this.storeAll(turn);
    else if (this.journal.mustStore(turn.now)) this.journal.flush(turn, false);
    this.#broker.queues.save(turn);
  }

  /**
   * If the step fails, the broker is rebuilt from storage and loses everything that is only in memory, so
   * store that first. Sites send the events that they keep again; telemetry is lost, as in a crash [C-6.4].
   */
  undoBroker(turn: Turn): void {
    turn.undo(() => {
      this.#broker = this.#readBroker();
      this.intake.reload();
      this.journal.reload();
    });
  }

  /** Ends connections: removes their consumers and puts their leased messages back for other consumers. */
  closeConnections(turn: Turn, ids: readonly string[], code?: number, reason?: string): void {
    this.undoBroker(turn);
    for (const id of ids) this.sockets.drop(turn, id, code, reason);
    for (const id of ids) {
      this.#broker.closeReader(turn, id);
      this.rate.forget(id);
    }
  }

  /** Deletes all connections, consumers, queues and messages of the key. */
  deleteAll(turn: Turn): void {
    this.undoBroker(turn);
    for (const table of KEY_TABLES) turn.write(`DELETE FROM ${table}`);
    this.intake.clear(turn);
    this.#broker = this.#readBroker();
    this.journal.reload();
    this.webhooks.clear();
  }

  #readBroker(): Broker {
    const queues = new Queues({
      rows: this.#queueRows,
      partnerQueueRows: this.#partnerQueueRows,
      slug: () => this.key.names.slug,
      isConnected: (id) => this.sockets.isConnected(id),
    });
    return new Broker({
      ...{ queues, consumerRows: this.#consumerRows, connections: this.sockets, clock: this.clock },
      confirmed: (confirmation) => this.journal.confirm(confirmation),
    });
  }
}
