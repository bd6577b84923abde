/**
 * What is another organization's answers as what is nowhere: each route with an id in its path, byte for byte [C-1.3],
 * [C-4.2]. Generated from ROUTES: a new route is in it by itself, a new kind of thing needs a line in `Things`.
 */
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeRegistry } from '../../durable-objects/registry/status-lane.ts';
import { ERROR_STATUS } from '../../protocol/errors.ts';
import type { ApiKeyScope } from '../../protocol/scopes.ts';
import { ROUTES } from '../../worker/app.ts';
import type { AnyRoute } from '../../worker/route.ts';
import { newTokenDevice, operate } from '../support/workerd/devices.ts';
import { createTeamKey, postPlant, postSubDevice } from '../support/workerd/fleet.ts';
import { bodyOf, createTeam, type Team } from '../support/workerd/people.ts';
import { callRoute, nameOf, nounsOf, pathWith } from '../support/workerd/routes.ts';

/** An id of each kind of thing, by the noun in front of it in paths; what hangs together belongs together. */
type Things = Record<string, string>;

/** One that nobody is logged in for answers by its signature: 401 (device-renewal.test.ts). */
const WITH_IDS = ROUTES.filter((route) => nounsOf(route).length > 0);
/** Bodies of routes that show none in the document. */
const BODIES: Record<string, unknown> = {
  'POST /api/v1/partner/api-keys/{id}/test-connection': { key: 'sw_x' },
};
/** Of the answer itself, and of when it was given. */
const OWN_HEADERS = ['x-request-id', 'date', 'ratelimit-remaining', 'ratelimit-reset'];

let team: Team;
let foreign: Team;
let own: Things;
let hidden: Things;
let theirs: Things;

beforeAll(async () => {
  [team, foreign] = await Promise.all([createTeam(), createTeam()]);
  [own, hidden, theirs] = await Promise.all([thingsOf(team), thingsOf(team), thingsOf(foreign)]);
});

async function thingsOf(owner: Team): Promise<Things> {
  const ean = String(Math.floor(Math.random() * 1e9)).padStart(18, '8');
  const { id: plant } = await postPlant(owner.operator, { eanCons: ean });
  const { id: subDevice } = await postSubDevice(owner.operator, plant);
  const { id: key } = await createTeamKey(owner, ['plants:read']);
  const { id: device } = await newTokenDevice(owner, { plantId: plant });
  const sent = await operate(owner.operator, device, 'commands', { action: 'REBOOT' });
  const { cmdId } = await bodyOf<{ cmdId: string }>(sent, 202);
  return {
    organizations: owner.id,
    members: owner.viewer.id,
    users: owner.viewer.id,
    plants: plant,
    sites: plant,
    'sub-devices': subDevice,
    'api-keys': key,
    devices: device,
    telemetry: device,
    alerts: await newAlert(owner.id, plant),
    commands: cmdId,
    ean,
  };
}

/** One that fired, as a Site tells of it. */
async function newAlert(organizationId: string, plantId: string): Promise<string> {
  const id = crypto.randomUUID();
  const seen = { firstSeenAtMs: Date.now(), lastSeenAtMs: Date.now(), count: 1 };
  const about = { ruleId: crypto.randomUUID(), plantId, deviceId: null, value: 9, threshold: 10 };
  const what = { type: 'THRESHOLD', severity: 'WARNING', message: 'nearly empty' } as const;
  await writeRegistry(env.DB, [
    { kind: 'alert-begun', entry: { id, organizationId, ...about, ...what, ...seen } },
  ]);
  return id;
}

/** Who gets furthest: a session of an ORG_ADMIN, and a key with the route's scope; both where the route takes both. */
async function entrancesOf({ who }: AnyRoute, allowedPlantIds?: string[]): Promise<Record<string, string>[]> {
  const scope: ApiKeyScope | undefined = 'scope' in who ? who.scope : undefined;
  const options = allowedPlantIds ? { allowedPlantIds } : {};
  const byKey = scope ? [{ 'x-api-key': (await createTeamKey(team, [scope], options)).key }] : [];
  if (allowedPlantIds || who.door === 'api-key') return byKey;
  const session = { authorization: `Bearer ${team.orgAdmin.accessToken}`, 'x-org-id': team.id };
  return [session, ...byKey];
}

interface Seen {
  status: number;
  text: string;
  headers: [string, string][];
}

async function look(route: AnyRoute, ids: Things, headers: Record<string, string>): Promise<Seen> {
  // The document's own example is a body that is right: what follows is about the id.
  const body = route.examples?.body ?? BODIES[nameOf(route)];
  const response = await callRoute(route, pathWith(route, ids), headers, body);
  const kept = [...response.headers].filter(([name]) => !OWN_HEADERS.includes(name));
  return { status: response.status, text: await response.text(), headers: kept };
}

