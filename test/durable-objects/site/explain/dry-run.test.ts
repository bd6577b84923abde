/** What a dry run says about the plan [C-13.1]. */
import { ask, askOne, SITE, walkDryRun } from '#workerd/dry-run-walk.ts';
import { setScene } from '#workerd/scene.ts';
import { DAY, HOUR, MINUTE, SECOND, setClock } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { AWAY, obey, PLANNED, planned, rowOf, sentTo } from '#workerd/site-plan.ts';
import { batch, batteryCommand, charge, Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { siteOf } from '#workerd/world.ts';
import { formatInstant } from '../../../../protocol/ids.ts';
import { LIMIT } from '../../../../protocol/limits.ts';

it('answers like the publish of the same bytes for 500 random commands, with a seed that the long walk does not have', async ({
  clock: _clock,
}) => {
  await walkDryRun(0, 500);
});

describe('the plan of a dry run', () => {
  it('a setpoint above another one displaces it, and is sent to the plant at once [C-13.1]', async ({
    plannedSite: { plant, partner, link },
  }) => {
    const normal = planned(20, 'NORMAL');
    await partner.submit(normal);
    await obey({ plant, link }, 1);
    const high = planned(30, 'HIGH', { forMs: HOUR });
    const { plan, acknowledgement, decidedBy } = await askOne(partner, high);
    expect([acknowledgement.status, decidedBy]).toEqual(['ACCEPTED', 'plan']);
    const { id } = await rowOf(plant, normal);
    expect(plan).toEqual({
      onTop: true,
      displaces: [{ commandId: id, level: 'NORMAL', ends: null }],
      waitsBelow: null,
      plantCommand: {
        ...{ deviceId: plant.gateway.id, action: 'SITE_SETPOINT' },
        payload: expect.objectContaining({ targetSignedKw: 30 }),
        ...{ from: formatInstant(Date.now()), until: formatInstant(Date.now() + HOUR) },
      },
      resumesAfter: null,
    });
    expect(await sentTo(link, plant)).toEqual([20]);
  });

  it('a newer setpoint of the same level ends the older one [C-7.7]', async ({
    plannedSite: { plant, partner },
  }) => {
    const older = planned(20, 'NORMAL');
    await partner.submit(older);
    const { plan } = await askOne(partner, planned(30, 'NORMAL'));
    const { id } = await rowOf(plant, older);
    expect(plan).toMatchObject({
      onTop: true,
      displaces: [{ commandId: id, level: 'NORMAL', ends: 'SUPERSEDED' }],
    });
    expect((await rowOf(plant, older)).status).toBe('PENDING');
  });

  it('a setpoint below another one waits until that one ends [C-13.1]', async ({
    plannedSite: { plant, partner },
  }) => {
    const high = planned(20, 'HIGH', { forMs: HOUR });
    await partner.submit(high);
    const until = formatInstant(Date.now() + HOUR);
    const { plan, acknowledgement } = await askOne(partner, planned(30, 'NORMAL'));
    expect(acknowledgement.status).toBe('QUEUED');
    const { id } = await rowOf(plant, high);
    expect(plan).toMatchObject({
      ...{ onTop: false, displaces: [], waitsBelow: { level: 'HIGH', commandId: id }, resumesAfter: until },
      plantCommand: { payload: { targetSignedKw: 30 }, from: until, until: null },
    });
  });

  it('a setpoint that ends before the one above it is never the target', async ({
    plannedSite: { partner },
  }) => {
    await partner.submit(planned(20, 'HIGH', { forMs: HOUR }));
    const { plan } = await askOne(partner, planned(30, 'NORMAL', { forMs: HOUR - MINUTE }));
    expect(plan).toMatchObject({ onTop: false, resumesAfter: null, plantCommand: null });
  });

  it('a setpoint below two others waits until both have ended', async ({ plannedSite: { partner } }) => {
    await partner.submit(planned(20, 'HIGH', { forMs: HOUR }));
    await partner.submit(planned(25, 'EMERGENCY', { inMs: HOUR - MINUTE, forMs: HOUR }));
    const { plan } = await askOne(partner, planned(30, 'NORMAL'));
    const until = formatInstant(Date.now() + 2 * HOUR - MINUTE);
    expect(plan).toMatchObject({ onTop: false, resumesAfter: until, plantCommand: { from: until } });
  });

  it('a mode is in force when the plant acknowledges it: whether it is on top is not known', async ({
    plannedSite: { plant, partner },
  }) => {
    const { plan } = await askOne(partner, submission('mode', { mode: 'PEAK_SHAVING' }));
    expect(plan).toMatchObject({
      ...{ onTop: null, displaces: [], waitsBelow: null, resumesAfter: null },
      plantCommand: { deviceId: plant.gateway.id, payload: { mode: 'PEAK_SHAVING' } },
    });
  });

  it('a setpoint of later waits for its window, below nothing', async ({ plannedSite: { partner } }) => {
    const { plan } = await askOne(partner, planned(30, 'NORMAL', { inMs: HOUR }));
    expect(plan).toMatchObject({
      onTop: false,
      waitsBelow: null,
      resumesAfter: null,
      plantCommand: { from: formatInstant(Date.now() + HOUR) },
    });
  });

  it('shows no id of a command of another partner, and all ids to a member of the organization', async ({
    plannedSite: { plant, partner },
  }) => {
    const high = planned(20, 'HIGH', { forMs: HOUR });
    await partner.submit(high);
    const { id } = await rowOf(plant, high);
    const other = new Submitter(plant.id, crypto.randomUUID(), 'another');
    for (const command of [
      planned(30, 'NORMAL'),
      planned(30, 'HIGH'),
      submission('emergency', { type: 'STOP' }),
    ]) {
      const [text = ''] = await siteOf(plant.id).dryRun(other.batchOf([command]), other.asker);
      expect(text).not.toContain(id);
      expect(text).not.toContain(high.messageId);
      const [full = ''] = await siteOf(plant.id).dryRun(other.batchOf([command]), 'member');
      expect(full).toContain(id);
    }
  });

  it('an emergency ends setpoints and waiting commands, and goes to each device', async ({
    plannedSite: { plant, partner },
  }) => {
    await partner.submit(planned(20, 'HIGH'));
    await partner.submit(planned(20, 'NORMAL', { inMs: HOUR }));
    const { plan } = await askOne(partner, submission('emergency', { type: 'STOP' }));
    expect(plan).toMatchObject({
      onTop: true,
      displaces: [
        { level: 'HIGH', ends: 'SUPERSEDED' },
        { level: 'NORMAL', ends: 'EMERGENCY' },
      ],
      plantCommand: { deviceId: plant.gateway.id, action: 'EMERGENCY_STOP' },
    });
    await partner.submit(submission('emergency', { type: 'STOP' }));
    const below = await askOne(partner, planned(20, 'HIGH'));
    expect(below.plan).toMatchObject({ onTop: false, waitsBelow: { level: 'STOP' }, resumesAfter: null });
  });

  it('a batch has no place in the plan and names the MQTT command of each action', async ({
    plannedSite: { plant, partner },
  }) => {
    const commands = batch(
      batteryCommand(5),
      batteryCommand(undefined, { deviceId: 'FVE-1', assetType: 'FVE', command: 'FVE_STOP' }),
    );
    const { plan, decidedBy } = await askOne(partner, submission('device', commands));
    expect(decidedBy).toBe('dispatch');
    expect(plan).toMatchObject({
      onTop: null,
      plantCommand: {
        deviceId: plant.gateway.id,
        action: 'BESS_CHARGE',
        until: formatInstant(Date.now() + 15 * MINUTE),
      },
      alsoSent: [{ action: 'FVE_STOP' }],
    });
  });

  it('a gateway that is away gets the command when it is back', async ({ clock: _clock }) => {
    const { partner } = await setScene(AWAY);
    const { acknowledgement, plan, asOf } = await askOne(partner, charge());
    expect([acknowledgement.status, asOf.gateway]).toEqual(['QUEUED', 'AWAY']);
    expect(plan?.plantCommand).toMatchObject({ from: null });
  });

  it('over the limit of waiting commands the oldest is displaced [C-7.6]', async ({ clock: _clock }) => {
    const { plant, partner } = await setScene(AWAY);
    const waiting = Array.from({ length: 50 }, () => charge(1));
    await partner.submit(...waiting);
    const { plan } = await askOne(partner, charge(2));
    const { id } = await rowOf(plant, waiting[0] ?? charge());
    expect(plan?.displaces).toEqual([{ commandId: id, level: null, ends: 'QUEUE_FULL' }]);
  });
});

describe('the checks of a dry run', () => {
  it('an accepted command passes all; a refused one names the limit and the nearest value', async ({
    plannedSite: { partner },
  }) => {
    const good = await askOne(partner, planned(20, 'HIGH'));
    expect(good.stages.map(({ stage, outcome }) => `${stage} ${outcome}`)).toEqual([
      ...['signature skipped', 'repeat ok', 'freshness skipped', 'payload ok', 'window ok'],
      ...['target ok', 'constraint ok', 'topology ok'],
    ]);
    const { acknowledgement, stages, plan } = await askOne(partner, planned(101, 'HIGH'));
    expect(plan).toBeNull();
    expect(stages.slice(-2)).toEqual([
      {
        ...{ stage: 'constraint', outcome: 'refused', message: acknowledgement.message },
        ...{ constraint: 'maxImportKw', limit: 100, value: 101, unit: 'kW' },
        admissible: { field: 'targetValueKw', unit: 'kW', max: 100 },
      },
      { stage: 'topology', outcome: 'skipped' },
    ]);
  });

  it('names the hard limit if that is the lower one', async ({ clock: _clock }) => {
    const { plant, partner } = await setScene({ ...PLANNED, plant: SITE });
    await siteOf(plant.id).configure(plant.id, {
      ...SITE.config,
      hardLimits: { ...SITE.config?.hardLimits, maxImportKw: 60 },
    } as never);
    const { stages } = await askOne(partner, planned(101, 'HIGH'));
    expect(stages.find(({ stage }) => stage === 'constraint')).toMatchObject({
      limit: 100,
      admissible: { max: 60 },
    });
  });

  it('names every check that refuses an item of a batch, and what is left of a limit for all batteries', async ({
    clock: _clock,
  }) => {
    const { partner, link, plant } = await setScene({ ...PLANNED, plant: SITE });
    await partner.submit(submission('device', batch(batteryCommand(25, { deviceId: 'BESS-2' }))));
    const sum = await askOne(partner, charge(30));
    expect(sum.stages.filter(({ outcome }) => outcome === 'refused')).toMatchObject([
      {
        stage: 'constraint',
        limit: 50,
        value: 55,
        admissible: { field: 'commands[0].params.powerKw', max: 25 },
      },
    ]);
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 1, 'BESS-1/socPercent': 96 });
    const both = await askOne(partner, charge(10));
    expect(both.stages.filter(({ outcome }) => outcome === 'refused')).toMatchObject([
      { stage: 'constraint', deviceId: 'BESS-1', unit: '%', value: 96 },
      { stage: 'fault', message: 'BESS-1 reports a fault' },
    ]);
    expect(both.stages.some(({ admissible }) => admissible)).toBe(false);
  });

  it('names each refused slot of a schedule', async ({ plannedSite: { partner } }) => {
    const slots = [90, 120, -90].map((value, slotIndex) => ({
      slotIndex,
      mode: 'STANDARD',
      setpoint: { value },
    }));
    const set = submission('schedule', { startTime: formatInstant(Date.now()), slots });
    const { stages } = await askOne(partner, set);
    expect(stages.filter(({ outcome }) => outcome === 'refused')).toMatchObject([
      { slot: 1, limit: 100, admissible: { field: 'slots[1].setpoint.value', max: 100 } },
      { slot: 2, limit: 80, admissible: { field: 'slots[2].setpoint.value', min: -80 } },
    ]);
  });
});

