/**
 * All queues of a vhost, in the order in which they are served: ours, the partner's own, and telemetry last. However
 * much there is of it, no acknowledgement and no alarm waits behind it.
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
  /** The organization's slug: a part of our queues' names. Queues are there before their key is. */
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
    if (!queue) throw new Error(`no queue ${name}`);
    return queue;
  }

  /** One that is there, by its key. */
  find(key: QueueKey): Queue {
    const ours = QUEUE_NAMES.find((name) => name === key);
    if (ours) return this.ours(ours);
    const own = this.own.find(this.fullName(key));
    if (!own) throw new Error(`no queue ${key}`);
    return own.queue;
  }

  /** The name that partners know it by. */
  fullName(key: QueueKey): string {
    const ours = QUEUE_NAMES.find((name) => name === key);
    return ours ? fullQueueName(this.#slug(), ours) : key.slice(ownKey('').length);
  }

  /** Its time in the dead-letter queue starts now. `from`: the queue that gives it up. */
  deadLetter(turn: Turn, from: QueueKey, message: Message, reason: 'delivery_limit' | 'rejected'): void {
    this.bury(turn, message, reason, { queue: this.fullName(from), reason });
  }

  /** Puts a message into the dead-letter queue. `reason`: in words; `death`: in RabbitMQ's. */
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

  // what is in memory alone

  /** The first of a site's events that is in memory alone; undefined when none is. */
  firstKept(siteId: string): number | undefined {
    return earliest([...this.#stored.values()].map((queue) => queue.firstKept(siteId)));
  }

  /** Whether something is new in memory that must not be there alone when the turn ends. */
  get mustStore(): boolean {
    const own = this.own.all();
    return (
      own.some(({ queue }) => queue.mustStore) || [...this.#stored.values()].some((queue) => queue.mustStore)
    );
  }

  /** Stores all that is in memory alone, but for what chunks gather. */
  storeNew(turn: Turn): void {
    for (const queue of this.#stored.values()) queue.storeNew(turn);
  }

  /** Whether chunks lack something that is handed out. */
  get hasUnstored(): boolean {
    return this.#chunked().some((queue) => queue.hasUnstored);
  }

  flush(turn: Turn): void {
    for (const queue of this.#chunked()) queue.flush(turn);
  }

  /** Whether acknowledgements or counts wait for a turn to ride in. */
  get isDirty(): boolean {
    return this.all().some((queue) => queue.isDirty);
  }

  save(turn: Turn): void {
    for (const queue of this.all()) queue.save(turn);
  }

  // age

  /** When the first message of any queue is past its age, at the earliest. */
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
