/** A partner that consumes all of its event queues over its link. */
import { EVENT_QUEUES, type EventKind, fullQueueName } from '../../../protocol/routing-keys.ts';
import { connectPartner, type VhostTestLink } from './links.ts';
import type { Key, Organization } from './world.ts';

export interface PartnerEvent {
  messageId: string;
  correlationId: string;
  siteId: string;
  payload: Record<string, unknown>;
}

export class Listener {
  readonly link: VhostTestLink;
  readonly #queue: string;
  #asked = 1_000;

  /** `queue`: any existing queue; `quiet` declares it passively. */
  constructor(link: VhostTestLink, queue: string) {
    this.link = link;
    this.#queue = queue;
  }

  events(kind: EventKind): PartnerEvent[] {
    return this.link.received.flatMap((frame) =>
      frame.kind === 'deliver' && frame.tag === kind ? [JSON.parse(frame.delivery.body) as PartnerEvent] : [],
    );
  }

  /** The first event of a kind whose payload has that status, now or when it comes. */
  async event(kind: EventKind, status: string): Promise<PartnerEvent> {
    const frame = await this.link.next(
      (one) =>
        one.kind === 'deliver' &&
        one.tag === kind &&
        (JSON.parse(one.delivery.body) as PartnerEvent).payload.status === status,
    );
    return JSON.parse(frame.kind === 'deliver' ? frame.delivery.body : '') as PartnerEvent;
  }

  /** Returns when all pending events have arrived: what the first request causes precedes the second answer. */
  async quiet(): Promise<void> {
    const asPassive = {
      passive: true,
      durable: true,
      exclusive: false,
      autoDelete: false,
      arguments: [],
    };
    for (let question = 0; question < 2; question++) {
      this.#asked += 1;
      const seq = this.#asked;
      this.link.send({ kind: 'declare', seq, queue: this.#queue, ...asPassive });
      await this.link.next((frame) => frame.kind === 'ok' && frame.seq === seq);
    }
  }

  statuses(kind: EventKind): unknown[] {
    return this.events(kind).map((event) => event.payload.status);
  }
}

/** Connects a client of a key and has it consume all of its event queues. */
export async function listen(organization: Organization, key: Key): Promise<Listener> {
  const link = await connectPartner(key);
  const queues = Object.entries(EVENT_QUEUES);
  for (const [index, [kind, queue]] of queues.entries()) {
    link.send({
      kind: 'consume',
      seq: index + 1,
      channel: 1,
      tag: kind,
      queue: fullQueueName(organization.slug, queue),
      noAck: true,
      exclusive: false,
      prefetch: 0,
      priority: 0,
    });
  }
  await link.next((frame) => frame.kind === 'ok' && frame.seq === queues.length);
  return new Listener(link, fullQueueName(organization.slug, EVENT_QUEUES.alarm));
}
