/**
 * A foreign thing is answered like one that does not exist: every route with an id in its path, byte for byte
 * [C-1.3], [C-4.2]. The cases come from ROUTES; a new kind of thing needs a line in `thingsOf`.
 */
import { env } from 'cloudflare:workers';
import { fireAlert } from '#workerd/alerts.ts';
import { callRoute, nameOf, nounsOf, pathWith } from '#workerd/routes.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, test } from '#workerd/worker-test.ts';
import { randomEan } from '#workerd/world.ts';
import { ERROR_STATUS } from '../../protocol/errors.ts';
import type { ApiKeyScope } from '../../protocol/scopes.ts';
import { ROUTES } from '../../worker/app.ts';
import type { AnyRoute } from '../../worker/route.ts';

/** An id of each kind of thing, by the noun before it in paths; the sub-device belongs to the plant. */
type Things = Record<string, string>;

const WITH_IDS = ROUTES.filter((route) => nounsOf(route).length > 0);
/** Bodies of routes that have no example in the document. */
const BODIES: Record<string, unknown> = {
  'POST /api/v1/partner/api-keys/{id}/test-connection': { key: 'sw_x' },
};
/** Headers that differ between two equal answers. */
const INVITED = { email: 'invited@example.org', role: 'VIEWER' };
const OWN_HEADERS = ['x-request-id', 'date', 'ratelimit-remaining', 'ratelimit-reset'];

const it = test
  .extend('own', { scope: 'file' }, ({ team }) => thingsOf(team))
  .extend('hidden', { scope: 'file' }, ({ team }) => thingsOf(team))
  .extend('theirs', { scope: 'file' }, ({ other }) => thingsOf(other));

async function thingsOf(owner: Team): Promise<Things> {
  const ean = randomEan();
  const { id: plant } = await owner.newPlant({ eanCons: ean });
  const { id: subDevice } = await owner.newSubDevice(plant);
  const { id: key } = await owner.newKey(['plants:read']);
  const { id: device } = await owner.newTokenDevice({ plantId: plant });
  const { cmdId } = await owner.command(device);
  return {
    organizations: owner.id,
    members: owner.viewer.id,
    users: owner.viewer.id,
    invitations: (await owner.admin.create<{ id: string }>(`/organizations/${owner.id}/invitations`, INVITED))
      .id,
    plants: plant,
    sites: plant,
    'sub-devices': subDevice,
    'api-keys': key,
    devices: device,
    telemetry: device,
    alerts: await fireAlert(owner.id, { plantId: plant }),
    commands: cmdId,
    ean,
  };
}

/** The strongest credentials: an ORG_ADMIN's session, and a key with the route's scope. */
async function entrancesOf(team: Team, { who }: AnyRoute, allowedPlantIds?: string[]) {
  const scope: ApiKeyScope | undefined = 'scope' in who ? who.scope : undefined;
  const options = allowedPlantIds ? { allowedPlantIds } : {};
  const byKey: Record<string, string>[] = scope
    ? [{ 'x-api-key': (await team.newKey([scope], options)).key }]
    : [];
  if (allowedPlantIds || who.door === 'api-key') return byKey;
  return [{ authorization: `Bearer ${team.orgAdmin.accessToken}`, 'x-org-id': team.id }, ...byKey];
}

interface Seen {
  status: number;
  text: string;
  headers: [string, string][];
}

async function look(route: AnyRoute, ids: Things, headers: Record<string, string>): Promise<Seen> {
  // The document's example is a valid body, so that the answer depends on the id.
  const body = route.examples?.body ?? BODIES[nameOf(route)];
  const response = await callRoute(route, pathWith(route, ids), headers, body);
  const seen = [...response.headers].filter(([name]) => !OWN_HEADERS.includes(name));
  return { status: response.status, text: await response.text(), headers: seen };
}

/** For each id in the path: that id foreign, and that id absent; all other ids are the organization's own. */
function stepsOf(route: AnyRoute, own: Things, from: Things) {
  return nounsOf(route).map((noun) => {
    const absent: Things = { ...own, [noun]: crypto.randomUUID() };
    const foreign: Things = { ...own, [noun]: from[noun] ?? '' };
    return { noun, foreign, absent };
  });
}

function expectAbsent({ who }: AnyRoute, { status, text }: Seen): void {
  const { code } = JSON.parse(text) as { code: keyof typeof ERROR_STATUS };
  // A public route answers an absent id like a bad signature (device-renewal.test.ts).
  if (who.door === 'public') {
    expect([status, code]).toEqual([401, 'UNAUTHORIZED']);
    return;
  }
  expect([status, code]).toEqual([404, expect.stringMatching(/^(\w+_)?NOT_FOUND$/)]);
  expect(ERROR_STATUS[code]).toBe(404);
}