describe('a dry run of a signed message', () => {
  it.for([
    ['behind', -5 * MINUTE - 1],
    ['behind', -DAY],
    ['ahead of', 6 * MINUTE],
  ] as const)(
    'answers a timestamp %s the clock like the publish of the same bytes some seconds later [C-13.1]',
    async ([side, offsetMs], { plannedSite: { partner } }) => {
      const stale = {
        ...planned(20, 'HIGH'),
        signature: 'valid' as const,
        timestampMs: Date.now() + offsetMs,
      };
      const asked = await askOne(partner, stale);
      expect(asked).toMatchObject({ decidedBy: 'freshness', plan: null });
      expect(asked.acknowledgement.message).toContain(side);
      expect(asked.stages.map(({ stage, outcome }) => `${stage} ${outcome}`).slice(0, 4)).toEqual([
        ...['signature ok', 'repeat ok', 'freshness refused', 'payload skipped'],
      ]);
      setClock(Date.now() + 1.5 * SECOND);
      expect((await askOne(partner, stale)).asOf).toEqual(asked.asOf);
      expect(await partner.acknowledge(stale)).toEqual(asked.acknowledgement);
    },
  );

  it('accepts a timestamp of exactly five minutes ago, and refuses it a millisecond later [C-7.3]', async ({
    plannedSite: { partner },
  }) => {
    const timestampMs = Date.now() - 5 * MINUTE;
    const edge = { ...planned(20, 'HIGH'), signature: 'valid' as const, timestampMs };
    expect(await askOne(partner, edge)).toMatchObject({ decidedBy: 'plan' });
    setClock(Date.now() + 1);
    const late = await askOne(partner, edge);
    expect(late).toMatchObject({
      decidedBy: 'freshness',
      acknowledgement: { rejectionCode: 'INVALID_PAYLOAD' },
    });
    expect(await partner.acknowledge(edge)).toEqual(late.acknowledgement);
  });

  it('answers a message that was accepted in time with its first acknowledgement, however old it is [C-7.3]', async ({
    plannedSite: { partner },
  }) => {
    const timestampMs = Date.now();
    const once = { ...planned(20, 'HIGH'), signature: 'valid' as const, timestampMs };
    const first = await partner.acknowledge(once);
    setClock(Date.now() + 6 * MINUTE);
    expect(await askOne(partner, once)).toMatchObject({ repeated: true, acknowledgement: first });
    expect(await partner.acknowledge(once)).toEqual(first);
  });
});

