/** The edge stopped and started again on the same data: the command log is unchanged. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { areWhole, chainsOf, expectOneChain, readLog } from '#support/command-history.ts';
import { Device } from '#support/device.ts';
import { chargeOrder, ReturningPartner } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';

const COMMANDS = 30;

describe('a restart of the edge', () => {
  const stack = suiteStack();
  let device: Device;
  let partner: ReturningPartner;

  beforeAll(async () => {
    device = await Device.start(stack);
    partner = new ReturningPartner(stack.partnerOptions());
  });
  afterAll(async () => {
    await Promise.all([partner.stop(), device.stop()]);
  });

  it('keeps the command log and its total, and still recognises each messageId [C-7.3]', async () => {
    const { plantId } = stack.credentials;
    await eventually(() => (device.listening && partner.connected) || undefined);
    const orders = Array.from({ length: COMMANDS }, () => chargeOrder(plantId));
    expect(await Promise.all(orders.map((order) => partner.publish(order)))).not.toContain(false);
    await eventually(() => areWhole(orders, partner.events) || undefined);
    const before = await readLog(stack, plantId);
    expect(before).toHaveLength(COMMANDS);

    await stack.restartEdge();
    expect(await readLog(stack, plantId)).toEqual(before);

    await eventually(() => (device.listening && partner.connected) || undefined);
    const repeated = orders.slice(0, 3);
    const fresh = chargeOrder(plantId);
    const outcomes = await Promise.all([...repeated, fresh].map((order) => partner.publish(order)));
    expect(outcomes).not.toContain(false);
    await eventually(() => areWhole([fresh], partner.events) || undefined);
    const after = await readLog(stack, plantId);
    expect(after.slice(1)).toEqual(before);
    expect(after[0]?.messageId).toBe(fresh.messageId);
    const chains = chainsOf(partner.events);
    for (const order of [...orders, fresh]) {
      expectOneChain(chains.get(order.correlationId));
      expect(device.times(order.powerKw)).toBe(1);
    }
  });
});
