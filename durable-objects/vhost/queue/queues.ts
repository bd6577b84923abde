/**
 * All queues of a vhost in serving order: event queues, partner queues, and telemetry last, so that
 * acknowledgements and alarms never wait for telemetry.
 */
import type { Death } from '../../../protocol/link/vhost.ts';
import { EXCHANGE, fullQueueName, QUEUE_NAMES, type QueueName } from '../../../protocol/routing-keys.ts';
import { earliest } from '../../object/agenda.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import { limitsOfOwn } from './arguments.ts';
import { ChunkedQueue } from './chunked-queue.ts';
import { OwnQueues } from './own-queues.ts';
import type { OwnQueueRows } from './own-rows.ts';
import { limitsOf, ownKey, type Queue, type QueueKey, type QueueLimits } from './queue.ts';
import type { ChunkRow, Message, QueueRows } from './rows.ts';
import { StoredQueue } from './stored-queue.ts';

export interface QueuesParts {
  rows: QueueRows;
  ownRows: OwnQueueRows;
  /** The organization's slug, for the names of platform queues. A function, because queues exist before their key. */
  slug(): string;
  isConnected(connectionId: string): boolean;
}

export class Queues {
  readonly own: OwnQueues;
  readonly #slug: () => string;
  readonly #telemetry: ChunkedQueue;
  readonly #stored = new Map<QueueName, StoredQueue>();

  constructor({ rows, ownRows, slug, isConnected }: QueuesParts) {
    this.#slug = slug;
    const chunks = Map.groupBy(rows.chunks(), ({ queue }) => queue);
    let lastPosition = Math.max(0, ...[...chunks.values()].map((own) => own.at(-1)?.position ?? 0));
    const chunked = (key: QueueKey, limits: QueueLimits, isExact: boolean) =>
      new ChunkedQueue({
        ...{ key, rows, limits, isExact, isConnected },
        chunks: chunks.get(key) ?? ([] satisfies ChunkRow[]),
        nextPosition: () => {
          lastPosition += 1;
          return lastPosition;
        },
        deadLetter: (turn, from, message, reason) => this.deadLetter(turn, from, message, reason),
      });
    this.#telemetry = chunked('event.telemetry', limitsOf('event.telemetry'), false);
    for (const name of QUEUE_NAMES) {
      if (name === 'event.telemetry') continue;
      const queue = new StoredQueue(
        name,
        rows,
        (turn, from, message, reason) => {
          if (name !== 'dead-letter') this.deadLetter(turn, from, message, reason);
        },
        isConnected,
      );
      this.#stored.set(name, queue);
    }
    this.own = new OwnQueues(ownRows, ({ name, arguments: typed }) => {
      const limits = limitsOfOwn(name, typed);
      if (!limits.ok) throw new Error(limits.refusal.text);
      return chunked(ownKey(name), limits.value, true);
    });
  }

  all(): Queue[] {
    return [...this.#stored.values(), ...this.own.all().map(({ queue }) => queue), this.#telemetry];
  }

  ours(name: QueueName): Queue {
    const queue = name === 'event.telemetry' ? this.#telemetry : this.#stored.get(name);
    if (!queue) throw new Error(`unknown queue ${name}`);
    return queue;
  }

  /** Returns an existing queue by its key. */
  find(key: QueueKey): Queue {
    const ours = QUEUE_NAMES.find((name) => name === key);
    if (ours) return this.ours(ours);
    const own = this.own.find(this.fullName(key));
    if (!own) throw new Error(`unknown queue ${key}`);
    return own.queue;
  }

  /** The name that partners use. */
  fullName(key: QueueKey): string {
    const ours = QUEUE_NAMES.find((name) => name === key);
    return ours ? fullQueueName(this.#slug(), ours) : key.slice(ownKey('').length);
  }

  /** Moves a message to the dead-letter queue, where its age counts from now. `from`: its previous queue. */
  deadLetter(turn: Turn, from: QueueKey, message: Message, reason: 'delivery_limit' | 'rejected'): void {
    this.bury(turn, message, reason, { queue: this.fullName(from), reason });
  }

  /** Adds a message to the dead-letter queue. `reason`: a readable text; the last argument has RabbitMQ's reason. */
  bury(
    turn: Turn,
    message: Message,
    reason: string,
    { queue, reason: why }: Pick<Death, 'queue' | 'reason'>,
  ): void {
    const death: Death = {
      reason: why,
      queue,
      exchange: EXCHANGE,
      routingKeys: [message.routingKey],
      atMs: turn.now,
      count: 1,
    };
    const headers = { 'x-death-reason': reason, 'x-death-routing-key': message.routingKey };
    const properties = { ...message.properties, headers, death };
    this.ours('dead-letter').push(turn, { ...message, createdAtMs: turn.now, properties });
  }

  // events that are only in memory

  /** Sequence of a site's first event that is only in memory; undefined if there is none. */
  firstKept(siteId: string): number | undefined {
    return earliest([...this.#stored.values()].map((queue) => queue.firstKept(siteId)));
  }

  /** Whether an event that is only in memory must be stored by the end of the turn. */
  get mustStore(): boolean {
    const own = this.own.all();
    return (
      own.some(({ queue }) => queue.mustStore) || [...this.#stored.values()].some((queue) => queue.mustStore)
    );
  }

  /** Stores all events that are only in memory, except those in chunks. */
  storeNew(turn: Turn): void {
    for (const queue of this.#stored.values()) queue.storeNew(turn);
  }

  /** Whether chunks have leased events or changed states that are not stored. */
  get hasUnstored(): boolean {
    return this.#chunked().some((queue) => queue.hasUnstored);
  }

  flush(turn: Turn): void {
    for (const queue of this.#chunked()) queue.flush(turn);
  }

  /** Whether acknowledgements or counts wait for the next turn. */
  get isDirty(): boolean {
    return this.all().some((queue) => queue.isDirty);
  }

  save(turn: Turn): void {
    for (const queue of this.all()) queue.save(turn);
  }

  // age

  /** Earliest time at which a message of any queue may expire. */
  agedAtMs(): number | undefined {
    return earliest(
      this.all().map(({ oldestMs, maxAgeMs }) =>
        oldestMs === undefined ? undefined : oldestMs + Math.max(maxAgeMs, VHOST_BOUNDS.soonestAgedMs),
      ),
    );
  }

  dropAged(turn: Turn): void {
    for (const queue of this.all()) {
      const { oldestMs = Number.POSITIVE_INFINITY, maxAgeMs } = queue;
      if (oldestMs + maxAgeMs <= turn.now) queue.dropAged(turn);
    }
  }

  #chunked(): ChunkedQueue[] {
    return [...this.own.all().map(({ queue }) => queue), this.#telemetry];
  }
}
