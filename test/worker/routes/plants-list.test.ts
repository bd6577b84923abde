/** The list of plants: pages, whose plants are in it, and how many an organization may have [C-2.1]. */
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Page } from '../../../protocol/page.ts';
import type { PlantRecord } from '../../../protocol/plant-record.ts';
import { callWithKey, createTeamKey, listPlants, postPlant } from '../../support/workerd/fleet.ts';
import { bodyOf, createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

let team: Team;
let other: Team;

beforeAll(async () => {
  [team, other] = await Promise.all([createTeam(), createTeam()]);
});

describe('GET /plants', () => {
  it('answers pages by name, with how many there are (spec: List endpoints)', async () => {
    const own = await createTeam();
    for (const name of ['c', 'a', 'b']) await postPlant(own.operator, { name });
    const namesOf = async (query: string) => {
      const { data, meta } = await listPlants(own.viewer, query);
      return { names: data.map(({ name }) => name), ...meta };
    };
    const all = { total: 3, totalPages: 1 };
    expect(await namesOf('')).toEqual({ names: ['a', 'b', 'c'], page: 1, limit: 20, ...all });
    const two = { limit: 2, total: 3, totalPages: 2 };
    expect(await namesOf('?limit=2')).toEqual({ names: ['a', 'b'], page: 1, ...two });
    expect(await namesOf('?limit=2&page=2')).toEqual({ names: ['c'], page: 2, ...two });
    expect(await namesOf('?limit=2&page=3')).toEqual({ names: [], page: 3, ...two });
  });

  it('shows no plant of another organization, and to a limited key none but its own [C-1.3]', async () => {
    const [mine, hidden] = [await postPlant(team.operator), await postPlant(team.operator)];
    const theirs = await postPlant(other.operator);
    const narrow = await createTeamKey(team, ['plants:read'], { allowedPlantIds: [mine.id, theirs.id] });
    const page = await bodyOf<Page<PlantRecord>>(await callWithKey(narrow, '/plants'), 200);
    expect(page).toEqual({ data: [mine], meta: { page: 1, limit: 20, total: 1, totalPages: 1 } });
    const ids = (await listPlants(other.viewer, '?limit=100')).data.map(({ id }) => id);
    expect(ids).toContain(theirs.id);
    expect([ids.includes(mine.id), ids.includes(hidden.id)]).toEqual([false, false]);
    await expectError(await callWithKey(narrow, `/plants/${hidden.id}`), 404, 'PLANT_NOT_FOUND');
  });

  it.each([
    'page=0',
    'page=-1',
    'page=1e3',
    'page=',
    'limit=0',
    'limit=101',
    'limit=50abc',
    'page=1&page=2',
    'limit=٣',
  ])('refuses ?%s: 400 (bad input: REST)', async (query) => {
    await expectError(await team.viewer.call(`/plants?${query}`), 400, 'VALIDATION_ERROR');
  });
});

describe('an organization', () => {
  it('has as many plants as it may, and no more: 409 CONFLICT (limits: plantsPerOrganization)', async () => {
    const full = await createTeam();
    await env.DB.prepare(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO plants (id, organization_id, name, created_at_ms)
       SELECT lower(hex(randomblob(16))), ?, 'Plant', 1 FROM n`,
    )
      .bind(LIMIT.plantsPerOrganization - 1, full.id)
      .run();
    const { id } = await postPlant(full.operator);
    const oneMore = { method: 'POST', body: { name: 'x' } } as const;
    await expectError(await full.operator.call('/plants', oneMore), 409, 'CONFLICT');
    await full.operator.read(`/plants/${id}`, { method: 'DELETE' });
    await postPlant(full.operator);
  });
});
