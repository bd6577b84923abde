/** Which sites a key reaches: every refusal looks as if the site did not exist [C-4.2]. */
import { beforeAll, describe, expect, it } from 'vitest';
import { expectError, send } from '../../support/workerd/rest.ts';
import { createKey, createOrganization, createPlant, type Plant } from '../../support/workerd/world.ts';

const DAY = 'from=2030-03-05T00:00:00Z&to=2030-03-06T00:00:00Z';
const READS = [
  'config',
  'commands',
  'telemetry/latest',
  `telemetry?metric=gridPowerKw&${DAY}`,
  'meter-readings',
  `meter-readings?${DAY}`,
];

function sitePath(siteId: string, read: string): string {
  return `/api/v1/vcp/sites/${siteId}/${read}`;
}

describe.each(READS)('GET /vcp/sites/{siteId}/%s', (read) => {
  let own: Plant;
  let hidden: Plant;
  let foreign: Plant;
  let wide: string;
  let narrow: string;

  beforeAll(async () => {
    const [organization, other] = [await createOrganization(), await createOrganization()];
    own = await createPlant(organization);
    hidden = await createPlant(organization);
    foreign = await createPlant(other);
    wide = (await createKey(organization)).key;
    narrow = (await createKey(organization, { allowedPlantIds: [own.id, foreign.id] })).key;
  });

  it('answers a foreign site, a site outside allowedPlantIds and an absent one with one same 404 [C-4.2]', async () => {
    const absent = await send(sitePath(crypto.randomUUID(), read), { key: wide });
    const text = await absent.clone().text();
    await expectError(absent, 404, 'SITE_NOT_FOUND');
    for (const [key, siteId] of [
      [wide, foreign.id],
      [narrow, foreign.id],
      [narrow, hidden.id],
      [narrow, crypto.randomUUID()],
      [narrow, hidden.id.toUpperCase()],
    ] as const) {
      const response = await send(sitePath(siteId, read), { key });
      expect([response.status, await response.text()]).toEqual([404, text]);
      expect([...response.headers.keys()]).toEqual([...absent.headers.keys()]);
    }
  });

  it('opens the organization’s sites, or those of allowedPlantIds [C-4.2]', async () => {
    for (const [key, siteId] of [
      [wide, own.id],
      [wide, hidden.id],
      [narrow, own.id],
      [narrow, own.id.toUpperCase()],
    ] as const) {
      expect((await send(sitePath(siteId, read), { key })).status).toBe(200);
    }
  });

  it('refuses a siteId that is not a UUID with 400, whether or not something has that name (spec: 400 VALIDATION_ERROR)', async () => {
    const malformed = [
      'x',
      '1',
      own.id.slice(0, -1),
      `${own.id}0`,
      own.id.replaceAll('-', ''),
      `{${own.id}}`,
      `%20${own.id}`,
      `${own.id}%0A`,
      own.id.replace(/^./, 'g'),
      encodeURIComponent('０b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10'),
      `${own.id}%2Fconfig`,
      '__proto__',
      'constructor',
      '%00',
      '%27%20OR%201%3D1',
      'a'.repeat(4_000),
    ];
    for (const siteId of malformed) {
      const response = await send(sitePath(siteId, read), { key: wide });
      const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
      expect([siteId, details]).toEqual([siteId, [expect.stringMatching(/^siteId: /)]]);
    }
  });

  it('tells nobody without a key whether a site exists (spec: 401 UNAUTHORIZED)', async () => {
    const texts = new Set<string>();
    for (const siteId of [own.id, crypto.randomUUID(), 'x']) {
      const response = await send(sitePath(siteId, read));
      texts.add(`${response.status} ${await response.text()}`);
    }
    expect(texts.size).toBe(1);
  });
});

it('a key whose allowedPlantIds is empty reaches no site at all [C-4.2]', async () => {
  const organization = await createOrganization();
  const plant = await createPlant(organization);
  const { key } = await createKey(organization, { allowedPlantIds: [] });
  const list = await send('/api/v1/vcp/sites', { key });
  expect(await list.json()).toEqual({ plants: [] });
  await expectError(await send(sitePath(plant.id, 'config'), { key }), 404, 'SITE_NOT_FOUND');
});
