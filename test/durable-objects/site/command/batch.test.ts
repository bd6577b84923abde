/**
 * A batch of device commands: each item, then the sum per direction, and the results in its acknowledgement.
 */
import { setScene } from '#workerd/scene.ts';
import { connectListening, nthCommand } from '#workerd/site-devices.ts';
import { listen } from '#workerd/site-listener.ts';
import { newestCommand } from '#workerd/site-reads.ts';
import {
  batch,
  batteryCommand,
  powerSetpoint,
  Submitter,
  submission,
  violation,
} from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import {
  createKey,
  createLinked,
  createOrganization,
  createPlant,
  DEFAULT_SUB_DEVICES,
  type SubDeviceOptions,
} from '#workerd/world.ts';
import type { DeviceCommandItem } from '../../../../protocol/command.ts';

const SUB_DEVICES: SubDeviceOptions[] = [
  ...DEFAULT_SUB_DEVICES,
  { externalId: 'BESS-2', assetType: 'BESS', ratedPowerKw: 30 },
  { externalId: 'BESS-3', assetType: 'BESS' },
];

function item(n: number, powerKw?: number, changes: Partial<DeviceCommandItem> = {}): DeviceCommandItem {
  return batteryCommand(powerKw, { deviceId: `BESS-${n}`, ...changes });
}

const DISCHARGE: Partial<DeviceCommandItem> = { command: 'BESS_DISCHARGE' };

/** Submits a batch. Returns the code of each item, or `ok` for an accepted item. */
async function codesOf(partner: Submitter, ...items: DeviceCommandItem[]) {
  const ack = await partner.acknowledge(submission('device', batch(...items)));
  const codes = ack.results?.map((result) => result.rejectionCode ?? 'ok');
  return { status: ack.status, rejectionCode: ack.rejectionCode, codes };
}

const ALL_OVER = ['CONSTRAINT_VIOLATION', 'CONSTRAINT_VIOLATION'];

describe('the sum of a batch', () => {
  it('a sum over the limit of one direction rejects every item of that direction, and no other item [C-7.4]', async () => {
    const { partner } = await setScene({ plant: { subDevices: SUB_DEVICES } });
    const answer = await codesOf(partner, item(1, 30), item(2, 21), item(3, 20, DISCHARGE));
    expect(answer).toEqual({ status: 'PARTIAL', rejectionCode: undefined, codes: [...ALL_OVER, 'ok'] });
    expect(partner.alarms()).toMatchObject([{ constraint: 'maxChargeKw', limit: 50, value: 51, unit: 'kW' }]);
  });

  it('a sum at the limit is accepted, and charge is not offset against discharge [C-7.4]', async () => {
    const { partner } = await setScene({ plant: { subDevices: SUB_DEVICES } });
    const answer = await codesOf(partner, item(1, 30), item(2, 20), item(3, 50, DISCHARGE));
    expect(answer.codes).toEqual(['ok', 'ok', 'ok']);
    expect(partner.alarms()).toEqual([]);
  });

  it('uses the rated power of the battery where powerKw is absent [C-7.4]', async () => {
    const { partner } = await setScene({ plant: { subDevices: SUB_DEVICES } });
    expect(await codesOf(partner, item(1), item(2))).toEqual({
      status: 'REJECTED',
      rejectionCode: 'CONSTRAINT_VIOLATION',
      codes: ALL_OVER,
    });
  });

  it('leaves out items that were rejected on their own [C-7.4]', async () => {
    const { partner } = await setScene({ plant: { subDevices: SUB_DEVICES } });
    const answer = await codesOf(partner, item(1, 30), item(2, 60), item(9, 40), item(3, 20));
    expect(answer.codes).toEqual(['ok', 'CONSTRAINT_VIOLATION', 'DEVICE_OFFLINE', 'ok']);
  });
});

