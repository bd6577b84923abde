/**
 * kill -9 while a partner publishes a thousand commands: no confirmed command is lost, and none is executed
 * twice.
 */
import { describe, it } from 'vitest';
import { expectNoSecondEffect, expectNothingLost, type Scene } from '#support/command-history.ts';
import { Device } from '#support/device.ts';
import { chargeOrder, ReturningPartner } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';

const COMMANDS = 1_000;
/** Unconfirmed publishes that the partner allows itself. */
const IN_FLIGHT = 100;
const CONFIRMED_BEFORE_THE_KILL = 300;

describe('a kill -9 during a thousand publishes', () => {
  const stack = suiteStack({ bridgeProcess: true });

  const kills = {
    bridge: () => stack.bridge.kill(),
    edge: () => stack.killEdge(),
    both: async () => {
      await Promise.all([stack.bridge.kill(), stack.killEdge()]);
    },
  };

  it.each(['bridge', 'edge', 'both'] as const)(
    'loses no confirmed publish: %s; a repeat of the others has no second effect [C-6.4] [C-7.3]',
    async (victim) => {
      const plant = await stack.addPlant();
      const key = await stack.addKey();
      const device = await Device.start(stack, plant.gateway);
      const partner = new ReturningPartner(stack.partnerOptions(key));
      const scene: Scene = { stack, siteId: plant.id, key: key.key, partner, device };
      try {
        await eventually(() => (device.listening && partner.connected) || undefined);

        const orders = Array.from({ length: COMMANDS }, () => chargeOrder(plant.id));
        const confirmed = new Set<string>();
        const { promise: isTime, resolve: startKill } = Promise.withResolvers<void>();
        const waiting = orders.values();
        const publishAll = async () => {
          for (const order of waiting) {
            if (await partner.publish(order)) confirmed.add(order.messageId);
            if (confirmed.size === CONFIRMED_BEFORE_THE_KILL) startKill();
          }
        };
        const published = Promise.all(Array.from({ length: IN_FLIGHT }, publishAll));
        await isTime;
        // Its answer arrives at an arbitrary moment between two batches.
        await fetch(`${stack.edge.url}/healthz`);
        await kills[victim]();
        if (victim !== 'edge') await stack.restartBridge();
        await published;

        await expectNothingLost(scene, orders, confirmed);
        await expectNoSecondEffect(scene, orders, confirmed);
      } finally {
        await Promise.all([partner.stop(), device.stop()]);
      }
    },
    60_000,
  );
});
