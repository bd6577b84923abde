/** The verdict on a setpoint from the telemetry of a site: its numbers, its event, its alarm, its log row. */
import { changeAndNotifySite } from '#workerd/registry-changes.ts';
import { setScene, whole } from '#workerd/scene.ts';
import { HOUR, MINUTE, passTime, SECOND, setClock } from '#workerd/site-clock.ts';
import { nthCommand, sendTelemetry } from '#workerd/site-devices.ts';
import { listen } from '#workerd/site-listener.ts';
import {
  deliverEvents,
  endOf,
  executionsOf,
  obey,
  PLANNED,
  type PlannedScene,
  planned,
  rowOf,
} from '#workerd/site-plan.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createKey, type PlantOptions } from '#workerd/world.ts';
import type { Submission } from '../../../../durable-objects/rpc.ts';
import { SITE_BOUNDS } from '../../../../durable-objects/site/bounds.ts';
import type { SiteSetpoint } from '../../../../protocol/command.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

/** The gateway sends signals every half minute for the given time. */
async function report(
  { plant, link }: PlannedScene,
  durationMs: number,
  signals: (sinceMs: number) => object,
): Promise<void> {
  for (let passedMs = 0; passedMs < durationMs; passedMs += 30 * SECOND) {
    await sendTelemetry(link, plant.gateway, signals(passedMs));
    await passTime(plant.id, Math.min(30 * SECOND, durationMs - passedMs));
  }
}

function gridKw(kw: number) {
  return () => ({ gridPowerKw: kw });
}

/** A site whose gateway acknowledges a setpoint, its first command. */
async function obeying(publish: () => Submission, options: PlantOptions = {}) {
  const scene = await setScene({ ...PLANNED, plant: options });
  const setpoint = publish();
  await scene.partner.submit(setpoint);
  await obey(scene, 1);
  return whole({ ...scene, setpoint });
}

function energy(kwh: number, intervalMinutes: number, changes: Partial<SiteSetpoint> = {}): () => Submission {
  return () =>
    planned(
      0,
      'NORMAL',
      {},
      {
        type: 'ENERGY',
        targetValueKwh: kwh,
        intervalMinutes,
        ...changes,
      },
    );
}

describe('a POWER setpoint', () => {
  it('is COMPLETED if the plant followed it, with the mean measured after it settled [C-7.8]', async () => {
    const { scene, plant, setpoint } = await obeying(() => planned(10, 'NORMAL', { forMs: 10 * MINUTE }));
    await report(scene, MINUTE, gridKw(80));
    await report(scene, 9 * MINUTE, gridKw(10.3));
    const numbers = { actualValueKw: 10.3, targetValueKw: 10, deviationKw: 0.3 };
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'COMPLETED', ...numbers });
    expect(await executionsOf(scene, setpoint)).toEqual([
      { commandType: 'SITE_SETPOINT', status: 'EXECUTING', targetValueKw: 10 },
      { commandType: 'SITE_SETPOINT', status: 'COMPLETED', ...numbers },
    ]);
    expect(scene.listener.events('alarm')).toEqual([]);
  });

  it('is DEVIATED if the plant missed it, with one SETPOINT_DEVIATION to each key that may connect and see it [C-8.3]', async () => {
    const { scene, organization, plant, partner, listener } = await setScene(PLANNED);
    const other = await listen(organization, await createKey(organization));
    await changeAndNotifySite(organization, plant.id);
    const setpoint = planned(10, 'NORMAL', { forMs: 10 * MINUTE }, { direction: 'EXPORT' });
    await partner.submit(setpoint);
    await obey(scene, 1);
    await report(scene, 10 * MINUTE, gridKw(-7.5));
    const numbers = { actualValueKw: -7.5, targetValueKw: -10, deviationKw: 2.5 };
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'DEVIATED', ...numbers });
    await evictSite(plant.id);
    await passTime(plant.id, HOUR);
    expect((await executionsOf(scene, setpoint))[1]).toMatchObject({ status: 'DEVIATED', ...numbers });
    await other.quiet();
    for (const one of [listener, other]) {
      const deviations = one.events('alarm').filter(({ payload }) => payload.type === 'SETPOINT_DEVIATION');
      expect(deviations).toMatchObject([
        { payload: { status: 'RAISED', commandType: 'SITE_SETPOINT', value: -7.5, limit: -10, unit: 'kW' } },
      ]);
    }
    expect(listener.events('alarm').at(0)?.correlationId).toBe(setpoint.messageId);
    expect(other.events('alarm').at(0)?.correlationId).not.toBe(setpoint.messageId);
  });

  it('an open-ended POWER setpoint is judged only by its first five minutes of EXECUTING [C-7.8]', async () => {
    const { scene, plant, setpoint } = await obeying(() => planned(10, 'NORMAL'));
    await report(scene, 5 * MINUTE, gridKw(10));
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'COMPLETED', actualValueKw: 10 });
    await report(scene, 10 * MINUTE, gridKw(90));
    await deliverEvents(scene);
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'COMPLETED', actualValueKw: 10 });
    expect(await executionsOf(scene, setpoint)).toHaveLength(2);
  });

  it('the verdict counts only the activations, each after a new settling time [C-7.8]', async () => {
    const scene = await obeying(() => planned(10, 'NORMAL', { forMs: 12 * MINUTE }));
    const { plant, partner, setpoint } = scene;
    await report(scene, 4 * MINUTE, gridKw(10));
    await partner.submit(planned(50, 'HIGH', { forMs: 4 * MINUTE }));
    await obey(scene, 2);
    await report(scene, 4 * MINUTE, gridKw(50));
    await obey(scene, 3);
    await evictSite(plant.id);
    await report(scene, MINUTE, gridKw(50));
    await report(scene, 3 * MINUTE, gridKw(12));
    // After a minute each to settle: 10 kW for 3 minutes, 12 kW for 3.
    expect(await rowOf(plant, setpoint)).toMatchObject({
      status: 'DEVIATED',
      actualValueKw: 11,
      deviationKw: 1,
    });
  });

  it('an unmeasured POWER setpoint is COMPLETED unmeasured, without an alarm [C-7.8]', async () => {
    const scene = await obeying(() => planned(10, 'NORMAL', { forMs: 10 * MINUTE }));
    await report(scene, 10 * MINUTE, () => ({ 'BESS-1/powerKw': 10 }));
    expect(await endOf(scene.plant, scene.setpoint)).toBe('COMPLETED unmeasured');
    expect(await rowOf(scene.plant, scene.setpoint)).not.toHaveProperty('actualValueKw');
    await deliverEvents(scene);
    expect(scene.listener.events('alarm')).toEqual([]);
  });

  it('is judged without new samples by the last sample before it began [C-7.8]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 10 });
    await passTime(plant.id, MINUTE);
    const setpoint = planned(10, 'NORMAL', { forMs: 2 * MINUTE });
    await partner.submit(setpoint);
    await obey(scene, 1);
    await passTime(plant.id, 2 * MINUTE);
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'COMPLETED', actualValueKw: 10 });
  });

  it('a site that slept past the verdict judges the setpoint at the wake, for the right period [C-7.8]', async () => {
    const { scene, plant, setpoint, link } = await obeying(() => planned(10, 'NORMAL'));
    await report(scene, 4 * MINUTE, gridKw(10));
    await evictSite(plant.id);
    await passTime(plant.id, 30 * MINUTE);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 90 });
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'COMPLETED', actualValueKw: 10 });
  });
});

