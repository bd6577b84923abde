/**
 * Unacknowledged messages are delivered again when the connection to their consumer breaks, and only their
 * own lease settles them.
 */
import type { Channel, ChannelModel, ConsumeMessage } from 'amqplib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ProxiedBridge } from '#support/proxied-bridge.ts';
import { openConnection, ReturningPartner, setpointOrder } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';

const UNACKED = 1_000;
const REDELIVERED_WITHIN_MS = 5_000;
/** More than the plant may import: the order is rejected, and its acknowledgement is its only event. */
const TOO_MUCH = { targetValueKw: 500 };

interface Consumer {
  connection: ChannelModel;
  channel: Channel;
  deliveries: ConsumeMessage[];
  /** Resolves with the error that ended the connection, if any. */
  closed: Promise<(Error & { code?: number }) | undefined>;
}

describe('an unacknowledged message', () => {
  const stack = suiteStack({ bridgeProcess: true });
  let publisher: ReturningPartner;
  let queue: string;

  beforeAll(async () => {
    queue = `vcp.${stack.credentials.organization.slug}.event.status`;
    publisher = new ReturningPartner(stack.partnerOptions(), []);
    await eventually(() => publisher.connected || undefined);
  });
  afterAll(async () => {
    await publisher.stop();
  });

  /** Consumes the acknowledgements without acknowledging them. */
  const consume = async (port = stack.bridge.ports.amqps): Promise<Consumer> => {
    const connection = await openConnection({ ...stack.partnerOptions(), port });
    const closed = new Promise<Error | undefined>((resolve) => connection.once('close', resolve));
    const channel = await connection.createChannel();
    channel.on('error', () => {});
    const deliveries: ConsumeMessage[] = [];
    await channel.consume(queue, (message) => {
      if (message) deliveries.push(message);
    });
    return { connection, channel, deliveries, closed };
  };

  /**
   * Resolves with its correlationId once the publish is confirmed; its acknowledgement event has been sent by
   * then.
   */
  const produce = async (): Promise<string> => {
    const order = setpointOrder(stack.credentials.plantId, TOO_MUCH);
    await eventually(async () => (await publisher.publish(order)) || undefined);
    return order.correlationId;
  };

  const drain = async ({ connection, channel, deliveries }: Consumer, last: string) => {
    await eventually(() => deliveries.find((message) => correlationOf(message) === last));
    channel.ackAll();
    // amqplib may send the connection's close before frames that a channel sent earlier, but not before the
    // channel's own close.
    await channel.close();
    await connection.close();
  };

  it('is sent again if a cut link did not deliver it [C-6.4]', async () => {
    const bridge = await ProxiedBridge.start(stack, 'bridge-cut');
    const first = await consume(bridge.ports.amqps);
    bridge.links.hold('down');
    const sent = await produce();
    expect(first.deliveries).toEqual([]);
    bridge.links.cut();
    expect(await first.closed).toMatchObject({ code: 320 });

    const second = await consume();
    const [again] = await eventually(() => (second.deliveries.length > 0 ? second.deliveries : undefined));
    expect(correlationOf(again)).toBe(sent);
    expect(again?.fields.redelivered).toBe(true);
    expect(first.deliveries).toEqual([]);
    await drain(second, sent);
    await bridge.stop();
  });

  it('is sent again, as one of a thousand, in order, after a kill -9 of the bridge [C-6.4]', async () => {
    const orders = Array.from({ length: UNACKED }, () => setpointOrder(stack.credentials.plantId, TOO_MUCH));
    const expected = orders.map((order) => order.correlationId);
    const outcomes = await Promise.all(orders.map((order) => publisher.publish(order)));
    expect(outcomes).not.toContain(false);
    const first = await consume();
    await eventually(() => first.deliveries.length === UNACKED || undefined);
    expect(first.deliveries.map(correlationOf)).toEqual(expected);

    await stack.bridge.kill();
    await first.closed;
    await stack.restartBridge();
    const second = await consume();
    const connectedAtMs = performance.now();
    await eventually(() => second.deliveries.length === UNACKED || undefined);
    expect(performance.now() - connectedAtMs).toBeLessThan(REDELIVERED_WITHIN_MS);
    expect(second.deliveries.map(correlationOf)).toEqual(expected);
    expect(second.deliveries.every((message) => message.fields.redelivered)).toBe(true);
    await drain(second, expected.at(-1) ?? '');
    const third = await consume();
    expect((await third.channel.checkQueue(queue)).messageCount).toBe(0);
    expect(third.deliveries).toEqual([]);
    await third.connection.close();
  });

  it('is not settled by an acknowledgement of an earlier delivery when it is delivered again [C-6.4]', async () => {
    const before = await ProxiedBridge.start(stack, 'bridge-twice');
    const stale = await consume(before.ports.amqps);
    const sent = await produce();
    const [message] = await eventually(() => (stale.deliveries.length > 0 ? stale.deliveries : undefined));
    before.links.hold('up');
    stale.channel.ack(message as ConsumeMessage);
    // Only the bridge answers this; the acknowledgement before it is on its way, and held.
    await stale.channel.checkExchange('vcp');

    // A rebooted bridge of that name releases the leases of the old one.
    const after = await ProxiedBridge.start(stack, 'bridge-twice');
    const second = await consume(after.ports.amqps);
    await eventually(() => second.deliveries.length > 0 || undefined);
    before.links.resume();
    expect(await stale.closed).toBeDefined();
    const fence = await produce();
    await eventually(() => second.deliveries.find((one) => correlationOf(one) === fence));
    await second.connection.close();

    const third = await consume();
    await eventually(() => third.deliveries.length === 2 || undefined);
    expect(third.deliveries.map(correlationOf)).toEqual([sent, fence]);
    await drain(third, fence);
    await Promise.all([before.stop(), after.stop()]);
  });
});

function correlationOf(message: ConsumeMessage | undefined): string {
  return message?.properties.correlationId ?? '';
}
