/** A consumer without a connection: it gets deliveries from the broker only through its receiver. */
import { runInDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { turnsOf } from '#workerd/turns.ts';
import { vhostOf } from '#workerd/world.ts';
import { Sql } from '../../../../durable-objects/object/sql.ts';
import { Broker } from '../../../../durable-objects/vhost/delivery/broker.ts';
import type { Consumer, Receiver } from '../../../../durable-objects/vhost/delivery/consumers.ts';
import { ConsumerRows } from '../../../../durable-objects/vhost/delivery/rows.ts';
import { PartnerQueueRows } from '../../../../durable-objects/vhost/queue/partner-queues.ts';
import { Queues } from '../../../../durable-objects/vhost/queue/queues.ts';
import { QueueRows } from '../../../../durable-objects/vhost/queue/rows.ts';

const OWNER = { readerId: 'webhook-1', channel: 0, tag: 'inbox' };

/** A receiver in memory that takes at most `room` messages. */
class Inbox implements Receiver {
  readonly bodies: string[] = [];
  readonly leases: number[] = [];
  isCancelled = false;
  room: number;

  constructor(room: number) {
    this.room = room;
  }

  hasRoom(): boolean {
    return this.bodies.length < this.room;
  }

  deliver(_consumer: Consumer, lease: number, { message }: { message: { body: string } }): number {
    this.bodies.push(message.body);
    this.leases.push(lease);
    return message.body.length;
  }

  cancel(): void {
    this.isCancelled = true;
  }
}

interface Bench {
  broker: Broker;
  inbox: Inbox;
  publish(...bodies: string[]): void;
  pump(): void;
  discard(lease: number): void;
}

async function onBroker<Value>(room: number, work: (bench: Bench) => Value): Promise<Value> {
  return await runInDurableObject(vhostOf(crypto.randomUUID()), (_vhost, state) => {
    const sql = new Sql(state.storage);
    const isConnected = () => false;
    const queues = new Queues({
      ...{ rows: new QueueRows(sql), partnerQueueRows: new PartnerQueueRows(sql), isConnected },
      slug: () => 'acme',
    });
    const noLinks = { isConnected, window: () => undefined, saveWindow: () => {} };
    const broker = new Broker({
      ...{ queues, consumerRows: new ConsumerRows(sql), connections: noLinks },
      ...{ clock: { now: () => 1_000 }, confirmed: () => {} },
    });
    const runAt = turnsOf(state, (turn) => queues.save(turn));
    const inbox = new Inbox(room);
    broker.consumers.attach({
      ...OWNER,
      ...{ queue: 'event.status', noAck: false, exclusive: false, prefetch: 0, priority: 0, receiver: inbox },
    });
    return work({
      broker,
      inbox,
      publish: (...bodies) =>
        runAt(1_000, (turn) => {
          for (const body of bodies) {
            const message = {
              routingKey: 'acme.event.status',
              properties: {},
              body,
              encoding: 'utf8' as const,
            };
            broker.publish(turn, 'event.status', { ...message, createdAtMs: turn.now });
          }
        }),
      pump: () => runAt(1_000, (turn) => broker.pump(turn)),
      discard: (lease) => runAt(1_000, (turn) => broker.discard(turn, OWNER.readerId, [lease])),
    });
  });
}

describe('a consumer without a connection', () => {
  it('gets messages in order while its receiver has room, and the rest when the receiver has room again', async () => {
    const outcome = await onBroker(2, ({ broker, inbox, publish, pump }) => {
      publish('1', '2', '3');
      pump();
      const first = [...inbox.bodies];
      inbox.room = 10;
      pump();
      return { first, all: inbox.bodies, frames: broker.links.takeFrames().size };
    });
    expect(outcome).toEqual({ first: ['1', '2'], all: ['1', '2', '3'], frames: 0 });
  });

  it('settles its deliveries by lease: ack deletes, requeue delivers again, discard makes a dead letter', async () => {
    const outcome = await onBroker(10, ({ broker, inbox, publish, pump, discard }) => {
      publish('1', '2', '3');
      pump();
      const [one = 0, two = 0] = inbox.leases;
      broker.acknowledge(OWNER.readerId, [one]);
      broker.requeue(OWNER.readerId, [two]);
      pump();
      discard(inbox.leases[2] ?? 0);
      return {
        bodies: inbox.bodies,
        unacked: broker.unackedCount(broker.queues.ours('event.status')),
        dead: broker.queues.ours('dead-letter').readyCount,
      };
    });
    expect(outcome).toEqual({ bodies: ['1', '2', '3', '2'], unacked: 1, dead: 1 });
  });
});