describe('the admissible energy of a dry run', () => {
  /** Limits of `SITE`: import 100 kW, export 80 kW. */
  it.for([
    ['IMPORT', 15, 25],
    ['IMPORT', 60, 100],
    ['IMPORT', 90, 150],
    ['EXPORT', 15, 20],
    ['EXPORT', 7.5, 10],
  ] as const)(
    'is in kWh of the interval: %s in %d min up to %d [C-13.1]',
    async ([direction, intervalMinutes, max], { clock: _clock }) => {
      const { partner } = await setScene({ ...PLANNED, plant: SITE });
      const energy = (targetValueKwh: number) =>
        submission('site-setpoint', {
          ...{ type: 'ENERGY', targetValueKwh, intervalMinutes, direction },
          ...{ includeConsumption: true, priority: 'HIGH', validFrom: formatInstant(Date.now()) },
        });
      const { stages } = await askOne(partner, energy(max * 2));
      expect(stages.find(({ stage }) => stage === 'constraint')).toMatchObject({
        ...{
          outcome: 'refused',
          constraint: direction === 'IMPORT' ? 'maxImportKw' : 'maxExportKw',
          unit: 'kW',
        },
        admissible: { field: 'targetValueKwh', unit: 'kWh', max },
      });
      expect((await askOne(partner, energy(max))).decidedBy).toBe('plan');
      expect((await askOne(partner, energy(max + 0.001))).decidedBy).toBe('constraint');
    },
  );

  it('is accepted as it is named, and is within two thousandths of the limit, for intervals of all lengths [C-13.1]', async ({
    clock: _clock,
  }) => {
    const { partner } = await setScene({ ...PLANNED, plant: SITE });
    const energy = (intervalMinutes: number, targetValueKwh: number) =>
      submission('site-setpoint', {
        ...{ type: 'ENERGY', targetValueKwh, intervalMinutes, direction: 'IMPORT' },
        ...{ includeConsumption: true, priority: 'HIGH', validFrom: formatInstant(Date.now()) },
      });
    const lengths = Array.from({ length: LIMIT.commandIntervalMinutes }, (_, index) => index + 1);
    const some = lengths.filter((minutes) => minutes <= 30 || minutes % 17 === 0);
    for (let from = 0; from < some.length; from += 50) {
      const minutes = some.slice(from, from + 50);
      const refused = await ask(partner, ...minutes.map((one) => energy(one, one * 10)));
      const named = refused.map(
        ({ stages }) => stages.find(({ stage }) => stage === 'constraint')?.admissible?.max ?? Number.NaN,
      );
      const within = await ask(partner, ...minutes.map((one, index) => energy(one, named[index] ?? 0)));
      expect(within.map(({ decidedBy }) => decidedBy)).toEqual(minutes.map(() => 'plan'));
      for (const [index, one] of minutes.entries())
        expect(Math.abs((named[index] ?? 0) - (100 * one) / 60)).toBeLessThanOrEqual(0.002);
    }
  });
});

