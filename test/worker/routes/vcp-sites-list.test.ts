/** GET /vcp/sites: the plants that a key may see (spec: Plant summary; [C-4.2]). */
import { env } from 'cloudflare:workers';
import type { KeyClient } from '#workerd/client.ts';
import { describe, expect, expectError, expectInvalid, test } from '#workerd/worker-test.ts';
import {
  addPlant,
  addSubDevice,
  createOrganization,
  createPlant,
  DEFAULT_SUB_DEVICES,
  type Organization,
  randomEan,
  type SubDeviceOptions,
} from '#workerd/world.ts';
import { ASSET_TYPES } from '../../../protocol/enums.ts';
import { writeRegistry } from '../../../registry/writes.ts';

interface PlantSummary {
  id: string;
  name: string;
  subDevices: { deviceId: string }[];
  supportedCommands: string[];
}

const BESS_COMMANDS = [
  'BESS_CHARGE',
  'BESS_DISCHARGE',
  'BESS_STOP',
  'BESS_CHARGE_ONLY',
  'BESS_DISCHARGE_ONLY',
  'BESS_CONTINUOUS_CHARGE',
];
const FVE_COMMANDS = ['FVE_PRODUCE_MAX', 'FVE_REDUCE_PERCENT', 'FVE_REDUCE_POWER', 'FVE_STOP'];

async function listPlants(key: KeyClient, query = ''): Promise<PlantSummary[]> {
  const body = await key.read<{ plants: PlantSummary[] }>(`/vcp/sites${query}`);
  expect(Object.keys(body)).toEqual(['plants']);
  return body.plants;
}

async function plantIds(key: KeyClient, query = ''): Promise<string[]> {
  return (await listPlants(key, query)).map((plant) => plant.id).sort();
}

/** Adds plants with one battery each, without REST. */
async function addPlants(organization: Organization, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => crypto.randomUUID());
  const plant = env.DB.prepare(
    'INSERT INTO plants (id, organization_id, name, created_at_ms) VALUES (?, ?, ?, 1)',
  );
  const subDevice = env.DB.prepare(
    `INSERT INTO sub_devices (id, plant_id, external_id, asset_type, name, created_at_ms) VALUES (?, ?, ?, 'BESS', 'Battery', 1)`,
  );
  await env.DB.batch([
    ...ids.map((id, index) => plant.bind(id, organization.id, `Plant ${index}`)),
    ...ids.map((id, index) => subDevice.bind(crypto.randomUUID(), id, `BESS-${index}`)),
  ]);
  return ids.sort();
}

/** An organization whose plants must not be visible. */
const it = test.extend('foreign', () => createOrganization());

describe('GET /vcp/sites', () => {
  it('a plant has the fields of the spec (spec: Plant summary)', async ({ organization, key }) => {
    const eans = { eanCons: randomEan(), eanProd: randomEan() };
    const names = { name: 'Dairy', externalPlantId: 'ext:1', ...eans };
    const { id } = await createPlant(organization, names);
    const subDevices = ['BESS', 'FVE', 'METER'].map((assetType) => {
      return { deviceId: `${assetType}-1`, assetType, name: `${assetType}-1`, status: 'UNKNOWN' };
    });
    const supportedCommands = expect.any(Array);
    expect(await listPlants(key)).toEqual([
      { id, ...names, status: 'PENDING', subDevices, supportedCommands },
    ]);
  });

  it('a plant’s missing values are null, and its status is the one in the registry [C-2.5]', async ({
    organization,
    key,
  }) => {
    const id = await addPlant(organization);
    const subDeviceId = await addSubDevice(organization, id, { externalId: 'BESS-0', assetType: 'BESS' });
    await writeRegistry(env.DB, [
      { kind: 'plant', id, columns: { status: 'DEGRADED' } },
      { kind: 'sub-device', id: subDeviceId, columns: { status: 'OFFLINE' } },
    ]);
    expect(await listPlants(key)).toMatchObject([
      {
        id,
        status: 'DEGRADED',
        externalPlantId: null,
        eanCons: null,
        eanProd: null,
        subDevices: [{ deviceId: 'BESS-0', status: 'OFFLINE' }],
      },
    ]);
  });

  it.for<[string, SubDeviceOptions[], string[]]>([
    ['no sub-device', [], []],
    ['a battery', DEFAULT_SUB_DEVICES.slice(0, 1), BESS_COMMANDS],
    ['PV', DEFAULT_SUB_DEVICES.slice(1, 2), FVE_COMMANDS],
    ['both and a meter', DEFAULT_SUB_DEVICES, [...BESS_COMMANDS, ...FVE_COMMANDS]],
    [
      'every other type',
      ASSET_TYPES.filter((type) => type !== 'BESS' && type !== 'FVE').map((assetType) => ({
        externalId: `${assetType}-1`,
        assetType,
      })),
      [],
    ],
  ])(
    'a plant with %s supports site commands and those of its sub-devices (spec: supportedCommands)',
    async ([_title, subDevices, added], { organization, key }) => {
      await createPlant(organization, { subDevices });
      const [plant] = await listPlants(key);
      expect(plant?.supportedCommands.toSorted()).toEqual(
        ['SITE_SETPOINT', 'MODE_CHANGE', 'EMERGENCY', ...added].toSorted(),
      );
    },
  );

  it('only plants of the key’s organization are listed [C-1.3]', async ({ organization, key, foreign }) => {
    const ids = await addPlants(organization, 2);
    await addPlants(foreign, 2);
    expect(await plantIds(key)).toEqual(ids);
  });

  it('a key with allowedPlantIds lists only these, and no foreign one among them [C-4.2]', async ({
    organization,
    newKey,
    foreign,
  }) => {
    const [first = ''] = await addPlants(organization, 3);
    const [theirs = ''] = await addPlants(foreign, 1);
    expect(await plantIds(await newKey({ allowedPlantIds: [first, theirs] }))).toEqual([first]);
    expect(await plantIds(await newKey({ allowedPlantIds: [theirs] }))).toEqual([]);
  });

  it('205 plants are listed, more than a D1 statement can have parameters (spec: GET /vcp/sites)', async ({
    organization,
    newKey,
    key,
  }) => {
    const ids = await addPlants(organization, 205);
    const plants = await listPlants(key);
    expect(plants.map((plant) => plant.id).sort()).toEqual(ids);
    expect(plants.map((plant) => plant.subDevices.map((device) => device.deviceId))).toEqual(
      plants.map((plant) => [plant.name.replace('Plant ', 'BESS-')]),
    );
    const limited = await newKey({ allowedPlantIds: ids.slice(0, 150) });
    expect(await plantIds(limited)).toEqual(ids.slice(0, 150));
  });
});

