/** The list of plants: pages, whose plants it shows, and how many an organization may have [C-2.1]. */
import { runSql } from '#workerd/d1.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Page } from '../../../protocol/page.ts';
import type { PlantRecord } from '../../../protocol/plant-record.ts';

async function listPlants({ viewer }: Team, query = ''): Promise<Page<PlantRecord>> {
  return await viewer.read(`/plants${query}`);
}

describe('GET /plants', () => {
  it('plants are listed by name, in pages (spec: List endpoints)', async ({ ownTeam }) => {
    for (const name of ['c', 'a', 'b']) await ownTeam.newPlant({ name });
    const namesOf = async (query: string) => {
      const { data, meta } = await listPlants(ownTeam, query);
      return { names: data.map(({ name }) => name), ...meta };
    };
    const all = { total: 3, totalPages: 1, next: null };
    expect(await namesOf('')).toEqual({ names: ['a', 'b', 'c'], page: 1, limit: 20, ...all });
    const two = { limit: 2, total: 3, totalPages: 2, next: null };
    expect(await namesOf('?limit=2')).toEqual({
      names: ['a', 'b'],
      page: 1,
      ...two,
      next: expect.any(String),
    });
    expect(await namesOf('?limit=2&page=2')).toEqual({ names: ['c'], page: 2, ...two });
    expect(await namesOf('?limit=2&page=3')).toEqual({ names: [], page: 3, ...two });
  });

  it('a foreign plant is not shown; a key with allowedPlantIds sees only its own plants [C-1.3]', async ({
    team,
    other,
  }) => {
    const [mine, hidden] = [await team.newPlant(), await team.newPlant()];
    const theirs = await other.newPlant();
    const narrow = await team.newKey(['plants:read'], { allowedPlantIds: [mine.id, theirs.id] });
    expect(await narrow.read('/plants')).toEqual({
      data: [mine],
      meta: { page: 1, limit: 20, total: 1, totalPages: 1, next: null },
    });
    const ids = (await listPlants(other, '?limit=100')).data.map(({ id }) => id);
    expect(ids).toContain(theirs.id);
    expect([ids.includes(mine.id), ids.includes(hidden.id)]).toEqual([false, false]);
    await expectError(await narrow.call(`/plants/${hidden.id}`), 404, 'PLANT_NOT_FOUND');
  });

  it.for([
    'page=0',
    'page=-1',
    'page=1e3',
    'page=',
    'limit=0',
    'limit=101',
    'limit=50abc',
    'page=1&page=2',
    'limit=٣',
  ])('GET /plants?%s gets 400 (bad input: REST)', async (query, { team }) => {
    await expectError(await team.viewer.call(`/plants?${query}`), 400, 'VALIDATION_ERROR');
  });
});

describe('an organization', () => {
  it('gets 409 for one plant more than its maximum, until it deletes one (limits: plantsPerOrganization)', async ({
    ownTeam,
  }) => {
    await runSql(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO plants (id, organization_id, name, created_at_ms)
       SELECT lower(hex(randomblob(16))), ?, 'Plant', 1 FROM n`,
      LIMIT.plantsPerOrganization - 1,
      ownTeam.id,
    );
    const { id } = await ownTeam.newPlant();
    await expectError(await ownTeam.operator.post('/plants', { name: 'x' }), 409, 'CONFLICT');
    await ownTeam.operator.remove(`/plants/${id}`);
    await ownTeam.newPlant();
  });
});
