/**
 * Device commands against the state of charge and against earlier commands: SoC bounds, and sums over several
 * commands.
 */
import { setScene } from '#workerd/scene.ts';
import { MINUTE, passTime } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { AWAY, endOf, obey, PLANNED, type PlannedScene, rowOf } from '#workerd/site-plan.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { batch, batteryCommand, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { LIMITED, type PlantOptions } from '#workerd/world.ts';
import type { DeviceCommandItem } from '../../../../protocol/command.ts';
import { type Constraints, DEFAULT_SITE_CONFIG, UNLIMITED } from '../../../../protocol/site-config.ts';

const TWO_BATTERIES: PlantOptions = {
  config: LIMITED,
  subDevices: [
    { externalId: 'BESS-1', assetType: 'BESS', ratedPowerKw: 50 },
    { externalId: 'BESS-2', assetType: 'BESS', ratedPowerKw: 50 },
  ],
};

function bounded(limits: Partial<Constraints>, hardLimits: Partial<Constraints> = {}): PlantOptions {
  return {
    config: {
      ...DEFAULT_SITE_CONFIG,
      constraints: { ...UNLIMITED, ...limits },
      hardLimits: { ...UNLIMITED, ...hardLimits },
    },
  };
}

function command(deviceId: string, powerKw: number | undefined, what: DeviceCommandItem['command']) {
  return submission('device', batch(batteryCommand(powerKw, { deviceId, command: what })));
}

function charge(deviceId: string, powerKw: number) {
  return command(deviceId, powerKw, 'BESS_CHARGE');
}

function discharge(deviceId: string, powerKw: number) {
  return command(deviceId, powerKw, 'BESS_DISCHARGE');
}

/** The immediate result of one publish: its acknowledgement status, or the code of a rejection. */
async function answerTo({ partner }: PlannedScene, publish: ReturnType<typeof charge>): Promise<string> {
  const { status, rejectionCode } = await partner.acknowledge(publish);
  return rejectionCode ?? status;
}

async function soc({ plant, link }: PlannedScene, data: object): Promise<void> {
  await sendTelemetry(link, plant.gateway, data);
}

describe('a battery at its SoC bounds', () => {
  const BOUNDS = bounded({ minSocPercent: 10, maxSocPercent: 90 });

  it.each([
    ['charged at maxSocPercent', 90, charge, 'maxSocPercent', 90],
    ['charged above maxSocPercent', 95.5, charge, 'maxSocPercent', 90],
    ['discharged at minSocPercent', 10, discharge, 'minSocPercent', 10],
    ['discharged below minSocPercent', 3, discharge, 'minSocPercent', 10],
  ] as const)(
    'a battery cannot be %s: the command is CONSTRAINT_VIOLATION, with an alarm in percent [C-2.3]',
    async (_how, value, ask, constraint, limit) => {
      const { scene, plant, partner } = await setScene({ ...PLANNED, plant: BOUNDS });
      await soc(scene, { 'BESS-1/socPercent': value });
      const publish = ask('BESS-1', 5);
      expect(await answerTo(scene, publish)).toBe('CONSTRAINT_VIOLATION');
      const seen = { constraint, limit, value, unit: '%' };
      expect(partner.alarms()).toMatchObject([{ type: 'CONSTRAINT_VIOLATION', deviceId: 'BESS-1', ...seen }]);
      expect(await rowOf(plant, publish)).toMatchObject({
        status: 'REJECTED',
        decision: { stage: 'constraint', facts: { ...seen, deviceId: 'BESS-1' } },
      });
    },
  );

  it('a battery at a bound accepts the other direction and a stop, and within its bounds either direction [C-2.3]', async () => {
    const scene = await setScene({ ...PLANNED, plant: BOUNDS });
    const stop = () => command('BESS-1', undefined, 'BESS_STOP');
    for (const [percent, publish] of [
      [90, discharge('BESS-1', 5)],
      [90, stop()],
      [10, charge('BESS-1', 5)],
      [10, stop()],
      [89.9, charge('BESS-1', 5)],
      [10.1, discharge('BESS-1', 5)],
    ] as const) {
      await soc(scene, { 'BESS-1/socPercent': percent });
      expect(await answerTo(scene, publish)).toBe('ACCEPTED');
    }
  });

  it('the hard limit of the SoC applies too, and a battery that reports no SoC uses that of its site [C-2.3]', async () => {
    const scene = await setScene({
      ...PLANNED,
      plant: bounded({ maxSocPercent: 90 }, { maxSocPercent: 80 }),
    });
    await soc(scene, { socPercent: 80 });
    expect(await answerTo(scene, charge('BESS-1', 5))).toBe('CONSTRAINT_VIOLATION');
    expect(scene.partner.alarms()).toMatchObject([{ constraint: 'hardLimits.maxSocPercent', limit: 80 }]);
    await soc(scene, { 'BESS-1/socPercent': 79 });
    expect(await answerTo(scene, charge('BESS-1', 5))).toBe('ACCEPTED');
  });

  it('a battery command passes if the SoC is at least five minutes old or was never reported [C-2.3]', async () => {
    const scene = await setScene({ ...PLANNED, plant: BOUNDS });
    expect(await answerTo(scene, charge('BESS-1', 5))).toBe('ACCEPTED');
    await soc(scene, { 'BESS-1/socPercent': 95 });
    await passTime(scene.plant.id, 5 * MINUTE - 1);
    expect(await answerTo(scene, charge('BESS-1', 5))).toBe('CONSTRAINT_VIOLATION');
    await evictSite(scene.plant.id);
    await passTime(scene.plant.id, 1);
    expect(await answerTo(scene, charge('BESS-1', 5))).toBe('ACCEPTED');
  });

  it('rejects of a batch only the item for the battery at its bound [C-7.5]', async () => {
    const scene = await setScene({ ...PLANNED, plant: { ...TWO_BATTERIES, ...BOUNDS } });
    await soc(scene, { 'BESS-1/socPercent': 95, 'BESS-2/socPercent': 50 });
    const both = batch(batteryCommand(5), batteryCommand(5, { deviceId: 'BESS-2' }));
    const publish = submission('device', both);
    const { status, results } = await scene.partner.acknowledge(publish);
    expect(status).toBe('PARTIAL');
    const rejected = { status: 'REJECTED', rejectionCode: 'CONSTRAINT_VIOLATION' };
    expect(results).toMatchObject([rejected, { status: 'ACCEPTED' }]);
    expect((await rowOf(scene.plant, publish)).decision).toMatchObject({
      stage: 'dispatch',
      facts: { refused: [{ deviceId: 'BESS-1', stage: 'constraint' }] },
    });
  });
});

