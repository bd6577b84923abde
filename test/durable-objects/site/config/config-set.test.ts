/** `{slug}.config.set`: a merge patch of a site's configuration, in force when it is accepted, and told to the plant [C-7.9]. */
import { describe, expect, it } from 'vitest';
import { holdClock, MINUTE, passTime, SECOND } from '#workerd/site-clock.ts';
import { commandsOf, connectListening, nthCommand, sendAck, stayConnected } from '#workerd/site-devices.ts';
import { newestCommand, readCommands, readConfig } from '#workerd/site-reads.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { newSite } from '#workerd/site-scenes.ts';
import { batch, batteryCommand, charge, powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { DEFAULT_SUB_DEVICES, type PlantOptions } from '#workerd/world.ts';
import { DEFAULT_SITE_CONFIG, UNLIMITED } from '../../../../protocol/site-config.ts';

holdClock();

const FALLBACK = { mode: 'ZERO_EXPORT', afterSeconds: 120, action: 'HOLD', setpointKw: 3 } as const;
const CONFIG = {
  ...DEFAULT_SITE_CONFIG,
  constraints: { ...UNLIMITED, maxImportKw: 100, maxChargeKw: 40 },
  fallback: FALLBACK,
};

const set = (payload: object, word = 'set') =>
  submission('config', payload, { routingKey: `acme.config.${word}` });

/** A site whose gateway listens. */
async function listening(options: PlantOptions = { config: CONFIG }) {
  const scene = await newSite(options);
  return { ...scene, link: await connectListening(scene.plant) };
}

describe('a patch of the configuration', () => {
  it.each<[string, object, object]>([
    [
      'one limit',
      { constraints: { maxImportKw: 50 } },
      { constraints: { ...CONFIG.constraints, maxImportKw: 50 } },
    ],
    [
      'a limit that it takes away',
      { constraints: { maxImportKw: null } },
      { constraints: { ...CONFIG.constraints, maxImportKw: null } },
    ],
    ['all limits that it takes away', { constraints: null }, { constraints: null }],
    [
      'one field of the fallback',
      { fallback: { action: 'STOP' } },
      { fallback: { ...FALLBACK, action: 'STOP' } },
    ],
    [
      'fields of the fallback that it takes away',
      { fallback: { afterSeconds: null, setpointKw: null } },
      { fallback: { ...FALLBACK, afterSeconds: 300, setpointKw: null } },
    ],
    ['the fallback that it takes away', { fallback: null }, { fallback: null }],
    ['the mode', { operatingMode: 'LOCAL_OPTIMIZATION' }, { operatingMode: 'LOCAL_OPTIMIZATION' }],
  ])('changes %s and nothing else, at once and for good (RFC 7396)', async (_what, patch, changed) => {
    const { plant, partner } = await listening();
    expect(await partner.acknowledge(set(patch))).toEqual({ status: 'ACCEPTED', commandType: 'CONFIG' });
    await evictSite(plant.id);
    const { hardLimits: _none, ...config } = CONFIG;
    expect(await readConfig(plant.id)).toMatchObject({ ...config, ...changed });
  });

  it('may set a fallback where there is none, if it is whole [C-2.3]', async () => {
    const { plant, partner } = await listening({ config: DEFAULT_SITE_CONFIG });
    expect(await partner.acknowledge(set({ fallback: { mode: 'STANDARD' } }))).toMatchObject({
      status: 'REJECTED',
      rejectionCode: 'INVALID_PAYLOAD',
      message: expect.stringMatching(/^fallback\.action: /),
    });
    await partner.acknowledge(set({ fallback: { mode: 'STANDARD', action: 'MODE' } }));
    expect((await readConfig(plant.id)).fallback).toEqual({
      mode: 'STANDARD',
      afterSeconds: 300,
      action: 'MODE',
      setpointKw: null,
    });
  });

  it.each<[string, object, string, RegExp]>([
    ['nothing', {}, 'set', /payload: /],
    ['hard limits', { hardLimits: null }, 'set', /hardLimits/],
    ['an unknown limit', { constraints: { maxKw: 1 } }, 'set', /maxKw/],
    ['a limit under nothing', { constraints: { maxImportKw: -1 } }, 'set', /^constraints\.maxImportKw: /],
    ['a mode that it takes away', { operatingMode: null }, 'set', /^operatingMode: /],
    ['a wait of a second', { fallback: { afterSeconds: 1 } }, 'set', /^fallback\.afterSeconds: /],
    ['a fallback without its mode', { fallback: { mode: null } }, 'set', /^fallback\.mode: /],
    [
      'several things',
      { constraints: { maxImportKw: -1 }, fallback: { afterSeconds: 1 }, hardLimits: null },
      'set',
      /^constraints\.maxImportKw: .*; fallback\.afterSeconds: .*; Unrecognized key: "hardLimits"$/,
    ],
    [
      'a fallback without two of its fields',
      { fallback: { mode: null, action: null } },
      'set',
      /^fallback\.mode: .*; fallback\.action: /,
    ],
    ['another word than set', { operatingMode: 'STANDARD' }, 'put', /config\.put/],
  ])('that says %s is INVALID_PAYLOAD, and changes nothing [C-7.9]', async (_what, patch, word, message) => {
    const { plant, partner, link } = await listening();
    expect(await partner.acknowledge(set(patch, word))).toMatchObject({
      status: 'REJECTED',
      commandType: 'CONFIG',
      rejectionCode: 'INVALID_PAYLOAD',
      message: expect.stringMatching(message),
    });
    expect(await readConfig(plant.id)).toMatchObject({ constraints: CONFIG.constraints, fallback: FALLBACK });
    expect(commandsOf(link)).toEqual([]);
  });
});

describe('hard limits', () => {
  const hardLimits = { ...UNLIMITED, maxImportKw: 80, minSocPercent: 10, maxSocPercent: 90 };
  const config = { ...DEFAULT_SITE_CONFIG, hardLimits };

  it.each([
    ['maxImportKw', 81, 80, 'kW'],
    ['minSocPercent', 9, 10, '%'],
    ['maxSocPercent', 91, 90, '%'],
  ])(
    'are not loosened by %s: CONSTRAINT_VIOLATION, with its alarm [C-2.3]',
    async (name, value, limit, unit) => {
      const { plant, partner } = await listening({ config });
      const patch = { constraints: { [name]: value }, operatingMode: 'ZERO_EXPORT' };
      expect(await partner.acknowledge(set(patch))).toMatchObject({
        status: 'REJECTED',
        rejectionCode: 'CONSTRAINT_VIOLATION',
        message: `${value} ${unit} is looser than hardLimits.${name} ${limit} ${unit}`,
      });
      expect(partner.alarms()).toMatchObject([
        {
          type: 'CONSTRAINT_VIOLATION',
          commandType: 'CONFIG',
          constraint: `hardLimits.${name}`,
          limit,
          value,
          unit,
        },
      ]);
      expect(await readConfig(plant.id)).toMatchObject({ constraints: null, operatingMode: 'STANDARD' });
      expect((await newestCommand(plant.id)).decision).toMatchObject({
        stage: 'constraint',
        facts: { limit, value },
      });
    },
  );

  it('that are loosened are told all, the alarm is that of the first [C-2.3]', async () => {
    const { partner } = await listening({ config });
    const patch = { constraints: { maxImportKw: 81, minSocPercent: 9, maxChargeKw: 500 } };
    expect(await partner.acknowledge(set(patch))).toMatchObject({
      rejectionCode: 'CONSTRAINT_VIOLATION',
      message:
        '81 kW is looser than hardLimits.maxImportKw 80 kW; 9 % is looser than hardLimits.minSocPercent 10 %',
    });
    expect(partner.alarms()).toMatchObject([{ constraint: 'hardLimits.maxImportKw' }]);
  });

  it('are what the plant is told where nothing stricter is set [C-2.3]', async () => {
    const { partner, link } = await listening({ config });
    await partner.acknowledge(
      set({ constraints: { maxImportKw: 80, minSocPercent: 20, maxSocPercent: null } }),
    );
    expect((await nthCommand(link, 1)).payload).toEqual({
      constraints: { ...UNLIMITED, maxImportKw: 80, minSocPercent: 20, maxSocPercent: 90 },
      fallback: null,
      operatingMode: 'STANDARD',
    });
  });
});

describe('CONFIG_SET', () => {
  it('tells the gateway the whole configuration, and its ack ends the command [C-7.8]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(set({ constraints: { maxImportKw: 50 } }));
    const told = await nthCommand(link, 1);
    expect(told).toMatchObject({
      action: 'CONFIG_SET',
      payload: {
        constraints: { ...CONFIG.constraints, maxImportKw: 50 },
        fallback: FALLBACK,
        operatingMode: 'STANDARD',
      },
    });
    await sendAck(link, plant.gateway, told.cmdId, 'RECEIVED');
    expect(await newestCommand(plant.id)).toMatchObject({ commandType: 'CONFIG', status: 'EXECUTING' });
    await sendAck(link, plant.gateway, told.cmdId, 'COMPLETED');
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'COMPLETED', target: 'SITE' });
  });

  it('is told three times, then FAILED NO_ACK; the configuration stays in force [C-7.8]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(set({ fallback: null }));
    await stayConnected(plant, link, 3 * MINUTE);
    expect(commandsOf(link).map(({ action }) => action)).toEqual(Array(3).fill('CONFIG_SET'));
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'FAILED', reason: 'NO_ACK' });
    expect((await readConfig(plant.id)).fallback).toBeNull();
  });

  it('waits for a gateway that is away, and tells it what is in force when it comes [C-7.6]', async () => {
    const { plant, partner } = await newSite({ config: CONFIG });
    const first = set({ constraints: { maxImportKw: 50 } });
    expect(await partner.acknowledge(first)).toEqual({ status: 'QUEUED', commandType: 'CONFIG' });
    await passTime(plant.id, 20 * MINUTE);
    await evictSite(plant.id);
    await partner.acknowledge(set({ constraints: { maxChargeKw: 5 } }));
    const [second, superseded] = (await readCommands(plant.id)).items;
    expect(superseded).toMatchObject({ status: 'FAILED', reason: `SUPERSEDED by ${second?.id}` });
    const link = await connectListening(plant);
    expect(commandsOf(link)).toMatchObject([
      { action: 'CONFIG_SET', payload: { constraints: { maxImportKw: 50, maxChargeKw: 5 } } },
    ]);
  });

  it('that a gateway has and did not end is no more once another is set: nothing old comes behind it [C-7.9]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(set({ constraints: { maxImportKw: 50 } }));
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    await partner.acknowledge(set({ constraints: { maxImportKw: 60 } }));
    link.socket.close(1000, 'bye');
    const again = await connectListening(plant);
    const limits = commandsOf(again).map(
      ({ payload }) => (payload.constraints as { maxImportKw: number }).maxImportKw,
    );
    expect(limits).toEqual([60]);
  });
});

