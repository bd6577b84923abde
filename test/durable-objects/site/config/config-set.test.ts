/**
 * `{slug}.config.set`: a merge patch of a site's configuration. It takes effect when it is accepted, and is
 * sent to the plant [C-7.9].
 */
import { setScene } from '#workerd/scene.ts';
import { MINUTE, passTime, SECOND } from '#workerd/site-clock.ts';
import { commandsOf, connectListening, nthCommand, sendAck, stayConnected } from '#workerd/site-devices.ts';
import { newestCommand, readCommands, readConfig } from '#workerd/site-reads.ts';
import { evictSite } from '#workerd/site-rows.ts';
import {
  batch,
  batteryCommand,
  charge,
  powerSetpoint,
  submission,
  violation,
} from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { DEFAULT_SUB_DEVICES, type PlantOptions } from '#workerd/world.ts';
import { DEFAULT_SITE_CONFIG, UNLIMITED } from '../../../../protocol/site-config.ts';

const FALLBACK = { mode: 'ZERO_EXPORT', afterSeconds: 120, action: 'HOLD', setpointKw: 3 } as const;
const CONFIG = {
  ...DEFAULT_SITE_CONFIG,
  constraints: { ...UNLIMITED, maxImportKw: 100, maxChargeKw: 40 },
  fallback: FALLBACK,
};

const CONFIG_SENT = { constraints: CONFIG.constraints, fallback: FALLBACK, operatingMode: 'STANDARD' };

const set = (payload: object, word = 'set') =>
  submission('config', payload, { routingKey: `acme.config.${word}` });

const listening = (options: PlantOptions = { config: CONFIG }) =>
  setScene({ plant: options, gateway: 'listening' });

describe('a patch of the configuration', () => {
  const stopping = { fallback: { ...FALLBACK, action: 'STOP' } };
  const limitedTo = (maxImportKw: number | null) => ({ constraints: { ...CONFIG.constraints, maxImportKw } });

  it.each<[string, object, object]>([
    ['one limit', { constraints: { maxImportKw: 50 } }, limitedTo(50)],
    ['one limit to none', { constraints: { maxImportKw: null } }, limitedTo(null)],
    ['all limits to none', { constraints: null }, { constraints: null }],
    ['one field of the fallback', { fallback: { action: 'STOP' } }, stopping],
    [
      'fields of the fallback to their defaults',
      { fallback: { afterSeconds: null, setpointKw: null } },
      { fallback: { ...FALLBACK, afterSeconds: 300, setpointKw: null } },
    ],
    ['the fallback to none', { fallback: null }, { fallback: null }],
    ['the mode', { operatingMode: 'LOCAL_OPTIMIZATION' }, { operatingMode: 'LOCAL_OPTIMIZATION' }],
  ])(
    'a patch that sets %s changes nothing else, takes effect when it is accepted, and stays (RFC 7396)',
    async (_what, patch, changed) => {
      const { plant, partner } = await listening();
      expect(await partner.acknowledge(set(patch))).toEqual({ status: 'ACCEPTED', commandType: 'CONFIG' });
      await evictSite(plant.id);
      const { hardLimits: _none, ...config } = CONFIG;
      expect(await readConfig(plant.id)).toMatchObject({ ...config, ...changed });
    },
  );

  it('a patch may set a fallback where none is set, if it is complete [C-2.3]', async () => {
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
    ['no field', {}, 'set', /payload: /],
    ['hard limits', { hardLimits: null }, 'set', /hardLimits/],
    ['an unknown limit', { constraints: { maxKw: 1 } }, 'set', /maxKw/],
    ['a negative limit', { constraints: { maxImportKw: -1 } }, 'set', /^constraints\.maxImportKw: /],
    ['null as the mode', { operatingMode: null }, 'set', /^operatingMode: /],
    ['a fallback after one second', { fallback: { afterSeconds: 1 } }, 'set', /^fallback\.afterSeconds: /],
    ['a fallback without its mode', { fallback: { mode: null } }, 'set', /^fallback\.mode: /],
    [
      'several errors',
      { constraints: { maxImportKw: -1 }, fallback: { afterSeconds: 1 }, hardLimits: null },
      'set',
      /^constraints\.maxImportKw: .*; fallback\.afterSeconds: .*; unknown field "hardLimits"$/,
    ],
    [
      'a fallback without two of its fields',
      { fallback: { mode: null, action: null } },
      'set',
      /^fallback\.mode: .*; fallback\.action: /,
    ],
    ['a routing key that does not end with set', { operatingMode: 'STANDARD' }, 'put', /config\.put/],
  ])(
    'a patch with %s is INVALID_PAYLOAD, and changes nothing [C-7.9]',
    async (_what, patch, word, message) => {
      const { plant, partner, link } = await listening();
      expect(await partner.acknowledge(set(patch, word))).toMatchObject({
        status: 'REJECTED',
        commandType: 'CONFIG',
        rejectionCode: 'INVALID_PAYLOAD',
        message: expect.stringMatching(message),
      });
      expect(await readConfig(plant.id)).toMatchObject({
        constraints: CONFIG.constraints,
        fallback: FALLBACK,
      });
      expect(commandsOf(link)).toEqual([]);
    },
  );
});

