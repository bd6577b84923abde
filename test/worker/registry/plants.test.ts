/** Constraints of plants, devices and sub-devices: the table refuses bad rows and accepts good ones. */
import { runSql, valuesFrom } from '#workerd/d1.ts';
import { CHECK, FOREIGN, NOT_NULL, RegistryRows, type Table, UNIQUE } from '#workerd/registry-rows.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import {
  ASSET_TYPES,
  AUTH_METHODS,
  DEVICE_CONNECTION_STATUSES,
  DEVICE_STATUSES,
  DEVICE_TYPES,
  METER_ROLES,
  PLANT_STATUSES,
  SUB_DEVICE_STATUSES,
} from '../../../protocol/enums.ts';

const EAN = '859182400123456789';

describe('closed lists', () => {
  it.for<[Table, string, readonly string[]]>([
    ['plants', 'status', PLANT_STATUSES],
    ['devices', 'type', DEVICE_TYPES],
    ['devices', 'auth_method', AUTH_METHODS],
    ['devices', 'status', DEVICE_STATUSES],
    ['devices', 'connection_status', DEVICE_CONNECTION_STATUSES],
    ['sub_devices', 'asset_type', ASSET_TYPES],
    ['sub_devices', 'status', SUB_DEVICE_STATUSES],
    ['sub_devices', 'meter_role', METER_ROLES],
  ])(
    'the column %s.%s accepts each value of its list and no other (spec: Enumerations)',
    async ([table, column, words], { rows }) => {
      await rows.expectTaken(table, ...words.map((word) => ({ [column]: word })));
      const [first = ''] = words;
      const bad = ['', first.toLowerCase(), ` ${first}`, `${first}X`, 'OTHER', 0];
      await rows.expectRefused(table, CHECK, ...bad.map((word) => ({ [column]: word })));
    },
  );

  it('may be null only for meter_role, of those of plants, devices and sub-devices [C-2.2]', async ({
    rows,
  }) => {
    await rows.expectTaken('sub_devices', { meter_role: null });
    await rows.expectRefused('sub_devices', NOT_NULL, { asset_type: null }, { status: null });
    await rows.expectRefused('devices', NOT_NULL, { type: null }, { auth_method: null }, { status: null });
    await rows.expectRefused('devices', NOT_NULL, { connection_status: null });
    await rows.expectRefused('plants', NOT_NULL, { status: null });
  });

  it('a new plant or device is PENDING, a sub-device or connection UNKNOWN, auth_method MTLS (spec: Device lifecycle)', async ({
    rows,
  }) => {
    const { id: device = '' } = await rows.insert('devices');
    const { id: subDevice = '' } = await rows.insert('sub_devices');
    const ofDevice = 'SELECT status, connection_status, auth_method FROM devices WHERE id = ?';
    expect(await valuesFrom(ofDevice, device)).toEqual(['PENDING', 'UNKNOWN', 'MTLS']);
    const ofPlant = 'SELECT status, timezone FROM plants WHERE id = ?';
    expect(await valuesFrom(ofPlant, rows.plantId)).toEqual(['PENDING', 'UTC']);
    expect(await valuesFrom('SELECT status FROM sub_devices WHERE id = ?', subDevice)).toEqual(['UNKNOWN']);
  });
});