/** For each place of an id in the path: ids that are right up to there, theirs there, and absent there. */
function stepsOf(route: AnyRoute, from: Things): { noun: string; foreign: Things; absent: Things }[] {
  return nounsOf(route).map((noun) => {
    const absent = { ...own, [noun]: crypto.randomUUID() };
    return { noun, foreign: { ...own, [noun]: from[noun] ?? '' }, absent };
  });
}

function expectAbsent({ who }: AnyRoute, { status, text }: Seen): void {
  const { code } = JSON.parse(text) as { code: keyof typeof ERROR_STATUS };
  // Where nobody has to be anybody, what is absent answers as one who proves nothing.
  if (who.door === 'public') {
    expect([status, code]).toEqual([401, 'UNAUTHORIZED']);
    return;
  }
  expect([status, code]).toEqual([404, expect.stringMatching(/^(\w+_)?NOT_FOUND$/)]);
  expect(ERROR_STATUS[code]).toBe(404);
}

/** What the organization has and who is in it, as rows. */
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

it('has a foreign one of each kind of thing that paths name [C-1.3]', () => {
  const nouns = new Set(WITH_IDS.flatMap(nounsOf));
  expect([...nouns].filter((noun) => !own[noun])).toEqual([]);
  expect(nouns.size).toBeGreaterThan(5);
});

describe(`${WITH_IDS.length} routes with an id`, () => {
  it.each(WITH_IDS.map((route) => [nameOf(route), route] as const))(
    '%s answers what is another organization’s as what is nowhere [C-1.3]',
    async (_name, route) => {
      const before = await rowsOf(foreign);
      for (const headers of await entrancesOf(route)) {
        for (const step of stepsOf(route, theirs)) {
          const absent = await look(route, step.absent, headers);
          expectAbsent(route, absent);
          const seen = await look(route, step.foreign, headers);
          expect({ noun: step.noun, ...seen }).toEqual({ noun: step.noun, ...absent });
        }
        const whole = await look(route, theirs, headers);
        expectAbsent(route, whole);
      }
      expect(await rowsOf(foreign)).toEqual(before);
    },
  );

  it.each(
    WITH_IDS.filter(({ who, path }) => 'scope' in who && who.scope && /\/(plants|sites)\//.test(path)).map(
      (route) => [nameOf(route), route] as const,
    ),
  )('%s answers a plant outside a key’s plants as what is nowhere [C-4.2]', async (_name, route) => {
    const [headers = {}] = await entrancesOf(route, [own.plants ?? '']);
    const absent = await look(
      route,
      { ...own, plants: crypto.randomUUID(), sites: crypto.randomUUID() },
      headers,
    );
    expectAbsent(route, absent);
    const before = await rowsOf(team);
    for (const plants of [hidden.plants ?? '', theirs.plants ?? '']) {
      expect(await look(route, { ...own, plants, sites: plants }, headers)).toEqual(absent);
    }
    expect(await rowsOf(team)).toEqual(before);
  });
});

describe('the organization of a request', () => {
  it.each(ROUTES.filter(({ who }) => who.door === 'member').map((route) => [nameOf(route), route] as const))(
    '%s answers x-org-id of another as of none [C-1.3]',
    async (_name, route) => {
      const session = { authorization: `Bearer ${team.orgAdmin.accessToken}` };
      const absent = await look(route, own, { ...session, 'x-org-id': crypto.randomUUID() });
      expect([absent.status, absent.text]).toEqual([
        403,
        expect.stringContaining('"ORG_MEMBERSHIP_REQUIRED"'),
      ]);
      for (const id of [foreign.id, foreign.id.toUpperCase(), foreign.slug, 'x']) {
        expect(await look(route, own, { ...session, 'x-org-id': id })).toEqual(absent);
      }
    },
  );

  it('is all that a list tells of: nothing of another is named in any [C-1.3]', async () => {
    const lists = ROUTES.filter((route) => route.method === 'GET' && nounsOf(route).length === 0);
    const secrets = [...Object.values(theirs), foreign.slug, foreign.orgAdmin.id, foreign.orgAdmin.email];
    for (const route of lists.filter(({ who }) => who.door !== 'public')) {
      for (const headers of await entrancesOf(route)) {
        const { status, text } = await look(route, own, headers);
        const told = secrets.filter((secret) => text.includes(secret));
        expect([nameOf(route), status, told]).toEqual([nameOf(route), 200, []]);
      }
    }
  });
});
