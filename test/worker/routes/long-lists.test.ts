/** Lists that may have more rows than pages can show: a cursor continues where a page ends [C-14.3]. */
import { makeRule } from '#workerd/alert-rest.ts';
import { fireAlert } from '#workerd/alerts.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { LongPage } from '../../../protocol/page.ts';

interface Row {
  id: string;
}

/** The ids of a list by its cursors, in pages of two. */
async function walk({ viewer }: Team, path: string): Promise<string[]> {
  const ids: string[] = [];
  let next: string | null = '';
  for (let page = 0; next !== null && page < 10; page++) {
    const query: string = next === '' ? '' : `&before=${encodeURIComponent(next)}`;
    const { data, meta } = await viewer.read<LongPage<Row>>(`${path}limit=2${query}`);
    ids.push(...data.map(({ id }) => id));
    next = meta.next;
  }
  return ids;
}

/** The ids of a list by its pages. */
async function whole({ viewer }: Team, path: string): Promise<string[]> {
  return (await viewer.read<LongPage<Row>>(`${path}limit=100`)).data.map(({ id }) => id);
}

// Names that sort, repeat, and do not fit into a URL as they are.
const NAMES = ['ä & ö', 'a', 'a', 'Ω=1?', 'zz', ''].map((name) => name || '𝄞');

const LISTS: [path: string, make: (team: Team) => Promise<void>][] = [
  [
    '/plants?',
    async (team) => {
      for (const name of NAMES) await team.newPlant({ name });
    },
  ],
  [
    '/devices?',
    async (team) => {
      for (const name of NAMES) await team.newDevice({ name });
    },
  ],
  [
    '/alerts?',
    async (team) => {
      const plantId = (await team.newPlant()).id;
      for (let at = 0; at < 5; at++)
        await fireAlert(team.id, {
          plantId,
          ruleId: crypto.randomUUID(),
          firstSeenAtMs: 1 + (at % 2),
          lastSeenAtMs: 9,
        });
    },
  ],
  [
    '/alerts?kind=RULE&',
    async (team) => {
      for (let count = 0; count < 5; count++) await makeRule(team.operator);
    },
  ],
];

describe('a list with a cursor', () => {
  it.for(LISTS)(
    '%s with cursors returns each row once, in the same order as with pages',
    async ([path, make], { ownTeam }) => {
      await make(ownTeam);
      const ids = await whole(ownTeam, path);
      expect(ids.length).toBeGreaterThanOrEqual(5);
      expect(await walk(ownTeam, path)).toEqual(ids);
    },
  );

  it.for(LISTS)(
    '%s answers a page beyond the last allowed one with 400, and names meta.next in the message',
    async ([path], { team }) => {
      const last = LIMIT.listTotal / 100;
      expect((await team.viewer.call(`${path}limit=100&page=${last}`)).status).toBe(200);
      const refused = await team.viewer.call(`${path}limit=100&page=${last + 1}`);
      const { message } = await expectError(refused, 400, 'VALIDATION_ERROR');
      expect(message).toContain('send meta.next as before');
      await expectError(await team.viewer.call(`${path}before=nothing`), 400, 'VALIDATION_ERROR');
    },
  );
});

describe('a list without a cursor', () => {
  it('answers a page beyond the last allowed one with 400, and names a filter in the message', async ({
    team,
  }) => {
    const path = `/organizations/${team.id}/members?limit=100&page=101`;
    const { message } = await expectError(await team.viewer.call(path), 400, 'VALIDATION_ERROR');
    expect(message).toContain('use a filter');
  });
});