describe('the results of a batch', () => {
  it('batch results name each item by its index with its own code, and the accepted items are dispatched [C-7.5]', async () => {
    const { plant, partner } = await setScene({ plant: { subDevices: SUB_DEVICES } });
    const link = await connectListening(plant);
    const wrong = item(2, 5, { assetType: 'FVE' });
    const ack = await partner.acknowledge(submission('device', batch(item(1, 5), wrong, item(9, 5))));
    expect(ack.status).toBe('PARTIAL');
    expect(ack.rejectionCode).toBeUndefined();
    expect(ack.results).toMatchObject([
      { index: 0, deviceId: 'BESS-1', command: 'BESS_CHARGE', status: 'ACCEPTED' },
      { index: 1, deviceId: 'BESS-2', status: 'REJECTED', rejectionCode: 'INVALID_COMMAND' },
      { index: 2, deviceId: 'BESS-9', status: 'REJECTED', rejectionCode: 'DEVICE_OFFLINE' },
    ]);
    const { payload } = await nthCommand(link, 1);
    expect(payload.targets).toEqual([
      { deviceId: 'BESS-1', assetType: 'BESS', params: { powerKw: 5, respectLimits: true } },
    ]);
    expect((await newestCommand(plant.id)).results).toEqual(ack.results);
  });

  it('a batch with one item has results too, whether it is ACCEPTED, QUEUED or REJECTED [C-7.5]', async () => {
    const { plant, partner } = await setScene({ plant: { subDevices: SUB_DEVICES } });
    const submit = (one: DeviceCommandItem) => partner.acknowledge(submission('device', batch(one)));
    expect(await submit(item(1, 5))).toMatchObject({ status: 'QUEUED', results: [{ status: 'QUEUED' }] });
    const offline = { status: 'REJECTED', rejectionCode: 'DEVICE_OFFLINE' };
    expect(await submit(item(9, 5))).toMatchObject({ ...offline, results: [{ index: 0, ...offline }] });
    await connectListening(plant);
    expect(await submit(item(1, 5))).toMatchObject({ status: 'ACCEPTED', results: [{ status: 'ACCEPTED' }] });
  });

  it('a batch whose items are all rejected is REJECTED with the code of its first item [C-7.5]', async () => {
    const { partner } = await setScene({ plant: { subDevices: SUB_DEVICES } });
    const answer = await codesOf(partner, item(1, 5, { assetType: 'FVE' }), item(9, 5), item(2, 51));
    expect(answer).toEqual({
      status: 'REJECTED',
      rejectionCode: 'INVALID_COMMAND',
      codes: ['INVALID_COMMAND', 'DEVICE_OFFLINE', 'CONSTRAINT_VIOLATION'],
    });
  });

  it('the result of an item lists all its errors, with the code of the first failed check [C-7.5]', async () => {
    const { plant, partner } = await setScene({ plant: { subDevices: SUB_DEVICES } });
    const ack = await partner.acknowledge(
      submission('device', batch(item(1, 5), item(1, 51, { assetType: 'FVE' }), item(9, 51))),
    );
    expect(ack.results?.map(({ rejectionCode, message }) => [rejectionCode, message])).toEqual([
      [undefined, undefined],
      [
        'CONSTRAINT_VIOLATION',
        'BESS-1: 51 kW exceeds maxChargeKw 50 kW; BESS-1 is a BESS, not a FVE; BESS-1 is named twice',
      ],
      ['DEVICE_OFFLINE', "BESS-9 is not in the site's topology; BESS-9: 51 kW exceeds maxChargeKw 50 kW"],
    ]);
    expect((await newestCommand(plant.id)).results).toEqual(ack.results);
    expect(partner.alarms()).toMatchObject([{ deviceId: 'BESS-1', constraint: 'maxChargeKw', value: 51 }]);
  });

  it('a later item with the same deviceId is INVALID_COMMAND, and the first is accepted [C-7.4]', async () => {
    const { partner } = await setScene({ plant: { subDevices: SUB_DEVICES } });
    const answer = await codesOf(partner, item(1, 5), item(1, 6, DISCHARGE), item(1, 5), item(2, 5));
    expect(answer).toMatchObject({
      status: 'PARTIAL',
      codes: ['ok', 'INVALID_COMMAND', 'INVALID_COMMAND', 'ok'],
    });
  });

  it('batch results show which items wait for an offline device, and the batch is QUEUED [C-7.5]', async () => {
    const { organization, plant, partner } = await setScene({ plant: { subDevices: SUB_DEVICES } });
    await createLinked(organization, plant.id, { externalId: 'FVE-2', assetType: 'FVE' });
    await connectListening(plant);
    const stop: DeviceCommandItem = { deviceId: 'FVE-2', assetType: 'FVE', command: 'FVE_STOP' };
    const ack = await partner.acknowledge(submission('device', batch(item(1, 5), stop)));
    expect(ack.status).toBe('QUEUED');
    expect(ack.results?.map((result) => result.status)).toEqual(['ACCEPTED', 'QUEUED']);
  });

  it('a batch of 32 items becomes one MQTT command per serving device and command type [C-7.8]', async () => {
    const subDevices: SubDeviceOptions[] = Array.from({ length: 32 }, (_none, n) => ({
      externalId: `BESS-${n}`,
      assetType: 'BESS',
    }));
    const plant = await createPlant(await createOrganization(), { subDevices });
    const link = await connectListening(plant);
    const items = subDevices.map((_subDevice, n) => item(n, 1, n % 2 === 0 ? {} : DISCHARGE));
    const ack = await new Submitter(plant.id).acknowledge(submission('device', batch(...items)));
    expect(ack).toMatchObject({ status: 'ACCEPTED' });
    const commands = [await nthCommand(link, 1), await nthCommand(link, 2)];
    expect(commands.map((command) => command.action).sort()).toEqual(['BESS_CHARGE', 'BESS_DISCHARGE']);
    for (const { payload } of commands) expect(payload.targets).toHaveLength(16);
  });
});

describe('the alarm of a violated limit', () => {
  it('the alarm goes once to every key that may connect and see the plant, and to no other, even after a re-send [C-8.1]', async () => {
    const { organization, plant } = await setScene({ plant: true });
    const foreign = await createPlant(organization);
    const [submitter, watcher, blind] = [
      await createKey(organization),
      await createKey(organization, { allowedPlantIds: [plant.id] }),
      await createKey(organization, { allowedPlantIds: [foreign.id] }),
    ];
    const watching = await listen(organization, watcher);
    const blinded = await listen(organization, blind);
    const partner = new Submitter(plant.id, submitter.id);
    const one = submission('site-setpoint', powerSetpoint(101), { correlationId: 'corr-7' });
    await partner.submit(one);
    expect(partner.alarms()).toMatchObject([
      { ...violation('maxImportKw', 100, 101), status: 'RAISED', commandType: 'SITE_SETPOINT', unit: 'kW' },
    ]);
    const alarm = await watching.event('alarm', 'RAISED');
    expect(alarm).toMatchObject({ siteId: plant.id });
    expect(alarm.correlationId).not.toBe('corr-7');
    expect(partner.events.find((event) => event.kind === 'alarm')?.correlationId).toBe('corr-7');
    expect(alarm.messageId).toBe(partner.events.find((event) => event.kind === 'alarm')?.messageId);
    await partner.submit(one);
    expect(partner.alarms()).toHaveLength(1);
    expect(watching.events('alarm')).toHaveLength(1);
    expect(blinded.events('alarm')).toEqual([]);
  });
});