describe('hard limits', () => {
  const hardLimits = { ...UNLIMITED, maxImportKw: 80, minSocPercent: 10, maxSocPercent: 90 };
  const config = { ...DEFAULT_SITE_CONFIG, hardLimits };

  it.each([
    ['maxImportKw', 81, 80, 'kW'],
    ['minSocPercent', 9, 10, '%'],
    ['maxSocPercent', 91, 90, '%'],
  ])(
    'a patch cannot set a constraint looser than the hard limit %s: CONSTRAINT_VIOLATION, with an alarm [C-2.3]',
    async (name, value, limit, unit) => {
      const { plant, partner } = await listening({ config });
      const patch = { constraints: { [name]: value }, operatingMode: 'ZERO_EXPORT' };
      expect(await partner.acknowledge(set(patch))).toMatchObject({
        status: 'REJECTED',
        rejectionCode: 'CONSTRAINT_VIOLATION',
        message: `${value} ${unit} is looser than hardLimits.${name} ${limit} ${unit}`,
      });
      const alarm = { ...violation(`hardLimits.${name}`, limit, value), commandType: 'CONFIG', unit };
      expect(partner.alarms()).toMatchObject([alarm]);
      expect(await readConfig(plant.id)).toMatchObject({ constraints: null, operatingMode: 'STANDARD' });
      expect((await newestCommand(plant.id)).decision).toMatchObject({
        stage: 'constraint',
        facts: { limit, value },
      });
    },
  );

  it('a patch looser than several hard limits is rejected with all of them, and the alarm names the first [C-2.3]', async () => {
    const { partner } = await listening({ config });
    const patch = { constraints: { maxImportKw: 81, minSocPercent: 9, maxChargeKw: 500 } };
    expect(await partner.acknowledge(set(patch))).toMatchObject({
      rejectionCode: 'CONSTRAINT_VIOLATION',
      message:
        '81 kW is looser than hardLimits.maxImportKw 80 kW; 9 % is looser than hardLimits.minSocPercent 10 %',
    });
    expect(partner.alarms()).toMatchObject([{ constraint: 'hardLimits.maxImportKw' }]);
  });

  it('CONFIG_SET contains the hard limit where no stricter constraint is set [C-2.3]', async () => {
    const { partner, link } = await listening({ config });
    await partner.submit(set({ constraints: { maxImportKw: 80, minSocPercent: 20, maxSocPercent: null } }));
    expect((await nthCommand(link, 1)).payload).toEqual({
      constraints: { ...UNLIMITED, maxImportKw: 80, minSocPercent: 20, maxSocPercent: 90 },
      fallback: null,
      operatingMode: 'STANDARD',
    });
  });
});

