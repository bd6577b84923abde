/**
 * Events on their way into a vhost's queues: each once, by (site, sequence), and only what the key may see [C-8.1]. What
 * is in memory alone its Site keeps until it is stored or a client has acknowledged it: most of it is never written.
 */
import { EVENT_QUEUES, type QueueName } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import type { OutboxEvent, PassingEvent } from '../../rpc.ts';
import type { Key } from '../key/key.ts';
import type { KeptBy } from '../queue/queue.ts';
import type { Message } from '../queue/rows.ts';
import { eventMessage } from './message.ts';
import type { ReceivedRows } from './rows.ts';

export interface IntakeQueues {
  push(turn: Turn, queue: QueueName, message: Message, keptBy: KeptBy | undefined): void;
  /** The first of a site's events that is in memory alone. */
  firstKept(siteId: string): number | undefined;
}

export class EventIntake {
  readonly #rows: ReceivedRows;
  readonly #key: Key;
  readonly #queues: IntakeQueues;
  #seen: Map<string, number>;
  /** Sites whose row lags behind. */
  readonly #unstored = new Set<string>();

  constructor(rows: ReceivedRows, key: Key, queues: IntakeQueues) {
    this.#rows = rows;
    this.#key = key;
    this.#queues = queues;
    this.#seen = rows.all();
  }

  /** How far a site's outbox is here, in memory at least. */
  seenFrom(siteId: string): number {
    return this.#seen.get(siteId) ?? 0;
  }

  /** How far a site need not keep its outbox: before the first that is in memory alone. */
  receivedFrom(siteId: string): number {
    const kept = this.#queues.firstKept(siteId);
    return kept === undefined ? this.seenFrom(siteId) : kept - 1;
  }

  /** Takes what is new of a site's outbox; what came before is dropped. */
  store(turn: Turn, siteId: string, events: readonly OutboxEvent[]): void {
    const before = this.seenFrom(siteId);
    let last = before;
    for (const event of events) {
      if (event.sequence <= last) continue;
      this.pass(turn, siteId, event, event.sequence);
      last = event.sequence;
    }
    if (last === before) return;
    turn.undo(() => this.#seen.set(siteId, before));
    this.#seen.set(siteId, last);
    this.#unstored.add(siteId);
  }

  /**
   * Takes an event where the key may see its site. Queues start to fill at the key's first connection [C-6.1].
   * `sequence`: of one that its site keeps.
   */
  pass(turn: Turn, siteId: string, event: PassingEvent, sequence?: number): void {
    const key = this.#key.record;
    if (!key || key.firstConnectedAtMs === null) return;
    if (key.allowedPlantIds && !key.allowedPlantIds.includes(siteId)) return;
    this.#push(turn, siteId, event, sequence === undefined ? undefined : { siteId, sequence });
  }

  /** Takes an event about whatever site the key named itself. */
  tell(turn: Turn, siteId: string, event: PassingEvent): void {
    this.#push(turn, siteId, event);
  }

  /** Whether a row lags behind: a crash would let its site send again what was here. */
  get hasUnstored(): boolean {
    return this.#unstored.size > 0;
  }

  /** With it goes all that is in memory alone. */
  save(turn: Turn): void {
    for (const siteId of this.#unstored) {
      turn.undo(() => this.#unstored.add(siteId));
      this.#unstored.delete(siteId);
      this.#rows.set(turn, siteId, this.seenFrom(siteId));
    }
  }

  /** What was in memory alone is lost: its sites send it again. */
  reload(): void {
    this.#unstored.clear();
    this.#seen = this.#rows.all();
  }

  /** Everything of the key is gone. */
  clear(turn: Turn): void {
    this.#rows.deleteAll(turn);
    this.#unstored.clear();
    turn.remember(() => {
      this.#seen = new Map();
    });
  }

  #push(turn: Turn, siteId: string, event: PassingEvent, keptBy?: KeptBy): void {
    const { slug } = this.#key.names;
    const message = eventMessage(slug, this.#key.signingKey, siteId, event);
    this.#queues.push(turn, EVENT_QUEUES[event.kind], message, keptBy);
  }
}
