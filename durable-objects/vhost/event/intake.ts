/** Events on their way into a vhost's queues: each once, by (site, sequence), and only what the key may see [C-8.1]. */
import { EVENT_QUEUES, type QueueName } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import type { OutboxEvent, PassingEvent } from '../../rpc.ts';
import type { Key } from '../key/key.ts';
import type { Message } from '../queue/rows.ts';
import { eventMessage } from './message.ts';
import type { ReceivedRows } from './rows.ts';

export class EventIntake {
  readonly #rows: ReceivedRows;
  readonly #key: Key;
  readonly #push: (turn: Turn, queue: QueueName, message: Message) => void;
  #received: Map<string, number>;

  constructor(rows: ReceivedRows, key: Key, push: (turn: Turn, queue: QueueName, message: Message) => void) {
    this.#rows = rows;
    this.#key = key;
    this.#push = push;
    this.#received = rows.all();
  }

  /** How far a site's outbox has been stored here. */
  receivedFrom(siteId: string): number {
    return this.#received.get(siteId) ?? 0;
  }

  /** Stores what is new of a site's outbox; what came before is dropped. */
  store(turn: Turn, siteId: string, events: readonly OutboxEvent[]): void {
    const before = this.receivedFrom(siteId);
    let last = before;
    for (const event of events) {
      if (event.sequence <= last) continue;
      this.pass(turn, siteId, event);
      last = event.sequence;
    }
    if (last === before) return;
    turn.undo(() => this.#received.set(siteId, before));
    this.#rows.set(turn, siteId, last);
    this.#received.set(siteId, last);
  }

  /** Takes an event where the key may see its site. Queues start to fill at the key's first connection [C-6.1]. */
  pass(turn: Turn, siteId: string, event: PassingEvent): void {
    const key = this.#key.record;
    if (!key || key.firstConnectedAtMs === null) return;
    if (key.allowedPlantIds && !key.allowedPlantIds.includes(siteId)) return;
    this.tell(turn, siteId, event);
  }

  /** Takes an event about whatever site the key named itself. */
  tell(turn: Turn, siteId: string, event: PassingEvent): void {
    const { slug } = this.#key.names;
    this.#push(turn, EVENT_QUEUES[event.kind], eventMessage(slug, this.#key.signingKey, siteId, event));
  }

  /** Everything of the key is gone. */
  clear(turn: Turn): void {
    this.#rows.deleteAll(turn);
    turn.remember(() => {
      this.#received = new Map();
    });
  }
}