it('a dry run that its caller has given up is not judged', async ({ plannedSite: { plant, partner } }) => {
  const late = { ...partner.batchOf([planned(20, 'HIGH')]), notAfterMs: Date.now() - 1 };
  const asked = async () => await siteOf(plant.id).dryRun(late, 'member');
  await expect(asked()).rejects.toThrow('no answer within');
});

describe('a list of a dry run', () => {
  it('judges each command after those before it [C-13.1]', async ({ plannedSite: { partner } }) => {
    const first = planned(20, 'HIGH');
    const answers = await ask(
      partner,
      ...[first, planned(30, 'NORMAL'), first, submission('device', batch(batteryCommand(30)))],
      submission('emergency', { type: 'HOLD' }),
      submission('device', batch(batteryCommand(30))),
    );
    expect(
      answers.map(({ acknowledgement, repeated = false }) => [acknowledgement.status, repeated]),
    ).toEqual([
      ['ACCEPTED', false],
      ['QUEUED', false],
      ['ACCEPTED', true],
      ['ACCEPTED', false],
      ['ACCEPTED', false],
      ['REJECTED', false],
    ]);
    const [alone] = await ask(partner, submission('device', batch(batteryCommand(30))));
    expect(alone?.acknowledgement.status).toBe('ACCEPTED');
  });
});
