/** kill -9 at each exact step of a publish: the object stops at the step while its process is killed. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectNoSecondEffect, expectNothingLost, type Scene } from '#support/command-history.ts';
import { Device } from '#support/device.ts';
import { chargeOrder, ReturningPartner, setpointOrder } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import type { Step } from '#support/step.ts';
import { faultyStack } from '#support/suite-stack.ts';

/** The first publish stops at the step; later ones wait, in its batch or in the next. */
const COMMANDS = 3;

const STEPS: Step[] = [
  'before-rpc',
  'after-commit',
  'before-vhost-stored',
  'before-confirm',
  'before-dispatch',
  'before-receive',
  'before-delivery',
];
/** The steps where one site's lane stops and others continue. */
const LANE_STEPS = STEPS.slice(0, STEPS.indexOf('before-confirm'));
/** The steps where nothing may be confirmed yet. */
const UNCONFIRMED_STEPS: Step[] = [...LANE_STEPS, 'before-confirm'];
const VICTIMS = ['bridge', 'edge', 'both'] as const;

describe('a kill -9 at a step of a publish', () => {
  const { control, stack } = faultyStack({ bridgeProcess: true });
  let scene: Scene;
  let otherSiteId: string;

  beforeAll(async () => {
    const { plantId: siteId, apiKey } = stack.credentials;
    otherSiteId = (await stack.addPlant()).id;
    const device = await Device.start(stack);
    const partner = new ReturningPartner(stack.partnerOptions());
    scene = { stack, siteId, key: apiKey.key, partner, device };
  });
  afterAll(async () => {
    await Promise.all([scene.partner.stop(), scene.device.stop()]);
  });

  const kill = async (victim: (typeof VICTIMS)[number], release: () => void) => {
    if (victim === 'edge') {
      await stack.killEdge();
      return;
    }
    const edgeIsBack = victim === 'both' ? stack.killEdge() : Promise.resolve();
    await stack.bridge.kill();
    // The steps where the edge survives: the stopped work continues after the bridge's death.
    release();
    await edgeIsBack;
    await stack.restartBridge();
  };

  const cases = STEPS.flatMap((step) => VICTIMS.map((victim) => [step, victim] as const));

  it.each(cases)(
    'at %s, of %s, loses no confirmed publish and executes nothing twice [C-6.4] [C-7.3]',
    async (step, victim) => {
      await eventually(() => (scene.device.listening && scene.partner.connected) || undefined);
      const orders = Array.from({ length: COMMANDS }, () => chargeOrder(scene.siteId));
      const confirmed = new Set<string>();
      const hold = control.hold(step, LANE_STEPS.includes(step) ? { subject: scene.siteId } : {});
      const published = Promise.all(
        orders.map(async (order) => {
          if (await scene.partner.publish(order)) confirmed.add(order.messageId);
        }),
      );
      await hold.reached;
      // Another site confirms this publish; a premature confirm would have arrived before it.
      if (LANE_STEPS.includes(step))
        expect(await scene.partner.publish(setpointOrder(otherSiteId))).toBe(true);
      await kill(victim, hold.release);
      await published;
      const logged = await expectNothingLost(scene, orders, confirmed);
      if (UNCONFIRMED_STEPS.includes(step)) {
        expect(confirmed.size).toBe(0);
        // Where only the bridge died, the edge continued and recorded the publishes in progress.
        if (victim !== 'bridge') expect(logged.length > 0).toBe(step !== 'before-rpc');
      }
      await expectNoSecondEffect(scene, orders, confirmed);
    },
  );
});
