/** Events on their way into a vhost's queues: each once, by (site, sequence), and only what the key may see [C-8.1]. */
import { EVENT_QUEUES, type QueueName } from '../../protocol/routing-keys.ts';
import type { OutboxEvent, PassingEvent } from '../exchange.ts';
import { eventMessage } from './event-message.ts';
import type { KeyHolder } from './key-holder.ts';
import type { Message } from './schema.ts';
import type { VhostStorage } from './storage.ts';

/** Every method that takes events runs inside the caller's transaction. */
export class EventIntake {
  readonly #storage: VhostStorage;
  readonly #keys: KeyHolder;
  readonly #push: (queue: QueueName, message: Message) => void;
  #received: Map<string, number>;

  constructor(storage: VhostStorage, keys: KeyHolder, push: (queue: QueueName, message: Message) => void) {
    this.#storage = storage;
    this.#keys = keys;
    this.#push = push;
    this.#received = storage.received();
  }

  /** How far a site's outbox has been stored here. */
  receivedFrom(siteId: string): number {
    return this.#received.get(siteId) ?? 0;
  }

  /** Stores what is new of a site's outbox; what came before is dropped. */
  store(siteId: string, events: readonly OutboxEvent[]): void {
    const before = this.receivedFrom(siteId);
    let last = before;
    for (const event of events) {
      if (event.sequence <= last) continue;
      this.pass(siteId, event);
      last = event.sequence;
    }
    if (last === before) return;
    this.#storage.setReceived(siteId, last);
    this.#received.set(siteId, last);
  }

  /** Takes an event where the key may see its site. Queues start to fill at the key's first connection [C-6.1]. */
  pass(siteId: string, event: PassingEvent): void {
    const { key } = this.#keys;
    if (!key || key.firstConnectedAtMs === null) return;
    if (key.allowedPlantIds && !key.allowedPlantIds.includes(siteId)) return;
    this.tell(siteId, event);
  }

  /** Takes an event about whatever site the key named itself. */
  tell(siteId: string, event: PassingEvent): void {
    const { slug } = this.#keys.names();
    this.#push(EVENT_QUEUES[event.kind], eventMessage(slug, this.#keys.signingKey(), siteId, event));
  }

  /** Everything of the key is gone. */
  clear(): void {
    this.#received = new Map();
  }
}