describe('plants', () => {
  it.for(['ean_cons', 'ean_prod'])(
    'a plant’s %s has 18 digits or is null [C-2.1]',
    async (column, { rows }) => {
      await rows.expectTaken('plants', { [column]: EAN }, { [column]: null }, { [column]: '0'.repeat(18) });
      const bad = [
        EAN.slice(1),
        `${EAN}0`,
        '',
        `${EAN.slice(1)}a`,
        ` ${EAN.slice(1)}`,
        `+${EAN.slice(1)}`,
        '１'.repeat(18),
        '*'.repeat(18),
        `${EAN}\n`,
      ];
      await rows.expectRefused('plants', CHECK, ...bad.map((ean) => ({ [column]: ean })));
    },
  );

  it.for(['ean_cons', 'ean_prod'])(
    'two plants of one organization cannot share an %s; those of two organizations can [C-2.1]',
    async (column, { rows }) => {
      await rows.insert('plants', { [column]: EAN });
      await rows.expectRefused('plants', UNIQUE, { [column]: EAN });
      const other = await RegistryRows.create();
      await other.expectTaken('plants', { [column]: EAN });
    },
  );

  it('a plant may use the same EAN for consumption and production [C-2.1]', async ({ rows }) => {
    await rows.expectTaken('plants', { ean_cons: EAN, ean_prod: EAN });
  });

  it('one plant’s consumption EAN cannot be another’s production EAN [C-2.1]', async ({ rows }) => {
    await rows.insert('plants', { ean_cons: EAN });
    await rows.expectRefused('plants', UNIQUE, { ean_prod: EAN });
  });

  it('two plants of an organization cannot share an externalPlantId [C-2.1]', async ({ rows }) => {
    await rows.insert('plants', { external_plant_id: 'ext-1' });
    await rows.expectRefused('plants', UNIQUE, { external_plant_id: 'ext-1' });
    await rows.expectTaken('plants', { external_plant_id: null }, { external_plant_id: null });
    await rows.expectTaken('plants', { external_plant_id: 'EXT-1' });
    const other = await RegistryRows.create();
    await other.expectTaken('plants', { external_plant_id: 'ext-1' });
  });

  it('a plant must have an existing organization, a unique id and a name [C-2.1]', async ({ rows }) => {
    await rows.expectRefused('plants', FOREIGN, { organization_id: crypto.randomUUID() });
    await rows.expectRefused('plants', UNIQUE, { id: rows.plantId });
    await rows.expectRefused('plants', NOT_NULL, { id: null }, { name: null }, { organization_id: null });
  });
});

describe('devices', () => {
  it('two devices of one organization cannot share a serial number [C-3.1]', async ({ rows }) => {
    await rows.insert('devices', { serial_number: 'SN-1' });
    await rows.expectRefused('devices', UNIQUE, { serial_number: 'SN-1' });
    await rows.expectTaken('devices', { serial_number: 'SN-2' });
    const other = await RegistryRows.create();
    await other.expectTaken('devices', { serial_number: 'SN-1' });
  });

  it('a device must have an existing organization, and an existing plant or none [C-2.4]', async ({
    rows,
  }) => {
    const absent = crypto.randomUUID();
    await rows.expectTaken('devices', { plant_id: null }, { plant_id: rows.plantId });
    await rows.expectRefused('devices', FOREIGN, { organization_id: absent }, { plant_id: absent });
  });
});

describe('sub-devices', () => {
  it('two sub-devices of a plant cannot share an external id [C-2.2]', async ({ rows }) => {
    await rows.insert('sub_devices', { external_id: 'BESS-1' });
    await rows.expectRefused('sub_devices', UNIQUE, { external_id: 'BESS-1', asset_type: 'FVE' });
    const { id: plant = '' } = await rows.insert('plants');
    await rows.expectTaken('sub_devices', { external_id: 'BESS-1', plant_id: plant });
  });

  it('only one sub-device can link to a device, and that device must exist [C-2.2]', async ({ rows }) => {
    const { id: device = '' } = await rows.insert('devices');
    await rows.insert('sub_devices', { linked_device_id: device });
    await rows.expectRefused('sub_devices', UNIQUE, { linked_device_id: device });
    await rows.expectRefused('sub_devices', FOREIGN, { linked_device_id: crypto.randomUUID() });
    await rows.expectTaken('sub_devices', { linked_device_id: null }, { linked_device_id: null });
  });

  it('a sub-device must have an existing plant, a name and an external id [C-2.2]', async ({ rows }) => {
    await rows.expectRefused('sub_devices', FOREIGN, { plant_id: crypto.randomUUID() });
    await rows.expectRefused(
      'sub_devices',
      NOT_NULL,
      { plant_id: null },
      { name: null },
      { external_id: null },
    );
  });

  it('a plant or device that a sub-device names cannot be deleted [C-2.2]', async ({ rows }) => {
    const { id: device = '' } = await rows.insert('devices');
    await rows.insert('sub_devices', { linked_device_id: device });
    const remove = (table: Table, id: string | number | null) =>
      runSql(`DELETE FROM ${table} WHERE id = ?`, id);
    await expect(remove('devices', device)).rejects.toThrow(FOREIGN);
    await expect(remove('plants', rows.plantId)).rejects.toThrow(FOREIGN);
  });
});
