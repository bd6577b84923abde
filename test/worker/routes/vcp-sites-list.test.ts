/** GET /vcp/sites: the plants that a key may see (spec: Plant summary; [C-4.2]). */
import { env } from 'cloudflare:workers';
import { describe, expect, it } from 'vitest';
import { writeRegistry } from '../../../durable-objects/registry/status-lane.ts';
import { ASSET_TYPES } from '../../../protocol/enums.ts';
import { expectError, read, send } from '../../support/workerd/rest.ts';
import {
  addPlant,
  addSubDevice,
  createKey,
  createOrganization,
  createPlant,
  DEFAULT_SUB_DEVICES,
  type Organization,
  type SubDeviceOptions,
} from '../../support/workerd/world.ts';

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

async function listPlants(key: string, query = ''): Promise<PlantSummary[]> {
  const body = await read<{ plants: PlantSummary[] }>(`/api/v1/vcp/sites${query}`, key);
  expect(Object.keys(body)).toEqual(['plants']);
  return body.plants;
}

async function plantIds(key: string, query = ''): Promise<string[]> {
  return (await listPlants(key, query)).map((plant) => plant.id).sort();
}

function randomEan(): string {
  return [...crypto.getRandomValues(new Uint8Array(18))].map((byte) => byte % 10).join('');
}

/** Plants straight into the registry, each with one battery. */
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

