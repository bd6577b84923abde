/** The parts of one vhost, made once a wake and put together here. Hub and rules take what they need from them. */
import { LIMIT } from '../../protocol/limits.ts';
import type { Env } from '../env.ts';
import { OwnCounts } from '../figures/counts.ts';
import { figuresOf } from '../figures/stub.ts';
import { Calls } from '../object/calls.ts';
import { Clock } from '../object/clock.ts';
import { Facts } from '../object/facts.ts';
import { reasonOf } from '../object/reason.ts';
import { SeenConnections } from '../object/seen-connections.ts';
import { Sql } from '../object/sql.ts';
import { type Turn, Turns } from '../object/turn.ts';
import { markUsed, writeRevoked } from '../registry/key-use.ts';
import { OrganizationCopy } from '../registry/organization-copy.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { ConnectionRows } from './client/rows.ts';
import { ClientSockets } from './client/sockets.ts';
import { Broker } from './delivery/broker.ts';
import { Outflow } from './delivery/outflow.ts';
import { ConsumerRows } from './delivery/rows.ts';
import { EventIntake } from './event/intake.ts';
import { ReceivedRows } from './event/rows.ts';
import { EventStore } from './event/store.ts';
import { Ending } from './key/ending.ts';
import { Key, type VhostFact } from './key/key.ts';
import { PublishRate } from './publish/publish-rate.ts';
import { Publisher } from './publish/publisher.ts';
import { OwnQueueRows } from './queue/own-rows.ts';
import { Queues } from './queue/queues.ts';
import { QueueRows } from './queue/rows.ts';

export class VhostParts {
  readonly clock = new Clock();
  readonly turns: Turns;
  readonly calls: Calls;
  readonly key: Key;
  readonly counts: OwnCounts;
  readonly ending: Ending;
  readonly sockets: ClientSockets;
  readonly organization: OrganizationCopy;
  readonly intake: EventIntake;
  readonly outflow: Outflow;
  readonly store: EventStore;
  readonly publisher: Publisher;
  readonly rate = new PublishRate();
  readonly database: D1Database;
  readonly keepAlive: (work: Promise<void>) => void;
  readonly #connectionRows: ConnectionRows;
  readonly #consumerRows: ConsumerRows;
  readonly #queueRows: QueueRows;
  readonly #ownQueueRows: OwnQueueRows;
  #broker: Broker;

