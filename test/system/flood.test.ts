/**
 * One partner's flood affects only that partner: another key's confirms, a device's PUBACKs and REST reads
 * continue meanwhile [C-6.5].
 */
import type { ChannelModel } from 'amqplib';
import { describe, expect, it } from 'vitest';
import { envelopeOf, type Order, openConnection, setpointOrder } from '#support/returning-partner.ts';
import { eventually, type TestStack } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { EXCHANGE } from '../../protocol/routing-keys.ts';
import type { SeededKey, SeededPlant } from '../../tools/seed.ts';

/** Enough for many seconds on any machine. */
const FLOOD = 30_000;
const ROUNDS = 20;
const FLOWING = 200;
/** [C-6.5] */
const BURST = 200;
/** Fewer than the bridge holds before it stops reading. */
const HELD = 150;
/** More than any site allows: recorded and rejected, without further work. */
const TOO_MUCH = { targetValueKw: 500 };

/** The organization's publishes in a second; the default unless given. */
async function setRate({ admin }: TestStack, publishRatePerSecond: number = LIMIT.publishesPerSecond) {
  const settings = { publishRatePerSecond };
  await admin.call('PATCH', `/organizations/${admin.organizationId}`, { settings });
}

describe('a key that publishes at full speed', () => {
  const stack = suiteStack({ bridgeProcess: true });

  /** The client gets all publishes at once; `confirmed` counts the confirms. */
  const flood = async (plant: SeededPlant, key: SeededKey) => {
    const options = stack.partnerOptions(key);
    const bodies = Array.from({ length: FLOOD }, () =>
      envelopeOf(options, setpointOrder(plant.id, TOO_MUCH)),
    );
    const connection = await openConnection(options);
    const channel = await connection.createConfirmChannel();
    channel.on('error', () => {});
    const flooding = { confirmed: 0, refused: 0, closed: false, connection };
    connection.on('close', () => {
      flooding.closed = true;
    });
    for (const { routingKey, body } of bodies) {
      channel.publish(EXCHANGE, routingKey, body, {}, (error) => {
        if (error) flooding.refused += 1;
        else flooding.confirmed += 1;
      });
    }
    return flooding;
  };

  const drop = (connection: ChannelModel) =>
    (connection.connection as unknown as { stream: { destroy(): void } }).stream.destroy();

  it.each([
    ['over its rate', LIMIT.publishesPerSecond],
    ['within a rate that its organization has raised', 10_000],
  ])(
    "%s does not delay another key's confirms, PUBACKs and REST reads [C-6.5]",
    async (_, rate) => {
      await setRate(stack, rate);
      const [own, flooded] = [await stack.addPlant(), await stack.addPlant()];
      const partner = await stack.partner(await stack.addKey());
      const gateway = await stack.gateway(own.gateway);
      await eventually(() => gateway.connected || undefined);
      const flooding = await flood(flooded, await stack.addKey());
      try {
        await eventually(() => flooding.confirmed >= FLOWING || undefined);
        for (let round = 0; round < ROUNDS; round++) {
          const { payload } = setpointOrder(own.id, TOO_MUCH);
          const [, , { status }] = await Promise.all([
            partner.publish('site-setpoint', own.id, payload),
            gateway.publishTelemetry({ gridPowerKw: round }),
            stack.rest(`/vcp/sites/${own.id}/commands`),
          ]);
          expect(status).toBe(200);
        }
        // All of that happened during the flood: most publishes are still unconfirmed.
        expect(flooding.confirmed).toBeLessThan(FLOOD / 2);
        expect(flooding).toMatchObject({ refused: 0, closed: false });
      } finally {
        drop(flooding.connection);
        await gateway.stop();
        await partner.close();
      }
    },
    60_000,
  );

  it('gets the confirm of an emergency on a second connection before those of its waiting publishes [C-6.5]', async () => {
    await setRate(stack);
    const plant = await stack.addPlant();
    const key = await stack.addKey();
    const flooding = await flood(plant, key);
    try {
      await eventually(() => flooding.confirmed >= FLOWING || undefined);
      // The bridge no longer reads the flooding socket, but still reads a second one.
      const other = await stack.partner(key);
      await other.publish('emergency', plant.id, { type: 'STOP' }, { signed: false });
      expect(flooding.confirmed).toBeLessThan(FLOOD / 2);
      await other.close();
    } finally {
      drop(flooding.connection);
    }
  }, 60_000);
});

describe('a key over its rate', () => {
  const stack = suiteStack();

  it('has every publish recorded, each once and in order, emergencies first, and no connection closed [C-6.5]', async () => {
    await setRate(stack);
    const plant = await stack.addPlant();
    const key = await stack.addKey();
    const options = stack.partnerOptions(key);
    const connection = await openConnection(options);
    let isClosed = false;
    connection.on('close', () => {
      isClosed = true;
    });
    const channel = await connection.createConfirmChannel();
    const orders = Array.from({ length: BURST + HELD }, () => setpointOrder(plant.id, TOO_MUCH));
    const confirmed: string[] = [];
    const publish = (order: Order) => {
      const { routingKey, body } = envelopeOf(options, order);
      channel.publish(EXCHANGE, routingKey, body, {}, (error) => {
        if (!error) confirmed.push(order.messageId);
      });
    };
    const stop: Order = { ...setpointOrder(plant.id), family: 'emergency', payload: { type: 'STOP' } };
    for (const order of [...orders, stop]) publish(order);
    await eventually(() => confirmed.includes(stop.messageId) || undefined);
    // It was published last, and overtook the held publishes.
    expect(confirmed.length).toBeLessThan(orders.length);
    await channel.waitForConfirms();
    expect(confirmed).toHaveLength(orders.length + 1);
    expect(isClosed).toBe(false);
    const { body } = await stack.rest(`/vcp/sites/${plant.id}/commands?pageSize=500`);
    const rows = (body as { items: { messageId: string; commandType: string }[] }).items;
    // The seed set the plant's configuration.
    const items = rows.filter(({ commandType }) => commandType !== 'CONFIG').toReversed();
    const ids = items.map(({ messageId }) => messageId).filter((id) => id !== stop.messageId);
    expect(ids).toEqual(orders.map(({ messageId }) => messageId));
    expect(items).toHaveLength(orders.length + 1);
    await connection.close();
  });
});
