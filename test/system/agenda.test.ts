/** A site's agenda continues after a failed call to a Vhost, and after a crash with unsent events. */
import { describe, expect, it } from 'vitest';
import { areWhole } from '#support/command-history.ts';
import { Device } from '#support/device.ts';
import { chargeOrder, type Order, ReturningPartner, setpointOrder } from '#support/returning-partner.ts';
import { eventually } from '#support/stack.ts';
import { faultyStack } from '#support/suite-stack.ts';

const ROUNDS = 4;
const HELD_FOR_MS = 1_500;

describe('the agenda of a site', () => {
  const { control, stack } = faultyStack();

  /** A plant with its device and its partner, both connected. */
  const populate = async () => {
    const plant = await stack.addPlant();
    const device = await Device.start(stack, plant.gateway);
    const partner = new ReturningPartner(stack.partnerOptions(await stack.addKey()));
    const areThere = () => eventually(() => (device.listening && partner.connected) || undefined);
    await areThere();
    const isWhole = (order: Order) => eventually(() => areWhole([order], partner.events) || undefined, 5_000);
    /** Only the agenda ends this setpoint. */
    const expectAgendaRuns = async () => {
      const validUntil = new Date(Date.now() + HELD_FOR_MS).toISOString();
      const setpoint = setpointOrder(plant.id, { validUntil });
      expect(await partner.publish(setpoint)).toBe(true);
      await isWhole(setpoint);
    };
    const stop = () => Promise.all([partner.stop(), device.stop()]);
    return { siteId: plant.id, partner, areThere, isWhole, expectAgendaRuns, stop };
  };

  it('sends events to their Vhost again after each failed call [C-6.4]', async () => {
    const { siteId, partner, isWhole, expectAgendaRuns, stop } = await populate();
    for (let round = 0; round < ROUNDS; round++) {
      control.failOnce('before-receive');
      const charge = chargeOrder(siteId);
      expect(await partner.publish(charge)).toBe(true);
      await isWhole(charge);
    }
    await expectAgendaRuns();
    await stop();
  });

  it('runs in an object that wakes with unsent events after a kill -9 [C-7.8]', async () => {
    const { siteId, partner, areThere, isWhole, expectAgendaRuns, stop } = await populate();
    const hold = control.hold('before-receive', { subject: siteId });
    const charge = chargeOrder(siteId);
    await partner.publish(charge);
    await hold.reached;
    await stack.killEdge();
    await isWhole(charge);
    await areThere();
    await expectAgendaRuns();
    await stop();
  });
});
