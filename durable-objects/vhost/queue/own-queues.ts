/**
 * The partner's own queues [C-6.6]: what each was declared with, what it is bound to, and its messages. All of them
 * share what one of ours may hold; beyond it the largest gives up its oldest.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import type { ChunkedQueue } from './chunked-queue.ts';
import type { Definition, OwnQueueRows } from './own-rows.ts';
import type { KeptBy } from './queue.ts';
import type { Message } from './rows.ts';
import { matchesTopic } from './topic.ts';

export interface OwnQueue extends Definition {
  patterns: Set<string>;
  queue: ChunkedQueue;
}

export class OwnQueues {
  readonly #rows: OwnQueueRows;
  readonly #make: (definition: Definition) => ChunkedQueue;
  readonly #byName = new Map<string, OwnQueue>();
  /** Who wants the events of a routing key: there are four, and patterns may be long. */
  readonly #wanting = new Map<string, OwnQueue[]>();

  /** `make`: the messages of one, from what is stored. */
  constructor(rows: OwnQueueRows, make: (definition: Definition) => ChunkedQueue) {
    this.#rows = rows;
    this.#make = make;
    for (const definition of rows.all()) this.#add(definition);
    for (const { queue, pattern } of rows.bindings()) this.#byName.get(queue)?.patterns.add(pattern);
  }

  all(): readonly OwnQueue[] {
    return [...this.#byName.values()];
  }

  find(name: string): OwnQueue | undefined {
    return this.#byName.get(name);
  }

  get isFull(): boolean {
    return this.#byName.size >= LIMIT.ownQueues;
  }

  declare(turn: Turn, definition: Definition): OwnQueue {
    this.#rows.insert(turn, definition);
    return this.#add(definition);
  }

  /** False when it has as many bindings as a queue may have. */
  bind(turn: Turn, { name, patterns }: OwnQueue, pattern: string): boolean {
    if (patterns.has(pattern)) return true;
    if (patterns.size >= LIMIT.bindingsPerQueue) return false;
    this.#rows.bind(turn, name, pattern);
    patterns.add(pattern);
    this.#wanting.clear();
    return true;
  }

  unbind(turn: Turn, { name, patterns }: OwnQueue, pattern: string): void {
    if (!patterns.delete(pattern)) return;
    this.#rows.unbind(turn, name, pattern);
    this.#wanting.clear();
  }

  delete(turn: Turn, { name, queue }: OwnQueue): void {
    this.#byName.delete(name);
    this.#wanting.clear();
    this.#rows.delete(turn, name);
    queue.delete(turn);
  }

  /** An event to each queue that it matches: its time there begins now. */
  push(turn: Turn, message: Message, keptBy: KeptBy | undefined): void {
    const wanting = this.#wantingOf(message.routingKey);
    if (wanting.length === 0) return;
    for (const { queue } of wanting) queue.push(turn, { ...message, createdAtMs: turn.now }, keptBy);
    this.#enforceShare();
  }

  #wantingOf(routingKey: string): readonly OwnQueue[] {
    if (this.#byName.size === 0) return [];
    const known = this.#wanting.get(routingKey);
    if (known) return known;
    const wanting = this.all().filter(({ patterns }) =>
      [...patterns].some((pattern) => matchesTopic(pattern, routingKey)),
    );
    this.#wanting.set(routingKey, wanting);
    return wanting;
  }

  #add(definition: Definition): OwnQueue {
    const own = { ...definition, patterns: new Set<string>(), queue: this.#make(definition) };
    this.#byName.set(definition.name, own);
    return own;
  }

  #enforceShare(): void {
    for (;;) {
      const all = [...this.#byName.values()].map(({ queue }) => ({ queue, ...queue.open }));
      const messages = all.reduce((sum, one) => sum + one.messages, 0);
      const bytes = all.reduce((sum, one) => sum + one.bytes, 0);
      if (messages <= VHOST_BOUNDS.ownMessages && bytes <= VHOST_BOUNDS.ownBytes) return;
      const largest = all.reduce((one, other) => (other.bytes > one.bytes ? other : one)).queue;
      // Where all of it is handed out, the oldest can no longer come back.
      if (!largest.dropOldest('limit') && !largest.dropOldestChunk('limit')) return;
    }
  }
}