  /** `onKeyEnd`: the key's time is over, in this turn. `onChange`: due times may have changed. */
  constructor(ctx: DurableObjectState, env: Env, onKeyEnd: (turn: Turn) => void, onChange: () => void) {
    const { clock } = this;
    const sql = new Sql(ctx.storage);
    const facts = new Facts<VhostFact>(sql);
    const keepAlive = (work: Promise<void>) => ctx.waitUntil(work);
    const written = () => ctx.storage.sync();
    this.keepAlive = keepAlive;
    this.database = env.DB;
    const broker = () => this.#broker;
    const ended = () => {
      this.counts.tell();
      onChange();
    };
    this.turns = new Turns(ctx, clock, { ending: (turn) => this.#save(turn), ended });
    this.calls = new Calls(clock, onChange);
    this.#connectionRows = new ConnectionRows(sql);
    this.#consumerRows = new ConsumerRows(sql);
    this.#queueRows = new QueueRows(sql);
    this.#ownQueueRows = new OwnQueueRows(sql);
    this.counts = new OwnCounts({ clock, tell: (counts) => figuresOf(env).add(counts), keepAlive });
    this.key = new Key(facts, new SecretBox(env.DATA_KEYS), onKeyEnd);
    this.ending = new Ending(facts, {
      clock,
      turns: this.turns,
      write: ({ keyId, revokedAtMs }) => writeRevoked(env.DB, keyId, revokedAtMs),
      until: (deadlineMs, work) => this.calls.until(deadlineMs, work),
      keepAlive,
    });
    this.sockets = new ClientSockets(ctx, this.#connectionRows, new SeenConnections(sql), clock);
    this.organization = new OrganizationCopy(facts, this.turns, clock, env.DB);
    this.#broker = this.#readBroker();
    this.intake = new EventIntake(new ReceivedRows(sql), this.key, {
      push: (turn, queue, message, keptBy) => this.#broker.publish(turn, queue, message, keptBy),
      firstKept: (siteId) => this.#broker.queues.firstKept(siteId),
    });
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
    const sites = env.SITE;
    this.publisher = new Publisher({
      clock,
      calls,
      key,
      counts,
      organization,
      intake,
      store: this.store,
      outflow,
      sites,
      keepAlive,
    });
  }

  get broker(): Broker {
    return this.#broker;
  }

  /** What the organization's setting allows a key to publish. */
  get publishesPerSecond(): number {
    return this.organization.record?.publishRatePerSecond ?? LIMIT.publishesPerSecond;
  }

  /** A client published or took something: `lastUsedAt`, exact to a minute [C-5.2]. */
  noteUse(): void {
    const { record } = this.key;
    const now = this.clock.now();
    if (!record || this.key.hasEnded(now) || !this.sockets.noteUse(now)) return;
    const used = markUsed(this.database, { id: record.keyId, lastUsedAtMs: null }, now);
    this.keepAlive(
      used.catch((error: unknown) => {
        console.warn('lastUsedAt not written', { keyId: record.keyId, reason: reasonOf(error) });
      }),
    );
  }

  hasEnded(): boolean {
    return this.key.hasEnded(this.clock.now());
  }

  /** Whether something of events is in memory alone. */
  get hasUnstored(): boolean {
    return this.#broker.queues.hasUnstored || this.intake.hasUnstored;
  }

  /** Nothing of events is in memory alone behind it. */
  storeAll(turn: Turn): void {
    this.#broker.queues.flush(turn);
    this.#storeNew(turn);
  }

  /** Last in each turn. What a client holds may stay in memory alone for a moment: its site keeps it. */
  #save(turn: Turn): void {
    if (this.#broker.queues.mustStore) this.#storeNew(turn);
    this.#broker.queues.save(turn);
  }

  /** All at once: what is known of a site's events is a place in their order. */
  #storeNew(turn: Turn): void {
    this.#broker.queues.storeNew(turn);
    this.intake.save(turn);
  }

  /**
   * When the step falls the broker is made anew from what is stored. What is in memory alone goes with it: store it
   * first. What its sites keep comes again; telemetry is lost, as in a crash [C-6.4].
   */
  undoBroker(turn: Turn): void {
    turn.undo(() => {
      this.#broker = this.#readBroker();
      this.intake.reload();
    });
  }

  /** Ends connections: what they held goes back, their consumers are gone, others take over. */
  closeConnections(turn: Turn, ids: readonly string[], code?: number, reason?: string): void {
    this.undoBroker(turn);
    for (const id of ids) this.sockets.drop(turn, id, code, reason);
    for (const id of ids) {
      this.#broker.closeConnection(turn, id);
      this.rate.forget(id);
    }
  }

  /** Everything that a key's clients left. */
  deleteAll(turn: Turn): void {
    this.undoBroker(turn);
    this.#connectionRows.deleteAll(turn);
    this.#consumerRows.deleteAll(turn);
    this.#queueRows.deleteAll(turn);
    this.#ownQueueRows.deleteAll(turn);
    this.intake.clear(turn);
    this.#broker = this.#readBroker();
  }

  #readBroker(): Broker {
    const queues = new Queues({
      rows: this.#queueRows,
      ownRows: this.#ownQueueRows,
      slug: () => this.key.names.slug,
      isConnected: (id) => this.sockets.isConnected(id),
    });
    return new Broker(queues, this.#consumerRows, this.sockets, this.clock.now());
  }
}