/** The rows of an organization: what it has, and who is in it. */
async function rowsOf({ id }: Team): Promise<unknown[]> {
  const ofPlants =
    'SELECT s.* FROM sub_devices s JOIN plants p ON p.id = s.plant_id WHERE p.organization_id = ?';
  const tables = ['plants', 'devices', 'memberships', 'alerts', 'alert_rules', 'audit_events'].map(
    (table) => `SELECT * FROM ${table} WHERE organization_id = ?`,
  );
  const keys =
    'SELECT id, revoked_at_ms, updated_at_ms, bundle_acknowledged_at_ms FROM api_keys WHERE organization_id = ?';
  const all = [...tables, ofPlants, keys, 'SELECT * FROM organizations WHERE id = ?'];
  const results = await env.DB.batch(all.map((sql) => env.DB.prepare(sql).bind(id)));
  return results.map((result) => result.results);
}

const named = (routes: readonly AnyRoute[]) => routes.map((route) => [nameOf(route), route] as const);

it('the suite has a foreign thing of each kind that paths name [C-1.3]', ({ own }) => {
  const nouns = new Set(WITH_IDS.flatMap(nounsOf));
  expect([...nouns].filter((noun) => !own[noun])).toEqual([]);
  expect(nouns.size).toBeGreaterThan(5);
});

describe(`${WITH_IDS.length} routes with an id`, () => {
  it.for(named(WITH_IDS))(
    '%s answers a foreign id like an absent one [C-1.3]',
    async ([_name, route], { team, other, own, theirs }) => {
      const before = await rowsOf(other);
      for (const headers of await entrancesOf(team, route)) {
        for (const step of stepsOf(route, own, theirs)) {
          const absent = await look(route, step.absent, headers);
          expectAbsent(route, absent);
          const seen = await look(route, step.foreign, headers);
          expect({ noun: step.noun, ...seen }).toEqual({ noun: step.noun, ...absent });
        }
        const whole = await look(route, theirs, headers);
        expectAbsent(route, whole);
      }
      expect(await rowsOf(other)).toEqual(before);
    },
  );

  const ofPlants = WITH_IDS.filter(
    ({ who, path }) => 'scope' in who && who.scope && /\/(plants|sites)\//.test(path),
  );
  it.for(named(ofPlants))(
    '%s answers a plant outside the key’s allowedPlantIds like an absent one [C-4.2]',
    async ([_name, route], { team, own, hidden, theirs }) => {
      const [headers = {}] = await entrancesOf(team, route, [own.plants ?? '']);
      const nowhere = { ...own, plants: crypto.randomUUID(), sites: crypto.randomUUID() };
      const absent = await look(route, nowhere, headers);
      expectAbsent(route, absent);
      const before = await rowsOf(team);
      for (const plants of [hidden.plants ?? '', theirs.plants ?? '']) {
        expect(await look(route, { ...own, plants, sites: plants }, headers)).toEqual(absent);
      }
      expect(await rowsOf(team)).toEqual(before);
    },
  );
});

describe('the organization of a request', () => {
  it.for(named(ROUTES.filter(({ who }) => who.door === 'member')))(
    '%s answers a foreign x-org-id like an absent one [C-1.3]',
    async ([_name, route], { team, other, own }) => {
      const session = { authorization: `Bearer ${team.orgAdmin.accessToken}` };
      const absent = await look(route, own, { ...session, 'x-org-id': crypto.randomUUID() });
      expect([absent.status, absent.text]).toEqual([
        403,
        expect.stringContaining('"ORG_MEMBERSHIP_REQUIRED"'),
      ]);
      for (const id of [other.id, other.id.toUpperCase(), other.slug, 'x']) {
        expect(await look(route, own, { ...session, 'x-org-id': id })).toEqual(absent);
      }
    },
  );

  it('no list shows anything of another organization [C-1.3]', async ({ team, other, own, theirs }) => {
    const lists = ROUTES.filter((route) => route.method === 'GET' && nounsOf(route).length === 0);
    const secrets = [...Object.values(theirs), other.slug, other.orgAdmin.id, other.orgAdmin.email];
    for (const route of lists.filter(({ who }) => who.door !== 'public')) {
      for (const headers of await entrancesOf(team, route)) {
        const { status, text } = await look(route, own, headers);
        const leaked = secrets.filter((secret) => text.includes(secret));
        expect([nameOf(route), status, leaked]).toEqual([nameOf(route), 200, []]);
      }
    }
  });
});
