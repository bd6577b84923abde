/**
 * The partner queues of a key [C-6.6]: their declarations, bindings and messages. Together they may hold as
 * much as one event queue; above that the oldest messages of the largest queue are dropped.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { TypedArgument } from '../../../protocol/link/vhost.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import type { Queue } from './queue.ts';
import type { Message, Safety } from './rows.ts';
import { matchesTopic } from './topic.ts';

/** The declared properties of a queue. */
export interface Definition {
  name: string;
  durable: boolean;
  autoDelete: boolean;
  /** The connection of an exclusive queue, which is deleted with it; null for other queues. */
  ownerId: string | null;
  arguments: readonly TypedArgument[];
}

export interface PartnerQueue extends Definition {
  patterns: Set<string>;
  queue: Queue;
}

export class PartnerQueues {
  readonly #rows: PartnerQueueRows;
  readonly #make: (definition: Definition) => Queue;
  readonly #byName = new Map<string, PartnerQueue>();
  /**
   * Cache of the bound queues by the routing key of an event, because matching long patterns is slow. Events
   * have only four routing keys.
   */
  readonly #wanting = new Map<string, PartnerQueue[]>();

  /** `make`: creates the message queue of a definition from storage. */
  constructor(rows: PartnerQueueRows, make: (definition: Definition) => Queue) {
    this.#rows = rows;
    this.#make = make;
    for (const definition of rows.all()) this.#add(definition);
    for (const { queue, pattern } of rows.bindings()) this.#byName.get(queue)?.patterns.add(pattern);
  }

  all(): readonly PartnerQueue[] {
    return [...this.#byName.values()];
  }

  find(name: string): PartnerQueue | undefined {
    return this.#byName.get(name);
  }

  get isFull(): boolean {
    return this.#byName.size >= LIMIT.partnerQueues;
  }

  declare(turn: Turn, definition: Definition): PartnerQueue {
    this.#rows.insert(turn, definition);
    return this.#add(definition);
  }

  /** False if the queue already has the maximum number of bindings. */
  bind(turn: Turn, { name, patterns }: PartnerQueue, pattern: string): boolean {
    if (patterns.has(pattern)) return true;
    if (patterns.size >= LIMIT.bindingsPerQueue) return false;
    this.#rows.bind(turn, name, pattern);
    patterns.add(pattern);
    this.#wanting.clear();
    return true;
  }

  unbind(turn: Turn, { name, patterns }: PartnerQueue, pattern: string): void {
    if (!patterns.delete(pattern)) return;
    this.#rows.unbind(turn, name, pattern);
    this.#wanting.clear();
  }

  delete(turn: Turn, { name, queue }: PartnerQueue): void {
    this.#byName.delete(name);
    this.#wanting.clear();
    this.#rows.delete(turn, name);
    queue.delete(turn);
  }

  /** Adds an event to each queue with a matching binding. Its age in these queues counts from now. */
  push(turn: Turn, message: Message, safety: Safety | undefined): void {
    const wanting = this.#wantingOf(message.routingKey);
    if (wanting.length === 0) return;
    for (const { queue } of wanting) queue.push(turn, { ...message, createdAtMs: turn.now }, safety);
    this.#enforceShare();
  }

  #wantingOf(routingKey: string): readonly PartnerQueue[] {
    if (this.#byName.size === 0) return [];
    const known = this.#wanting.get(routingKey);
    if (known) return known;
    const wanting = this.all().filter(({ patterns }) =>
      [...patterns].some((pattern) => matchesTopic(pattern, routingKey)),
    );
    this.#wanting.set(routingKey, wanting);
    return wanting;
  }

  #add(definition: Definition): PartnerQueue {
    const added = { ...definition, patterns: new Set<string>(), queue: this.#make(definition) };
    this.#byName.set(definition.name, added);
    return added;
  }

  #enforceShare(): void {
    for (;;) {
      const all = [...this.#byName.values()].map(({ queue }) => ({ queue, ...queue.open }));
      const messages = all.reduce((sum, one) => sum + one.messages, 0);
      const bytes = all.reduce((sum, one) => sum + one.bytes, 0);
      if (messages <= VHOST_BOUNDS.partnerQueueMessages && bytes <= VHOST_BOUNDS.partnerQueueBytes) return;
      const largest = all.reduce((one, other) => (other.bytes > one.bytes ? other : one)).queue;
      // If all messages are leased, drop the oldest chunk: its messages can then no longer be put back.
      if (!largest.dropOldest('limit') && !largest.dropOldestChunk('limit')) return;
    }
  }
}

/** The rows of the partner queues and of their bindings. */
export class PartnerQueueRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): Definition[] {
    return this.#sql
      .all<{
        name: string;
        durable: number;
        auto_delete: number;
        owner_id: string | null;
        arguments: string;
      }>('SELECT name, durable, auto_delete, owner_id, arguments FROM partner_queue ORDER BY name')
      .map((row) => ({
        name: row.name,
        durable: row.durable === 1,
        autoDelete: row.auto_delete === 1,
        ownerId: row.owner_id,
        arguments: JSON.parse(row.arguments) as TypedArgument[],
      }));
  }

  bindings(): { queue: string; pattern: string }[] {
    return this.#sql.all<{ queue: string; pattern: string }>('SELECT queue, pattern FROM binding');
  }

  insert(turn: Turn, { name, durable, autoDelete, ownerId, arguments: typed }: Definition): void {
    const flags = { durable: durable ? 1 : 0, auto_delete: autoDelete ? 1 : 0 };
    turn.insert('partner_queue', { name, ...flags, owner_id: ownerId, arguments: JSON.stringify(typed) });
  }

  bind(turn: Turn, queue: string, pattern: string): void {
    turn.replace('binding', { queue, pattern });
  }

  unbind(turn: Turn, queue: string, pattern: string): void {
    turn.write('DELETE FROM binding WHERE queue = ? AND pattern = ?', queue, pattern);
  }

  /** Deletes a queue and its bindings. */
  delete(turn: Turn, name: string): void {
    turn.write('DELETE FROM partner_queue WHERE name = ?', name);
    turn.write('DELETE FROM binding WHERE queue = ?', name);
  }
}