describe('a site with more telemetry than a verdict may read', () => {
  /** About 57 KB of signals. */
  const filler = Object.fromEntries(
    Array.from({ length: 400 }, (_none, index) => [`${'x'.repeat(120)}-${index}`, 1 / 3 + index]),
  );

  it('a verdict over more telemetry than it may read uses the newest part [rule 9]', async () => {
    const { scene, plant, setpoint, link } = await obeying(() => planned(10, 'NORMAL', { forMs: 2 * HOUR }));
    await report(scene, 20 * MINUTE, gridKw(90));
    const perMessage = JSON.stringify(filler).length;
    for (let chars = 0; chars < SITE_BOUNDS.verdictChars; chars += perMessage) {
      await sendTelemetry(link, plant.gateway, { ...filler, gridPowerKw: 10 });
      await passTime(plant.id, 20 * SECOND);
    }
    expect(
      await numberOf(plant.id, 'SELECT count(*) FROM journal_block WHERE data LIKE \'%"gridPowerKw":90%\''),
    ).toBeGreaterThan(0);
    await passTime(plant.id, 2 * HOUR);
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'COMPLETED', actualValueKw: 10 });
  });
});

describe('a setpoint without includeConsumption', () => {
  it('is measured at its controllable assets: consumption minus production [C-7.8]', async () => {
    const scene = await obeying(() =>
      planned(10, 'NORMAL', { forMs: 10 * MINUTE }, { includeConsumption: false }),
    );
    const { plant, setpoint } = scene;
    await report(scene, 10 * MINUTE, () => ({
      gridPowerKw: 77,
      'BESS-1/powerKw': 25,
      'FVE-1/powerKw': 15,
    }));
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'COMPLETED', actualValueKw: 10 });
  });

  it('is unmeasured while one asset is silent [C-7.8]', async () => {
    const scene = await obeying(() =>
      planned(10, 'NORMAL', { forMs: 10 * MINUTE }, { includeConsumption: false }),
    );
    await report(scene, 10 * MINUTE, () => ({ gridPowerKw: 10, 'BESS-1/powerKw': 10 }));
    expect(await endOf(scene.plant, scene.setpoint)).toBe('COMPLETED unmeasured');
  });
});