describe('limits that tighten', () => {
  it('end a setpoint that stands and no longer fits, with its alarm; the plant is told what then holds [C-7.9]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(submission('site-setpoint', powerSetpoint(40, { priority: 'NORMAL' })));
    await partner.acknowledge(submission('site-setpoint', powerSetpoint(90)));
    await sendAck(link, plant.gateway, (await nthCommand(link, 2)).cmdId, 'RECEIVED');
    await partner.acknowledge(set({ constraints: { maxImportKw: 50 } }));
    const [, high, normal] = (await readCommands(plant.id)).items;
    expect(high).toMatchObject({ status: 'FAILED', reason: 'CONSTRAINT_VIOLATION' });
    expect(normal).toMatchObject({ status: 'PENDING' });
    expect(partner.alarms()).toMatchObject([
      {
        type: 'CONSTRAINT_VIOLATION',
        commandType: 'SITE_SETPOINT',
        constraint: 'maxImportKw',
        limit: 50,
        value: 90,
      },
    ]);
    await sendAck(link, plant.gateway, 'none', 'RECEIVED');
    const told = commandsOf(link)
      .slice(2)
      .map(({ action, payload }) => [action, payload.targetSignedKw]);
    expect(told).toEqual(
      expect.arrayContaining([
        ['CONFIG_SET', undefined],
        ['SITE_SETPOINT', 40],
      ]),
    );
    expect(told).toHaveLength(2);
  });

  it('end a setpoint whose verdict was told before: it is not sent on [C-7.9]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(submission('site-setpoint', powerSetpoint(90)));
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    await stayConnected(plant, link, 6 * MINUTE);
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'COMPLETED', reason: 'unmeasured' });
    await partner.acknowledge(set({ constraints: { maxImportKw: 50 } }));
    expect(partner.alarms()).toMatchObject([{ type: 'CONSTRAINT_VIOLATION', limit: 50, value: 90 }]);
    await sendAck(link, plant.gateway, 'none', 'RECEIVED');
    const actions = commandsOf(link).map(({ action }) => action);
    expect(actions.slice(1).sort()).toEqual(['CONFIG_SET', 'MODE_CHANGE']);
  });

  it('end a device command that waits and no longer fits, with its alarm [C-7.6]', async () => {
    const { plant, partner } = await newSite({ config: CONFIG });
    await partner.acknowledge(charge(30));
    await partner.acknowledge(set({ constraints: { maxChargeKw: 20 } }));
    const [, waiting] = (await readCommands(plant.id)).items;
    expect(waiting).toMatchObject({
      status: 'FAILED',
      reason: expect.stringMatching(/^CONSTRAINT_VIOLATION/),
    });
    expect(partner.alarms()).toMatchObject([{ constraint: 'maxChargeKw', limit: 20, value: 30 }]);
  });

  it('end each part of a batch that waits and no longer fits, with an alarm for each limit [C-8.3]', async () => {
    const batteries = [...DEFAULT_SUB_DEVICES, { externalId: 'BESS-2', assetType: 'BESS' as const }];
    const { plant, partner } = await newSite({ config: CONFIG, subDevices: batteries });
    const other = { deviceId: 'BESS-2', command: 'BESS_DISCHARGE' as const };
    await partner.acknowledge(submission('device', batch(batteryCommand(30), batteryCommand(25, other))));
    await partner.acknowledge(set({ constraints: { maxChargeKw: 20, maxDischargeKw: 20 } }));
    const [, waiting] = (await readCommands(plant.id)).items;
    expect(waiting?.status).toBe('FAILED');
    expect(waiting?.reason).toBe('CONSTRAINT_VIOLATION: BESS-1, BESS-2');
    const alarms = partner.alarms();
    expect(alarms.map(({ constraint, value }) => [constraint, value]).sort()).toEqual([
      ['maxChargeKw', 30],
      ['maxDischargeKw', 25],
    ]);
    expect(new Set(alarms.map(({ alarmId }) => alarmId)).size).toBe(2);
  });

  it('leave what fits alone, and what was told [C-7.9]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(submission('site-setpoint', powerSetpoint(50)));
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    await partner.acknowledge(set({ constraints: { maxImportKw: 50 } }));
    await sendAck(link, plant.gateway, 'none', 'RECEIVED');
    expect(commandsOf(link).map(({ action }) => action)).toEqual(['SITE_SETPOINT', 'CONFIG_SET']);
    expect(partner.alarms()).toEqual([]);
  });
});

describe('an emergency', () => {
  it('lets a configuration pass, in force and told [C-7.7]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(submission('emergency', { type: 'STOP' }));
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'COMPLETED');
    expect(await partner.acknowledge(set({ fallback: null }))).toMatchObject({ status: 'ACCEPTED' });
    expect(await nthCommand(link, 2)).toMatchObject({ action: 'CONFIG_SET' });
    expect((await readConfig(plant.id)).fallback).toBeNull();
  });

  it('does not end one that waits, nor keep it from a gateway that comes back [C-7.7]', async () => {
    const { plant, partner } = await newSite({ config: CONFIG });
    await partner.acknowledge(set({ fallback: null }));
    await passTime(plant.id, SECOND);
    await partner.acknowledge(submission('emergency', { type: 'STOP' }));
    const link = await connectListening(plant);
    expect(
      commandsOf(link)
        .map(({ action }) => action)
        .sort(),
    ).toEqual(['CONFIG_SET', 'EMERGENCY_STOP']);
  });
});
