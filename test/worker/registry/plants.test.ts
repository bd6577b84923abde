/** Constraints of plants, devices and sub-devices: the bad row is refused, the good one taken. */
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, it } from 'vitest';
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
import {
  CHECK,
  FOREIGN,
  NOT_NULL,
  RegistryRows,
  type Table,
  UNIQUE,
} from '../../support/workerd/registry-rows.ts';

const EAN = '859182400123456789';

let rows: RegistryRows;

beforeEach(async () => {
  rows = await RegistryRows.create();
});

describe('closed lists', () => {
  it.each<[Table, string, readonly string[]]>([
    ['plants', 'status', PLANT_STATUSES],
    ['devices', 'type', DEVICE_TYPES],
    ['devices', 'auth_method', AUTH_METHODS],
    ['devices', 'status', DEVICE_STATUSES],
    ['devices', 'connection_status', DEVICE_CONNECTION_STATUSES],
    ['sub_devices', 'asset_type', ASSET_TYPES],
    ['sub_devices', 'status', SUB_DEVICE_STATUSES],
    ['sub_devices', 'meter_role', METER_ROLES],
  ])('%s.%s takes each word of its list and no other (spec: Enumerations)', async (table, column, words) => {
    await rows.expectTaken(table, ...words.map((word) => ({ [column]: word })));
    const [first = ''] = words;
    const bad = ['', first.toLowerCase(), ` ${first}`, `${first}X`, 'OTHER', 0];
    await rows.expectRefused(table, CHECK, ...bad.map((word) => ({ [column]: word })));
  });

  it('have null for a meter role that is not known, and for nothing else [C-2.2]', async () => {
    await rows.expectTaken('sub_devices', { meter_role: null });
    await rows.expectRefused('sub_devices', NOT_NULL, { asset_type: null }, { status: null });
    await rows.expectRefused('devices', NOT_NULL, { type: null }, { auth_method: null }, { status: null });
    await rows.expectRefused('devices', NOT_NULL, { connection_status: null });
    await rows.expectRefused('plants', NOT_NULL, { status: null });
  });

  it('begin as the states say: PENDING, UNKNOWN, MTLS (spec: Device lifecycle)', async () => {
    const { id: device = '' } = await rows.insert('devices');
    const { id: subDevice = '' } = await rows.insert('sub_devices');
    const first = async (columns: string, table: Table, id: string | number | null) =>
      await env.DB.prepare(`SELECT ${columns} FROM ${table} WHERE id = ?`).bind(id).first();
    expect(await first('status, timezone', 'plants', rows.plantId)).toEqual({
      status: 'PENDING',
      timezone: 'UTC',
    });
    expect(await first('status, connection_status, auth_method', 'devices', device)).toEqual({
      status: 'PENDING',
      connection_status: 'UNKNOWN',
      auth_method: 'MTLS',
    });
    expect(await first('status', 'sub_devices', subDevice)).toEqual({ status: 'UNKNOWN' });
  });
});

describe('plants', () => {
  it.each(['ean_cons', 'ean_prod'])('have an %s of 18 digits, or none [C-2.1]', async (column) => {
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
  });

  it.each(['ean_cons', 'ean_prod'])(
    'of an organization share no %s; those of two organizations may [C-2.1]',
    async (column) => {
      await rows.insert('plants', { [column]: EAN });
      await rows.expectRefused('plants', UNIQUE, { [column]: EAN });
      const other = await RegistryRows.create();
      await other.expectTaken('plants', { [column]: EAN });
    },
  );

  it('may have one EAN for consumption and production [C-2.1]', async () => {
    await rows.expectTaken('plants', { ean_cons: EAN, ean_prod: EAN });
  });

  it('share no EAN either where it is one’s consumption and the other’s production [C-2.1]', async () => {
    await rows.insert('plants', { ean_cons: EAN });
    await rows.expectRefused('plants', UNIQUE, { ean_prod: EAN });
  });

  it('of an organization share no externalPlantId; those without one are not alike [C-2.1]', async () => {
    await rows.insert('plants', { external_plant_id: 'ext-1' });
    await rows.expectRefused('plants', UNIQUE, { external_plant_id: 'ext-1' });
    await rows.expectTaken('plants', { external_plant_id: null }, { external_plant_id: null });
    await rows.expectTaken('plants', { external_plant_id: 'EXT-1' });
    const other = await RegistryRows.create();
    await other.expectTaken('plants', { external_plant_id: 'ext-1' });
  });

  it('belong to an organization that exists, under an id and a name of their own [C-2.1]', async () => {
    await rows.expectRefused('plants', FOREIGN, { organization_id: crypto.randomUUID() });
    await rows.expectRefused('plants', UNIQUE, { id: rows.plantId });
    await rows.expectRefused('plants', NOT_NULL, { id: null }, { name: null }, { organization_id: null });
  });
});

describe('devices', () => {
  it('of an organization share no serial number [C-3.1]', async () => {
    await rows.insert('devices', { serial_number: 'SN-1' });
    await rows.expectRefused('devices', UNIQUE, { serial_number: 'SN-1' });
    await rows.expectTaken('devices', { serial_number: 'SN-2' });
    const other = await RegistryRows.create();
    await other.expectTaken('devices', { serial_number: 'SN-1' });
  });

  it('belong to an organization that exists, and to a plant that exists or to none [C-2.4]', async () => {
    const absent = crypto.randomUUID();
    await rows.expectTaken('devices', { plant_id: null }, { plant_id: rows.plantId });
    await rows.expectRefused('devices', FOREIGN, { organization_id: absent }, { plant_id: absent });
  });
});

describe('sub-devices', () => {
  it('of a plant share no external id; those of two plants may [C-2.2]', async () => {
    await rows.insert('sub_devices', { external_id: 'BESS-1' });
    await rows.expectRefused('sub_devices', UNIQUE, { external_id: 'BESS-1', asset_type: 'FVE' });
    const { id: plant = '' } = await rows.insert('plants');
    await rows.expectTaken('sub_devices', { external_id: 'BESS-1', plant_id: plant });
  });

  it('are linked to a device by at most one, and only to one that exists [C-2.2]', async () => {
    const { id: device = '' } = await rows.insert('devices');
    await rows.insert('sub_devices', { linked_device_id: device });
    await rows.expectRefused('sub_devices', UNIQUE, { linked_device_id: device });
    await rows.expectRefused('sub_devices', FOREIGN, { linked_device_id: crypto.randomUUID() });
    await rows.expectTaken('sub_devices', { linked_device_id: null }, { linked_device_id: null });
  });

  it('belong to a plant that exists [C-2.2]', async () => {
    await rows.expectRefused('sub_devices', FOREIGN, { plant_id: crypto.randomUUID() });
    await rows.expectRefused(
      'sub_devices',
      NOT_NULL,
      { plant_id: null },
      { name: null },
      { external_id: null },
    );
  });

  it('keep a plant and a device that they name from being deleted under them [C-2.2]', async () => {
    const { id: device = '' } = await rows.insert('devices');
    await rows.insert('sub_devices', { linked_device_id: device });
    const remove = (table: Table, id: string | number | null) =>
      env.DB.prepare(`DELETE FROM ${table} WHERE id = ?`).bind(id).run();
    await expect(remove('devices', device)).rejects.toThrow(FOREIGN);
    await expect(remove('plants', rows.plantId)).rejects.toThrow(FOREIGN);
  });
});
