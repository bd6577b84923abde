/** GET /vcp/sites with the maximum of plants: how often it queries D1 (spec: Plant summary). */
import { env } from 'cloudflare:workers';
import { expect, it, vi } from 'vitest';
import { watchRegistry } from '#workerd/registry-reads.ts';
import { read } from '#workerd/rest.ts';
import { createKey, createOrganization, type Organization } from '#workerd/world.ts';
import { LIMIT } from '../../protocol/limits.ts';

const MOST = LIMIT.plantsPerOrganization;

/** Adds plants with two batteries each, without REST. */
async function addPlants({ id }: Organization, count: number): Promise<void> {
  const plants = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
    INSERT INTO plants (id, organization_id, name, created_at_ms)
    SELECT printf('%s-4000-8000-%012x', substr(?2, 1, 13), i), ?2, 'Plant ' || i, i FROM n`;
  const batteries = `INSERT INTO sub_devices (id, plant_id, external_id, asset_type, name, created_at_ms)
    SELECT substr(id, 1, 9) || column1 || substr(id, 14), id, 'BESS-' || column1, 'BESS', 'Battery', 1
    FROM plants, (VALUES ('0001'), ('0002')) WHERE organization_id = ?1`;
  await env.DB.prepare(plants).bind(count, id).run();
  await env.DB.prepare(batteries).bind(id).run();
}

it('a list of 10 000 plants queries D1 twice, like a list of one', async () => {
  const counts: number[] = [];
  for (const count of [1, MOST]) {
    const organization = await createOrganization();
    await addPlants(organization, count);
    const { key } = await createKey(organization);
    const reads = watchRegistry();
    const { plants } = await read<{ plants: { subDevices: unknown[] }[] }>('/api/v1/vcp/sites', key);
    vi.restoreAllMocks();
    const batteries = plants.flatMap(({ subDevices }) => subDevices);
    expect([plants.length, batteries.length]).toEqual([count, 2 * count]);
    counts.push(reads.count);
  }
  expect(counts).toEqual([2, 2]);
});