describe('the power of an earlier battery command in the sum of all batteries', () => {
  /** The limit is 50 kW in each direction. The first battery has been commanded to charge 30. */
  async function charging() {
    const scene = await setScene({ ...PLANNED, plant: TWO_BATTERIES });
    const first = charge('BESS-1', 30);
    expect(await answerTo(scene, first)).toBe('ACCEPTED');
    await obey(scene, 1);
    return { ...scene, first };
  }

  it('an earlier battery command counts in the sum of a later one, even after an eviction [C-7.4]', async () => {
    const scene = await charging();
    await evictSite(scene.plant.id);
    expect(await answerTo(scene, charge('BESS-2', 20.1))).toBe('CONSTRAINT_VIOLATION');
    expect(scene.partner.alarms()).toMatchObject([{ constraint: 'maxChargeKw', limit: 50, value: 50.1 }]);
    expect(await answerTo(scene, charge('BESS-2', 20))).toBe('ACCEPTED');
  });

  it('a COMPLETED battery command still counts, since the battery continues [C-7.4]', async () => {
    const scene = await charging();
    await obey(scene, 1, 'COMPLETED');
    expect(await endOf(scene.plant, scene.first)).toBe('COMPLETED');
    expect(await answerTo(scene, charge('BESS-2', 25))).toBe('CONSTRAINT_VIOLATION');
  });

  it('an earlier battery command counts only in its direction, and only until the next command for that battery [C-7.4]', async () => {
    const scene = await charging();
    expect(await answerTo(scene, discharge('BESS-2', 50))).toBe('ACCEPTED');
    expect(await answerTo(scene, charge('BESS-1', 50))).toBe('ACCEPTED');
    expect(await answerTo(scene, charge('BESS-2', 1))).toBe('CONSTRAINT_VIOLATION');
    expect(await answerTo(scene, charge('BESS-1', 10))).toBe('ACCEPTED');
    expect(await answerTo(scene, charge('BESS-2', 40))).toBe('ACCEPTED');
  });

  it('a rejected battery command does not count in the sum [C-7.4]', async () => {
    const scene = await setScene({ ...PLANNED, plant: TWO_BATTERIES });
    expect(await answerTo(scene, charge('BESS-1', 51))).toBe('CONSTRAINT_VIOLATION');
    expect(await answerTo(scene, charge('BESS-2', 50))).toBe('ACCEPTED');
  });

  it('a queued battery command counts in the sum until it expires [C-7.4]', async () => {
    const { plant, partner } = await setScene({ ...AWAY, plant: TWO_BATTERIES });
    expect(await partner.acknowledge(charge('BESS-1', 30))).toMatchObject({ status: 'QUEUED' });
    expect(await partner.acknowledge(charge('BESS-2', 30))).toMatchObject({
      status: 'REJECTED',
      rejectionCode: 'CONSTRAINT_VIOLATION',
    });
    await passTime(plant.id, 15 * MINUTE);
    expect(await partner.acknowledge(charge('BESS-2', 30))).toMatchObject({ status: 'QUEUED' });
  });

  it.each<[string, (scene: PlannedScene) => Promise<unknown>]>([
    ['its battery must stop', (scene) => answerTo(scene, command('BESS-1', undefined, 'BESS_STOP'))],
    ['its device answers FAILED', (scene) => obey(scene, 1, 'FAILED')],
    ['it ends NO_RESULT without a further ack', ({ plant }) => passTime(plant.id, 15 * MINUTE)],
    [
      'an emergency has ended it and a mode change has ended the emergency',
      async (scene) => {
        await scene.partner.submit(submission('emergency', { type: 'STOP' }));
        await obey(scene, 2, 'COMPLETED');
        await scene.partner.submit(submission('mode', { mode: 'STANDARD' }));
        await obey(scene, 3);
      },
    ],
  ])('an earlier battery command no longer counts when %s [C-7.4]', async (_when, happens) => {
    const scene = await charging();
    expect(await answerTo(scene, charge('BESS-2', 30))).toBe('CONSTRAINT_VIOLATION');
    await happens(scene);
    await evictSite(scene.plant.id);
    expect(await answerTo(scene, charge('BESS-2', 30))).toBe('ACCEPTED');
  });

  it('an earlier battery command still counts after a mode change, which does not stop the battery [C-7.7]', async () => {
    const scene = await charging();
    await scene.partner.submit(submission('mode', { mode: 'STANDARD' }));
    await obey(scene, 2, 'RECEIVED', 'COMPLETED');
    expect(await answerTo(scene, charge('BESS-2', 30))).toBe('CONSTRAINT_VIOLATION');
  });
});
