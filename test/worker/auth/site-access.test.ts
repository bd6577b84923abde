/** Which sites a key reaches: a refused site looks as if it did not exist [C-4.2]. */
import { anonymous } from '#workerd/client.ts';
import { describe, expect, expectError, expectInvalid, expectSameError, test } from '#workerd/worker-test.ts';
import { createOrganization, createPlant } from '#workerd/world.ts';

const DAY = 'from=2030-03-05T00:00:00Z&to=2030-03-06T00:00:00Z';
const READS = [
  'config',
  'commands',
  'telemetry/latest',
  `telemetry?metric=gridPowerKw&${DAY}`,
  'meter-readings',
  'schedules',
  `meter-readings?${DAY}`,
];

function sitePath(siteId: string, read: string): string {
  return `/vcp/sites/${siteId}/${read}`;
}

/** `wide` reaches `plant` and `hidden`, `narrow` only `plant`, though it names `foreign`, too. */
const it = test
  .extend('hidden', ({ organization }) => createPlant(organization))
  .extend('foreign', async () => createPlant(await createOrganization()))
  .extend('wide', ({ newKey }) => newKey())
  .extend('narrow', ({ plant, foreign, newKey }) => newKey({ allowedPlantIds: [plant.id, foreign.id] }));

describe.each(READS)('GET /vcp/sites/{siteId}/%s', (read) => {
  it('a foreign site, one outside allowedPlantIds and an absent one get the same 404 [C-4.2]', async ({
    hidden,
    foreign,
    wide,
    narrow,
  }) => {
    const absent = await wide.call(sitePath(crypto.randomUUID(), read));
    const text = await absent.clone().text();
    await expectError(absent, 404, 'SITE_NOT_FOUND');
    for (const [key, siteId] of [
      [wide, foreign.id],
      [narrow, foreign.id],
      [narrow, hidden.id],
      [narrow, crypto.randomUUID()],
      [narrow, hidden.id.toUpperCase()],
    ] as const) {
      const response = await key.call(sitePath(siteId, read));
      expect([response.status, await response.text()]).toEqual([404, text]);
      expect([...response.headers.keys()]).toEqual([...absent.headers.keys()]);
    }
  });

  it('a key reads each plant of its organization, or those of its allowedPlantIds if it has them [C-4.2]', async ({
    plant,
    hidden,
    wide,
    narrow,
  }) => {
    for (const [key, siteId] of [
      [wide, plant.id],
      [wide, hidden.id],
      [narrow, plant.id],
      [narrow, plant.id.toUpperCase()],
    ] as const) {
      expect((await key.call(sitePath(siteId, read))).status).toBe(200);
    }
  });

  it('a siteId that is no UUID gets 400 (spec: 400 VALIDATION_ERROR)', async ({ plant, wide }) => {
    const malformed = [
      'x',
      '1',
      plant.id.slice(0, -1),
      `${plant.id}0`,
      plant.id.replaceAll('-', ''),
      `{${plant.id}}`,
      `%20${plant.id}`,
      `${plant.id}%0A`,
      plant.id.replace(/^./, 'g'),
      encodeURIComponent('０b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10'),
      `${plant.id}%2Fconfig`,
      '__proto__',
      'constructor',
      '%00',
      '%27%20OR%201%3D1',
      'a'.repeat(4_000),
    ];
    for (const siteId of malformed)
      await expectInvalid(await wide.call(sitePath(siteId, read)), 'siteId', siteId);
  });

  it('answers without a key the same 401 for a real, an absent and a malformed siteId (spec: 401 UNAUTHORIZED)', async ({
    plant,
  }) => {
    const ids = [plant.id, crypto.randomUUID(), 'x'];
    await expectSameError(
      ids.map((siteId) => anonymous.call(sitePath(siteId, read))),
      401,
      'UNAUTHORIZED',
    );
  });
});

it('a key with empty allowedPlantIds reaches no site [C-4.2]', async ({ plant, newKey }) => {
  const key = await newKey({ allowedPlantIds: [] });
  expect(await key.read('/vcp/sites')).toEqual({ plants: [] });
  await expectError(await key.call(sitePath(plant.id, 'config')), 404, 'SITE_NOT_FOUND');
});
