/**
 * All queues of a vhost in serving order: event queues, partner queues, and telemetry last, so that
 * acknowledgements and alarms never wait for telemetry.
 */
import type { Death } from '../../../protocol/link/vhost.ts';
import { EXCHANGE, fullQueueName, QUEUE_NAMES, type QueueName } from '../../../protocol/routing-keys.ts';
import { earliest } from '../../object/agenda.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import { limitsOfPartnerQueue } from './arguments.ts';
import { limitsOf, type QueueLimits } from './limits.ts';
import { type PartnerQueueRows, PartnerQueues } from './partner-queues.ts';
import { partnerQueueKey, Queue, type QueueKey } from './queue.ts';
import type { Message, QueueRows } from './rows.ts';

export interface QueuesHost {
  rows: QueueRows;
  partnerQueueRows: PartnerQueueRows;
  /**
   * Returns the organization's slug, for the names of platform queues. It is a function because the queues
   * are created before the key is known.
   */
  slug(): string;
  isConnected(readerId: string): boolean;
}

export class Queues {
  readonly partner: PartnerQueues;
  readonly #slug: () => string;
  readonly #platform: ReadonlyMap<string, Queue>;

  constructor({ rows, partnerQueueRows, slug, isConnected }: QueuesHost) {
    this.#slug = slug;
    const chunks = rows.chunks();
    const ofQueue = Map.groupBy(chunks, ({ queue }) => queue);
    let lastPosition = chunks.at(-1)?.position ?? 0;
    const make = (key: QueueKey, limits: QueueLimits) =>
      new Queue({
        ...{ key, rows, limits, isConnected },
        chunks: ofQueue.get(key) ?? [],
        nextPosition: () => {
          lastPosition += 1;
          return lastPosition;
        },
        deadLetter: (turn, from, message, reason) => {
          if (from === 'dead-letter') return;
          this.bury(turn, message, reason, { queue: this.fullName(from), reason });
        },
      });
    this.#platform = new Map(QUEUE_NAMES.map((name) => [name, make(name, limitsOf(name))]));
    this.partner = new PartnerQueues(partnerQueueRows, ({ name, arguments: typed }) => {
      const limits = limitsOfPartnerQueue(name, typed);
      if (!limits.ok) throw new Error(limits.refusal.text);
      return make(partnerQueueKey(name), limits.value);
    });
  }

  all(): Queue[] {
    const telemetry = this.ours('event.telemetry');
    const others = [...this.#platform.values()].filter((queue) => queue !== telemetry);
    return [...others, ...this.partner.all().map(({ queue }) => queue), telemetry];
  }

  ours(name: QueueName): Queue {
    return this.find(name);
  }

  /** Returns an existing queue by its key. */
  find(key: QueueKey): Queue {
    const queue = this.#platform.get(key) ?? this.partner.find(this.fullName(key))?.queue;
    if (!queue) throw new Error(`the Vhost has no queue with the key "${key}"`);
    return queue;
  }

  /** An event queue or a partner queue by the name that partners use; undefined for any other name. */
  byFullName(name: string): Queue | undefined {
    const ours = QUEUE_NAMES.find(
      (one) => one !== 'dead-letter' && fullQueueName(this.#slug(), one) === name,
    );
    return ours ? this.ours(ours) : this.partner.find(name)?.queue;
  }

  /** The name that partners use. */
  fullName(key: QueueKey): string {
    const ours = QUEUE_NAMES.find((name) => name === key);
    return ours ? fullQueueName(this.#slug(), ours) : key.slice(partnerQueueKey('').length);
  }

  /**
   * Adds a message to the dead-letter queue, where its age counts from now. `reason`: a readable text; the last
   * argument has RabbitMQ's reason.
   */
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
    this.ours('dead-letter').push(turn, { ...storable(message), createdAtMs: turn.now, properties });
  }

  // what is only in memory

  /** Sequence of a site's first event that is only in memory; undefined if there is none. */
  firstKept(siteId: string): number | undefined {
    return earliest(this.all().map((queue) => queue.firstKept(siteId)));
  }

  /** Whether everything that is only in memory must be stored by the end of the turn. */
  get mustStore(): boolean {
    return this.all().some((queue) => queue.mustStore);
  }

  get hasUnstored(): boolean {
    return this.all().some((queue) => queue.hasUnstored);
  }

  /** Whether storage has an old state of a stored message, for example of an acknowledged one. */
  get isStale(): boolean {
    return this.all().some((queue) => queue.isStale);
  }

  /** Stores everything that is only in memory. */
  flush(turn: Turn): void {
    for (const queue of this.all()) queue.flush(turn);
  }

  /** Whether the next turn deletes rows or writes the numbers of dropped messages. */
  get isDirty(): boolean {
    return this.all().some((queue) => queue.isDirty);
  }

  /** Called last in a turn. */
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
    for (const queue of this.all()) queue.dropAged(turn);
  }
}

/**
 * Maximum length of a body as JSON. A control character takes six characters in JSON; a body that would be
 * longer is stored as base64.
 */
const MAX_BODY_CHARS = 512 * 1_024;

function storable(message: Message): Message {
  const { body, encoding } = message;
  if (encoding !== 'utf8' || JSON.stringify(body).length <= MAX_BODY_CHARS) return message;
  let bytes = '';
  for (const byte of new TextEncoder().encode(body)) bytes += String.fromCharCode(byte);
  return { ...message, body: btoa(bytes), encoding: 'base64' };
}