describe('GET /vcp/sites?ean=', () => {
  it('either EAN finds a plant, once if both are equal [C-2.1]', async ({ organization, key }) => {
    const [eanCons, eanProd, shared] = [randomEan(), randomEan(), randomEan()];
    const two = await createPlant(organization, { eanCons, eanProd });
    const one = await createPlant(organization, { eanCons: shared, eanProd: shared });
    expect(await plantIds(key, `?ean=${eanCons}`)).toEqual([two.id]);
    expect(await plantIds(key, `?ean=${eanProd}`)).toEqual([two.id]);
    expect(await plantIds(key, `?ean=${shared}`)).toEqual([one.id]);
  });

  it('an EAN of another organization or outside allowedPlantIds finds no plant [C-4.2]', async ({
    organization,
    newKey,
    foreign,
  }) => {
    const [seen, hidden, theirs] = [randomEan(), randomEan(), randomEan()];
    const plant = await createPlant(organization, { eanCons: seen });
    await createPlant(organization, { eanCons: hidden });
    await createPlant(foreign, { eanProd: theirs });
    const limited = await newKey({ allowedPlantIds: [plant.id] });
    for (const ean of [randomEan(), hidden, theirs]) {
      const response = await limited.call(`/vcp/sites?ean=${ean}`);
      expect([response.status, await response.text()]).toEqual([200, '{"plants":[]}']);
    }
    expect(await plantIds(limited, `?ean=${seen}`)).toEqual([plant.id]);
  });

  it('an EAN that is not 18 digits gets 400 (spec: 400 VALIDATION_ERROR)', async ({ organization, key }) => {
    const ean = randomEan();
    await createPlant(organization, { eanCons: ean });
    const malformed = {
      '17 digits': `ean=${ean.slice(1)}`,
      '19 digits': `ean=${ean}0`,
      blank: 'ean=',
      'without a value': 'ean',
      'a letter': `ean=${ean.slice(1)}a`,
      'a sign': `ean=%2B${ean.slice(1)}`,
      'a blank for a digit': `ean=+${ean.slice(1)}`,
      'a blank in front': `ean=%20${ean}`,
      'a line break at the end': `ean=${ean}%0A`,
      'full-width digits': `ean=${encodeURIComponent('１'.repeat(18))}`,
      'Arabic digits': `ean=${encodeURIComponent('٣'.repeat(18))}`,
      'a pattern': `ean=${'%25'.repeat(18)}`,
      'SQL text': `ean=${encodeURIComponent("' OR '1'='1")}`,
      'a prototype key': 'ean=__proto__',
      'given twice': `ean=${ean}&ean=${ean}`,
      'given twice, once blank': `ean=${ean}&ean=`,
    };
    for (const [title, query] of Object.entries(malformed))
      await expectInvalid(await key.call(`/vcp/sites?${query}`), 'ean', title);
  });

  it('an unknown parameter gets 400 with the nearest known one or all of them, and never filters nothing [C-10]', async ({
    key,
  }) => {
    const faults = async (query: string) => {
      const body = await expectError(await key.call(`/vcp/sites?${query}`), 400, 'VALIDATION_ERROR');
      return body.details;
    };
    expect(await faults('eann=1')).toEqual(['eann: unknown query parameter: did you mean "ean"?']);
    expect(await faults('partnerId=1&__proto__=2&constructor=3')).toEqual([
      'partnerId: unknown query parameter: known are ean',
      '__proto__: unknown query parameter: known are ean',
      'constructor: unknown query parameter: known are ean',
    ]);
    expect(await faults(`${'x'.repeat(1_000)}=1`)).toEqual([
      `${'x'.repeat(64)}… (1000 characters): unknown query parameter: known are ean`,
    ]);
  });
});
