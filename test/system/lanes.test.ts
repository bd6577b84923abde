/** A site that does not answer delays only its own publishes. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readLog } from '#support/command-history.ts';
import { type Order, ReturningPartner, setpointOrder } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { faultyStack } from '#support/suite-stack.ts';

const OTHER_PLANTS = 20;
/** Below the eight seconds after which the publishes are returned unstored. */
const WAVES = 6;
const WAVE_MS = 500;
const CONFIRMED_WITHIN_MS = 1_000;

describe('a site that does not answer', () => {
  const { control, stack } = faultyStack();
  let partner: ReturningPartner;
  let others: string[];

  beforeAll(async () => {
    const plants = await Promise.all(Array.from({ length: OTHER_PLANTS }, () => stack.addPlant()));
    others = plants.map((plant) => plant.id);
    partner = new ReturningPartner(stack.partnerOptions());
    await eventually(() => partner.connected || undefined);
    const warmUp = [stack.credentials.plantId, ...others].map((id) => partner.publish(setpointOrder(id)));
    expect(await Promise.all(warmUp)).not.toContain(false);
  });
  afterAll(async () => {
    await partner.stop();
  });

  it.each(['before-rpc', 'after-commit'] as const)(
    'at the step %s delays neither the confirms for twenty other plants nor its own emergency [C-6.4]',
    async (step) => {
      const siteId = stack.credentials.plantId;
      const hold = control.hold(step, { subject: siteId });
      const heldAtMs = performance.now();
      const orders = [setpointOrder(siteId)];
      let confirmed = 0;
      const publish = async (order: Order) => {
        const isConfirmed = await partner.publish(order);
        if (isConfirmed) confirmed += 1;
        return isConfirmed;
      };
      const publishes = orders.map(publish);
      await hold.reached;
      const behind = Array.from({ length: 5 }, () => setpointOrder(siteId));
      orders.push(...behind);
      publishes.push(...behind.map(publish));

      for (let wave = 1; wave <= WAVES; wave++) {
        const sentAtMs = performance.now();
        const outcomes = await Promise.all(others.map((id) => partner.publish(setpointOrder(id))));
        expect(outcomes).not.toContain(false);
        expect(performance.now() - sentAtMs).toBeLessThan(CONFIRMED_WITHIN_MS);
        await eventually(() => performance.now() - heldAtMs >= wave * WAVE_MS || undefined);
      }
      expect(confirmed).toBe(0);

      // An emergency waits for no lane, not even for its own site's.
      const emergency = { ...setpointOrder(siteId), family: 'emergency', payload: { type: 'HOLD' } } as const;
      expect(await partner.publish({ ...emergency, messageId: randomUUID() })).toBe(true);
      expect(confirmed).toBe(0);

      hold.release();
      expect(await Promise.all(publishes)).not.toContain(false);
      const logged = (await readLog(stack, siteId)).map((row) => row.messageId);
      const inOrder = orders.map((order) => logged.indexOf(order.messageId));
      // Newest first.
      expect(inOrder).toEqual(inOrder.toSorted((left, right) => right - left));
      expect(inOrder).not.toContain(-1);
    },
  );
});
