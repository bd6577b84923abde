/** A plant as partners list it: the fields of the spec, no others, and its supported commands. */
import { describe, expect, it } from 'vitest';
import { supportedCommands } from '../../protocol/asset.ts';
import {
  ASSET_TYPES,
  DEVICE_COMMAND_TYPES,
  PLANT_STATUSES,
  SUB_DEVICE_STATUSES,
} from '../../protocol/enums.ts';
import { plantSubDevice, plantSummary } from '../../protocol/plant.ts';

const SUB_DEVICE = { deviceId: 'BESS-1', assetType: 'BESS', name: 'Battery', status: 'ONLINE' };
const PLANT = {
  id: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10',
  name: 'Plant',
  status: 'ONLINE',
  externalPlantId: 'site-1',
  eanCons: '859182400100000001',
  eanProd: '859182400100000002',
  subDevices: [SUB_DEVICE],
  supportedCommands: ['SITE_SETPOINT', 'MODE_CHANGE', 'EMERGENCY', ...DEVICE_COMMAND_TYPES],
};

function accepts(changes: Record<string, unknown>): boolean {
  return plantSummary.safeParse({ ...PLANT, ...changes }).success;
}

describe('a plant summary', () => {
  it('is parsed with the fields of the spec, and nothing is changed (spec: Plant summary)', () => {
    expect(plantSummary.parse(PLANT)).toEqual(PLANT);
    expect(accepts({ subDevices: [], supportedCommands: [] })).toBe(true);
  });

  it.each(['externalPlantId', 'eanCons', 'eanProd'])(
    'may have null for %s (spec: Plant summary)',
    (field) => {
      expect(accepts({ [field]: null })).toBe(true);
    },
  );

  it.each(Object.keys(PLANT))('requires %s, and refuses a number for it (spec: Plant summary)', (field) => {
    expect(accepts({ [field]: undefined })).toBe(false);
    expect(accepts({ [field]: 5 })).toBe(false);
  });

  it.each(['secret', 'organizationId', 'eanconst'])(
    'cannot have the field %s (spec: Plant summary)',
    (field) => {
      expect(accepts({ [field]: 'x' })).toBe(false);
    },
  );

  it.each(PLANT_STATUSES)('may have the status %s, only in upper case [C-2.5]', (status) => {
    expect(accepts({ status })).toBe(true);
    expect(accepts({ status: status.toLowerCase() })).toBe(false);
  });

  it.each([
    '85918240010000000',
    '8591824001000000011',
    '85918240010000000x',
    ' 59182400100000001',
    '',
    '８59182400100000001',
  ])('cannot have the EAN %j, because an EAN has 18 digits (spec: Plant summary)', (ean) => {
    expect(accepts({ eanCons: ean })).toBe(false);
    expect(accepts({ eanProd: ean })).toBe(false);
  });

  it.each(['REBOOT', 'SCHEDULE', 'bess_charge', ''])(
    'cannot list the unknown command %j (spec: Plant summary)',
    (command) => {
      expect(accepts({ supportedCommands: [command] })).toBe(false);
    },
  );
});

describe('a sub-device of a plant', () => {
  const acceptsDevice = (changes: Record<string, unknown>) =>
    plantSubDevice.safeParse({ ...SUB_DEVICE, ...changes }).success;

  it.each(Object.keys(SUB_DEVICE))('requires %s, which cannot be null (spec: Plant summary)', (field) => {
    expect(acceptsDevice({})).toBe(true);
    expect(acceptsDevice({ [field]: undefined })).toBe(false);
    expect(acceptsDevice({ [field]: null })).toBe(false);
  });

  it('has a kind and a status of the spec (spec: Enumerations)', () => {
    for (const assetType of ASSET_TYPES) expect(acceptsDevice({ assetType })).toBe(true);
    for (const status of SUB_DEVICE_STATUSES) expect(acceptsDevice({ status })).toBe(true);
    expect(acceptsDevice({ assetType: 'WIND' })).toBe(false);
    expect(acceptsDevice({ status: 'PENDING' })).toBe(false);
  });

  it('shows no other field: neither its UUID nor its linked device (spec: Plant summary)', () => {
    expect(acceptsDevice({ id: 'x' })).toBe(false);
    expect(acceptsDevice({ linkedDeviceId: 'x' })).toBe(false);
  });
});

describe('the supported commands of a plant', () => {
  const always = ['SITE_SETPOINT', 'MODE_CHANGE', 'EMERGENCY'];
  const ofKind = (prefix: string) => DEVICE_COMMAND_TYPES.filter((command) => command.startsWith(prefix));

  it.each(ASSET_TYPES)(
    'are, with a %s, SITE_SETPOINT, MODE_CHANGE, EMERGENCY and the device commands of that asset type (spec: Plant summary)',
    (type) => {
      expect(supportedCommands([type])).toEqual([...always, ...ofKind(`${type}_`)]);
      expect(accepts({ supportedCommands: supportedCommands([type]) })).toBe(true);
    },
  );

  it('are all commands, each once, with BESS and FVE; without assets only the three of every plant (spec: Plant summary)', () => {
    expect(supportedCommands(['BESS', 'FVE', 'FVE', 'BESS'])).toEqual([...always, ...DEVICE_COMMAND_TYPES]);
    expect(supportedCommands([])).toEqual(always);
  });
});