describe('CONFIG_SET', () => {
  it('contains the whole configuration, and the ack of the gateway ends the command [C-7.8]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(set({ constraints: { maxImportKw: 50 } }));
    const command = await nthCommand(link, 1);
    expect(command).toMatchObject({
      action: 'CONFIG_SET',
      payload: { ...CONFIG_SENT, constraints: { ...CONFIG.constraints, maxImportKw: 50 } },
    });
    await sendAck(link, plant.gateway, command.cmdId, 'RECEIVED');
    expect(await newestCommand(plant.id)).toMatchObject({ commandType: 'CONFIG', status: 'EXECUTING' });
    await sendAck(link, plant.gateway, command.cmdId, 'COMPLETED');
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'COMPLETED', target: 'SITE' });
  });

  it('an unanswered CONFIG_SET is sent three times, then FAILED NO_ACK, and the configuration stays in force [C-7.8]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(set({ fallback: null }));
    await stayConnected(plant, link, 3 * MINUTE);
    expect(commandsOf(link).map(({ action }) => action)).toEqual(Array(3).fill('CONFIG_SET'));
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'FAILED', reason: 'NO_ACK' });
    expect((await readConfig(plant.id)).fallback).toBeNull();
  });

  it('waits for an offline gateway, which then receives the configuration in force [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: { config: CONFIG } });
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

  it('a newer CONFIG_SET replaces one that the gateway has not ended: the old one is not sent again [C-7.9]', async () => {
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

describe('a patch that tightens limits', () => {
  it('an active setpoint over the new limit fails with an alarm, and the plant receives the new target [C-7.9]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(submission('site-setpoint', powerSetpoint(40, { priority: 'NORMAL' })));
    await partner.acknowledge(submission('site-setpoint', powerSetpoint(90)));
    await sendAck(link, plant.gateway, (await nthCommand(link, 2)).cmdId, 'RECEIVED');
    await partner.acknowledge(set({ constraints: { maxImportKw: 50 } }));
    const [, high, normal] = (await readCommands(plant.id)).items;
    expect(high).toMatchObject({ status: 'FAILED', reason: 'CONSTRAINT_VIOLATION' });
    expect(normal).toMatchObject({ status: 'PENDING' });
    const alarm = { ...violation('maxImportKw', 50, 90), commandType: 'SITE_SETPOINT' };
    expect(partner.alarms()).toMatchObject([alarm]);
    await sendAck(link, plant.gateway, 'none', 'RECEIVED');
    const commands = commandsOf(link)
      .slice(2)
      .map(({ action, payload }) => `${action} ${payload.targetSignedKw}`);
    expect(commands.sort()).toEqual(['CONFIG_SET undefined', 'SITE_SETPOINT 40']);
  });

  it('an active setpoint over the new limit leaves the plan with an alarm, even if it has its verdict already [C-7.9]', async () => {
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

  it('a waiting device command over the new limit fails with an alarm [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: { config: CONFIG } });
    await partner.acknowledge(charge(30));
    await partner.acknowledge(set({ constraints: { maxChargeKw: 20 } }));
    const [, waiting] = (await readCommands(plant.id)).items;
    expect(`${waiting?.status} ${waiting?.reason}`).toMatch(/^FAILED CONSTRAINT_VIOLATION/);
    expect(partner.alarms()).toMatchObject([{ constraint: 'maxChargeKw', limit: 20, value: 30 }]);
  });

  it('each waiting part of a batch over the new limits fails, with one alarm per limit [C-8.3]', async () => {
    const batteries = [...DEFAULT_SUB_DEVICES, { externalId: 'BESS-2', assetType: 'BESS' as const }];
    const { plant, partner } = await setScene({ plant: { config: CONFIG, subDevices: batteries } });
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

  it('a setpoint within the new limit stays active, and is not sent again [C-7.9]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(submission('site-setpoint', powerSetpoint(50)));
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    await partner.acknowledge(set({ constraints: { maxImportKw: 50 } }));
    await sendAck(link, plant.gateway, 'none', 'RECEIVED');
    expect(commandsOf(link).map(({ action }) => action)).toEqual(['SITE_SETPOINT', 'CONFIG_SET']);
    expect(partner.alarms()).toEqual([]);
  });
});

describe('a configuration during an emergency', () => {
  it('takes effect and is sent [C-7.7]', async () => {
    const { plant, partner, link } = await listening();
    await partner.acknowledge(submission('emergency', { type: 'STOP' }));
    await sendAck(link, plant.gateway, (await nthCommand(link, 1)).cmdId, 'COMPLETED');
    expect(await partner.acknowledge(set({ fallback: null }))).toMatchObject({ status: 'ACCEPTED' });
    expect(await nthCommand(link, 2)).toMatchObject({ action: 'CONFIG_SET' });
    expect((await readConfig(plant.id)).fallback).toBeNull();
  });

  it('an emergency does not end a waiting configuration: the returning gateway receives both [C-7.7]', async () => {
    const { plant, partner } = await setScene({ plant: { config: CONFIG } });
    await partner.acknowledge(set({ fallback: null }));
    await passTime(plant.id, SECOND);
    await partner.acknowledge(submission('emergency', { type: 'STOP' }));
    const link = await connectListening(plant);
    const actions = commandsOf(link).map(({ action }) => action);
    expect(actions.sort()).toEqual(['CONFIG_SET', 'EMERGENCY_STOP']);
  });
});