describe('GET /vcp/sites', () => {
  it('shows a plant with the fields of the plant summary and no others (spec: Plant summary)', async () => {
    const organization = await createOrganization();
    const eans = { eanCons: randomEan(), eanProd: randomEan() };
    const plant = await createPlant(organization, { name: 'Dairy', externalPlantId: 'ext:1', ...eans });
    const { key } = await createKey(organization);
    expect(await listPlants(key)).toEqual([
      {
        id: plant.id,
        name: 'Dairy',
        status: 'PENDING',
        externalPlantId: 'ext:1',
        ...eans,
        subDevices: [
          { deviceId: 'BESS-1', assetType: 'BESS', name: 'BESS-1', status: 'UNKNOWN' },
          { deviceId: 'FVE-1', assetType: 'FVE', name: 'FVE-1', status: 'UNKNOWN' },
          { deviceId: 'METER-1', assetType: 'METER', name: 'METER-1', status: 'UNKNOWN' },
        ],
        supportedCommands: expect.any(Array),
      },
    ]);
  });

  it('shows null for what a plant does not have, and the status that the registry holds [C-2.5]', async () => {
    const organization = await createOrganization();
    const id = await addPlant(organization);
    const subDeviceId = await addSubDevice(organization, id, { externalId: 'BESS-0', assetType: 'BESS' });
    await writeRegistry(env.DB, [
      { kind: 'plant', id, columns: { status: 'DEGRADED' } },
      { kind: 'sub-device', id: subDeviceId, columns: { status: 'OFFLINE' } },
    ]);
    const { key } = await createKey(organization);
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

  it.each<[string, SubDeviceOptions[], string[]]>([
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
  ])('names what a plant with %s supports (spec: supportedCommands)', async (_title, subDevices, added) => {
    const organization = await createOrganization();
    await createPlant(organization, { subDevices });
    const { key } = await createKey(organization);
    const [plant] = await listPlants(key);
    expect(plant?.supportedCommands.toSorted()).toEqual(
      ['SITE_SETPOINT', 'MODE_CHANGE', 'EMERGENCY', ...added].toSorted(),
    );
  });

  it('lists only the plants of the key’s own organization [C-1.3]', async () => {
    const [own, other] = [await createOrganization(), await createOrganization()];
    const ids = await addPlants(own, 2);
    await addPlants(other, 2);
    expect(await plantIds((await createKey(own)).key)).toEqual(ids);
  });

  it('leaves out plants outside allowedPlantIds, and a foreign id in it opens nothing [C-4.2]', async () => {
    const [own, other] = [await createOrganization(), await createOrganization()];
    const [first = ''] = await addPlants(own, 3);
    const [foreign = ''] = await addPlants(other, 1);
    const limited = await createKey(own, { allowedPlantIds: [first, foreign] });
    expect(await plantIds(limited.key)).toEqual([first]);
    const foreignOnly = await createKey(own, { allowedPlantIds: [foreign] });
    expect(await plantIds(foreignOnly.key)).toEqual([]);
  });

  it('lists more plants than a D1 query takes parameters, each with its own sub-device (spec: GET /vcp/sites)', async () => {
    const organization = await createOrganization();
    const ids = await addPlants(organization, 205);
    const { key } = await createKey(organization);
    const plants = await listPlants(key);
    expect(plants.map((plant) => plant.id).sort()).toEqual(ids);
    expect(plants.map((plant) => plant.subDevices.map((device) => device.deviceId))).toEqual(
      plants.map((plant) => [plant.name.replace('Plant ', 'BESS-')]),
    );
    const limited = await createKey(organization, { allowedPlantIds: ids.slice(0, 150) });
    expect(await plantIds(limited.key)).toEqual(ids.slice(0, 150));
  });
});

describe('GET /vcp/sites?ean=', () => {
  it('finds a plant by its consumption or its production EAN, once when both are the same [C-2.1]', async () => {
    const organization = await createOrganization();
    const [eanCons, eanProd, shared] = [randomEan(), randomEan(), randomEan()];
    const two = await createPlant(organization, { eanCons, eanProd });
    const one = await createPlant(organization, { eanCons: shared, eanProd: shared });
    const { key } = await createKey(organization);
    expect(await plantIds(key, `?ean=${eanCons}`)).toEqual([two.id]);
    expect(await plantIds(key, `?ean=${eanProd}`)).toEqual([two.id]);
    expect(await plantIds(key, `?ean=${shared}`)).toEqual([one.id]);
  });

  it('answers an unknown, a foreign and a not allowed EAN with no plants alike [C-4.2]', async () => {
    const [own, other] = [await createOrganization(), await createOrganization()];
    const [seen, hidden, foreign] = [randomEan(), randomEan(), randomEan()];
    const plant = await createPlant(own, { eanCons: seen });
    await createPlant(own, { eanCons: hidden });
    await createPlant(other, { eanProd: foreign });
    const { key } = await createKey(own, { allowedPlantIds: [plant.id] });
    for (const ean of [randomEan(), hidden, foreign]) {
      const response = await send(`/api/v1/vcp/sites?ean=${ean}`, { key });
      expect([response.status, await response.text()]).toEqual([200, '{"plants":[]}']);
    }
    expect(await plantIds(key, `?ean=${seen}`)).toEqual([plant.id]);
  });

  it('refuses whatever is not 18 digits, given once (spec: 400 VALIDATION_ERROR)', async () => {
    const organization = await createOrganization();
    const ean = randomEan();
    await createPlant(organization, { eanCons: ean });
    const { key } = await createKey(organization);
    const malformed = {
      '17 digits': `ean=${ean.slice(1)}`,
      '19 digits': `ean=${ean}0`,
      blank: 'ean=',
      'without a value': 'ean',
      'a letter': `ean=${ean.slice(1)}a`,
      'a sign': `ean=%2B${ean.slice(1)}`,
      'a blank for a digit': `ean=+${ean.slice(1)}`,
      'a blank in front': `ean=%20${ean}`,
      'a line break behind': `ean=${ean}%0A`,
      'full-width digits': `ean=${encodeURIComponent('１'.repeat(18))}`,
      'Arabic digits': `ean=${encodeURIComponent('٣'.repeat(18))}`,
      'a pattern': `ean=${'%25'.repeat(18)}`,
      'SQL text': `ean=${encodeURIComponent("' OR '1'='1")}`,
      'a prototype key': 'ean=__proto__',
      'given twice': `ean=${ean}&ean=${ean}`,
      'given twice, once blank': `ean=${ean}&ean=`,
    };
    for (const [title, query] of Object.entries(malformed)) {
      const response = await send(`/api/v1/vcp/sites?${query}`, { key });
      const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
      expect([title, details]).toEqual([title, [expect.stringMatching(/^ean: /)]]);
    }
  });

  it('takes no notice of parameters that it does not know, prototype keys among them (spec: GET /vcp/sites)', async () => {
    const organization = await createOrganization();
    const ids = await addPlants(organization, 1);
    const { key } = await createKey(organization);
    expect(await plantIds(key, '?__proto__=1&constructor=2&toString=3&EAN=4')).toEqual(ids);
  });
});
