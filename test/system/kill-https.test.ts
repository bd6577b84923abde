/** kill -9 of the edge while each command of a partner is sent over HTTPS and AMQP at once [C-13.5]. */
import { describe, expect, it } from 'vitest';
import { expectNoSecondEffect, expectNothingLost, type Scene } from '#support/command-history.ts';
import { Device } from '#support/device.ts';
import { chargeOrder, envelopeOf, type Order, ReturningPartner } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import type { CommandAnswer } from '../../protocol/rest-publish.ts';

const COMMANDS = 300;
const IN_FLIGHT = 30;
const BEFORE_THE_KILL = 90;

describe('a kill -9 of the edge during commands over HTTPS and AMQP', () => {
  const stack = suiteStack();

  it('loses no acknowledged command, and the same bytes again have no second effect [C-13.5] [C-7.3]', async () => {
    const plant = await stack.addPlant();
    const key = await stack.addKey();
    const device = await Device.start(stack, plant.gateway);
    const options = stack.partnerOptions(key);
    const partner = new ReturningPartner(options);
    const scene: Scene = { stack, siteId: plant.id, key: key.key, partner, device };
    /** Sends an order over HTTPS; undefined: it is not known to be recorded. */
    const post = async (order: Order): Promise<CommandAnswer | undefined> => {
      const { routingKey, body } = envelopeOf(options, order);
      try {
        const answer = await fetch(`${stack.edge.url}/api/v1/vcp/sites/${plant.id}/commands`, {
          method: 'POST',
          headers: { 'x-api-key': key.key, 'content-type': 'application/json' },
          body: JSON.stringify({ routingKey, message: body.toString() }),
        });
        return answer.status === 200 ? ((await answer.json()) as CommandAnswer) : undefined;
      } catch {
        return undefined;
      }
    };
    try {
      await eventually(() => (device.listening && partner.connected) || undefined);
      const orders = Array.from({ length: COMMANDS }, () => chargeOrder(plant.id));
      const confirmed = new Set<string>();
      const ids = new Map<string, string>();
      const { promise: isTime, resolve: startKill } = Promise.withResolvers<void>();
      const waiting = orders.values();
      const sendAll = async () => {
        for (const order of waiting) {
          const [answer, isPublished] = await Promise.all([post(order), partner.publish(order)]);
          if (answer) ids.set(order.messageId, answer.commandId);
          if (answer || isPublished) confirmed.add(order.messageId);
          if (confirmed.size >= BEFORE_THE_KILL) startKill();
        }
      };
      const sent = Promise.all(Array.from({ length: IN_FLIGHT }, sendAll));
      await isTime;
      await stack.killEdge();
      await sent;
      expect(ids.size).toBeGreaterThan(0);

      await expectNothingLost(scene, orders, confirmed);
      // The same bytes again over HTTPS: each is the command that was recorded, or is recorded now.
      for (const order of orders) {
        const again = await eventually(() => post(order), 20_000);
        const before = ids.get(order.messageId);
        if (before !== undefined) expect(again).toMatchObject({ commandId: before, repeated: true });
      }
      await expectNoSecondEffect(scene, orders, new Set(orders.map(({ messageId }) => messageId)));
    } finally {
      await Promise.all([partner.stop(), device.stop()]);
    }
  }, 120_000);
});