describe('an ENERGY setpoint', () => {
  it("is measured by the GRID meter's registers, with kWh in its event and kW in its log row [C-7.8]", async () => {
    const { scene, plant, setpoint } = await obeying(energy(5, 15));
    // 5 kWh imported and 1 exported: 4 net, whatever the power is.
    await report(scene, 15 * MINUTE, (sinceMs) => ({
      gridPowerKw: 99,
      'METER-1/importRegisterKwh': sinceMs < 10 * MINUTE ? 1_000 : 1_005,
      'METER-1/exportRegisterKwh': sinceMs < 5 * MINUTE ? 500 : 501,
    }));
    const [, verdict] = await executionsOf(scene, setpoint);
    expect(verdict).toEqual({
      commandType: 'SITE_SETPOINT',
      status: 'DEVIATED',
      targetValueKwh: 5,
      actualValueKwh: 4,
      deviationKwh: -1,
      targetValueKw: 20,
      actualValueKw: 16,
      deviationKw: -4,
    });
    const row = await rowOf(plant, setpoint);
    expect(row).toMatchObject({ targetValueKw: 20, actualValueKw: 16, deviationKw: -4 });
    expect(JSON.stringify(row)).not.toContain('actualValueKwh');
    expect(scene.listener.events('alarm')).toMatchObject([
      { payload: { type: 'SETPOINT_DEVIATION', value: 4, limit: 5, unit: 'kWh' } },
    ]);
  });

  it('is measured without registers by the integral of the power, including the settling time [C-7.8]', async () => {
    const { scene, plant, setpoint } = await obeying(energy(5, 15));
    await report(scene, 5 * MINUTE, gridKw(12));
    await report(scene, 10 * MINUTE, gridKw(24));
    const [, verdict] = await executionsOf(scene, setpoint);
    expect(verdict).toMatchObject({ status: 'COMPLETED', actualValueKwh: 5, deviationKwh: 0 });
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'COMPLETED', actualValueKw: 20 });
  });

  it('active for a part of its interval is compared with the whole target [C-7.8]', async () => {
    const { scene, plant, partner, setpoint } = await obeying(energy(5, 15));
    await report(scene, 6 * MINUTE, gridKw(20));
    await partner.submit(planned(50, 'HIGH'));
    await obey(scene, 2);
    await report(scene, 9 * MINUTE, gridKw(50));
    const [, verdict] = await executionsOf(scene, setpoint);
    expect(verdict).toMatchObject({ status: 'DEVIATED', actualValueKwh: 2, deviationKwh: -3 });
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'DEVIATED', actualValueKw: 8 });
  });

  it('stays active after its verdict until its validUntil [C-7.7]', async () => {
    const { scene, plant, partner, setpoint, link } = await obeying(energy(5, 15));
    await report(scene, 15 * MINUTE, gridKw(20));
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'COMPLETED' });
    await partner.submit(planned(50, 'HIGH', { forMs: MINUTE }));
    await obey(scene, 2);
    await passTime(plant.id, MINUTE);
    const { payload } = await obey(scene, 3);
    expect(payload).toMatchObject({ type: 'ENERGY', targetValueKwh: 5, targetSignedKw: 20 });
    expect(link.received.filter((frame) => frame.kind === 'command')).toHaveLength(3);
    expect(await executionsOf(scene, setpoint)).toHaveLength(2);
  });
});

describe('a setpoint that resumed shortly before its end', () => {
  /**
   * A setpoint below a HIGH one until 10 seconds before its end. Its gateway was sent it again, and has not
   * answered yet.
   */
  async function resuming(make: () => Submission) {
    const { scene, plant, partner, link } = await obeying(make);
    await report(scene, 18 * MINUTE, gridKw(90));
    await partner.submit(planned(9, 'HIGH', { forMs: 110 * SECOND }));
    await obey(scene, 2);
    await passTime(plant.id, 110 * SECOND);
    await nthCommand(link, 3);
    return whole(scene);
  }

  it('a setpoint with a verdict gets no second one, even if its last ack arrives after its window [C-7.8]', async () => {
    const validUntil = () => ({ validUntil: formatInstant(Date.now() + 20 * MINUTE) });
    const { scene, plant, setpoint } = await resuming(() => energy(5, 15, validUntil())());
    const judged = await rowOf(plant, setpoint);
    expect(judged).toMatchObject({ status: 'DEVIATED', actualValueKw: 90 });
    await passTime(plant.id, 12 * SECOND);
    await obey(scene, 3);
    await passTime(plant.id, MINUTE);
    expect(await rowOf(plant, setpoint)).toEqual(judged);
    const statuses = (await executionsOf(scene, setpoint)).map(({ status }) => status);
    expect(statuses).toEqual(['EXECUTING', 'DEVIATED']);
  });

  it('its verdict covers its active time, even if another command arrives before the late alarm [C-7.8]', async () => {
    const { plant, partner, setpoint } = await resuming(() => planned(90, 'NORMAL', { forMs: 20 * MINUTE }));
    setClock(Date.now() + 10 * SECOND);
    await partner.submit(planned(4, 'EMERGENCY'));
    await passTime(plant.id, 10 * MINUTE);
    expect(await rowOf(plant, setpoint)).toMatchObject({ status: 'COMPLETED', actualValueKw: 90 });
  });
});
