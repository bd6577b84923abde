/**
 * A foreign thing is answered like one that does not exist: every route with an id in its path, its query or its body,
 * for every kind of caller, byte for byte [C-1.3], [C-4.2]. The cases come from ROUTES; a new kind of thing needs a line
 * in `thingsOf`, a new field with an id one in `FIELDS`.
 */
import { env } from 'cloudflare:workers';
import { beforeEach, vi } from 'vitest';
import * as z from 'zod';
import { fireAlert } from '#workerd/alerts.ts';
import { operator } from '#workerd/operator.ts';
import { Outsiders } from '#workerd/outsiders.ts';
import { publishOf } from '#workerd/partner.ts';
import { callRoute, nameOf, nounsOf, pathWith } from '#workerd/routes.ts';
import { setScene } from '#workerd/scene.ts';
import type { Team } from '#workerd/team.ts';
import { addWebhook } from '#workerd/webhooks.ts';
import { describe, expect, test } from '#workerd/worker-test.ts';
import { randomEan, vhostOf } from '#workerd/world.ts';
import { ERROR_STATUS } from '../../protocol/errors.ts';
import { EVENT_STREAM } from '../../protocol/event-journal.ts';
import type { ApiKeyScope } from '../../protocol/scopes.ts';
import { ROUTES as ALL_ROUTES } from '../../worker/app.ts';
import type { AnyRoute } from '../../worker/route.ts';

/** An id of each kind of thing, by the noun before it in paths; the sub-device belongs to the plant. */
type Things = Record<string, string>;

/** No organization is foreign to the operator. The security matrix tests the operator's routes. */
const ROUTES = ALL_ROUTES.filter(({ who }) => who.door !== 'operator');
const WITH_IDS = ROUTES.filter((route) => nounsOf(route).length > 0);
/** Valid bodies of routes that have no example in the document, or one that needs a bridge. */
const BODIES: Record<string, object> = {
  'POST /api/v1/partner/api-keys': { name: 'Key', partnerId: 'acme', scopes: ['plants:read'] },
  'POST /api/v1/partner/api-keys/{id}/test-connection': { key: 'sw_x' },
};
const INVITED = { email: 'invited@example.org', role: 'VIEWER' };
/** The kind of thing that a field of a query or a body names. */
const FIELDS: Record<string, string> = {
  plantId: 'plants',
  deviceId: 'devices',
  linkedDeviceId: 'devices',
  allowedPlantIds: 'plants',
  templateId: 'device-templates',
  ean: 'ean',
  siteId: 'plants',
  keyId: 'api-keys',
  siteIds: 'plants',
};
/** Fields with an id without which a route refuses every body. */
const NEEDED: Record<string, string> = { 'POST /api/v1/partner/webhooks': 'keyId' };
/** Fields that are called like ids, and are names that an organization chooses for its own things. */
const CHOSEN = ['externalId', 'externalPlantId', 'partnerId', 'eanCons', 'eanProd'];
/** Headers that differ between two equal answers. */
const OWN_HEADERS = ['x-request-id', 'date', 'ratelimit-remaining', 'ratelimit-reset'];

/** `outsiders`: to each of them the things of `other` are foreign. */
const it = test
  .extend('own', { scope: 'file' }, ({ team }) => thingsOf(team))
  .extend('hidden', { scope: 'file' }, ({ team }) => thingsOf(team))
  .extend('theirs', { scope: 'file' }, ({ other }) => thingsOf(other))
  .extend('outsiders', { scope: 'file' }, ({ team, other, own, theirs }) => {
    return Outsiders.create(team, other, own.plants ?? '', theirs.plants ?? '');
  });

async function thingsOf(owner: Team): Promise<Things> {
  const ean = randomEan();
  const { id: plant } = await owner.newPlant({ eanCons: ean });
  const { id: subDevice } = await owner.newSubDevice(plant);
  const { id: key, deadLetter } = await newDeadLetter(owner);
  const { id: device } = await owner.newTokenDevice({ plantId: plant });
  const { cmdId } = await owner.command(device);
  return {
    organizations: owner.id,
    members: owner.viewer.id,
    users: owner.viewer.id,
    invitations: (await owner.admin.create<{ id: string }>(`/organizations/${owner.id}/invitations`, INVITED))
      .id,
    'support-sessions': await startSupport(owner.id),
    sessions: (await owner.viewer.read<{ data: { id: string }[] }>('/auth/sessions')).data[0]?.id ?? '',
    plants: plant,
    sites: plant,
    'sub-devices': subDevice,
    'api-keys': key,
    devices: device,
    telemetry: device,
    alerts: await fireAlert(owner.id, { plantId: plant, deviceId: device }),
    commands: cmdId,
    'dead-letters': deadLetter,
    'device-templates': (await owner.newTemplate()).id,
    webhooks: await addWebhook(owner.organization, key),
    ean,
  };
}

/** A key with a dead letter. */
async function newDeadLetter(owner: Team): Promise<{ id: string; deadLetter: string }> {
  const { key, partner } = await setScene({ organization: owner.organization, partner: 'connected' });
  await partner.ask(publishOf(partner.routingKey('device'), 'nonsense'));
  const answer = await vhostOf(key.id).listDeadLetters(null, 1);
  if ('refused' in answer) throw new Error(answer.refused);
  return { id: key.id, deadLetter: answer.deadLetters[0]?.id ?? '' };
}

async function startSupport(organizationId: string): Promise<string> {
  const path = `/platform/organizations/${organizationId}/support`;
  return (await operator.create<{ id: string }>(path, { reason: 'a test' })).id;
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
  return await seenOf(await callRoute(route, pathWith(route, ids), headers, bodyOf(route)));
}

/** A valid body, so that the answer depends on the id. */
function bodyOf(route: AnyRoute): object | undefined {
  return BODIES[nameOf(route)] ?? (route.examples?.body as object | undefined);
}

/** As `look`, with the organization's own ids in the path, and this id in a field of the query or the body. */
async function lookWith(
  route: AnyRoute,
  own: Things,
  [field, id]: [string, string],
  headers: Record<string, string>,
): Promise<Seen> {
  const url = new URL(pathWith(route, own), 'https://sitewire.example');
  if (field in route.query.shape) {
    url.searchParams.set(field, id);
    return await seenOf(await callRoute(route, url.pathname + url.search, headers));
  }
  const others = Object.entries(bodyOf(route) ?? {}).filter(([name]) => !(name in FIELDS));
  const needed = NEEDED[nameOf(route)];
  if (needed) others.push([needed, own[FIELDS[needed] ?? '']]);
  const body = { ...Object.fromEntries(others), [field]: field.endsWith('s') ? [id] : id };
  return await seenOf(await callRoute(route, url.pathname, headers, body));
}

async function seenOf(response: Response): Promise<Seen> {
  const headers = [...response.headers].filter(([name]) => !OWN_HEADERS.includes(name));
  // A stream does not end.
  const isStream = response.headers.get('content-type') === EVENT_STREAM;
  if (isStream) await response.body?.cancel();
  return { status: response.status, text: isStream ? '' : await response.text(), headers };
}

/**
 * For each id in the path: that id foreign, and that id absent; all other ids are the organization's own. Then all of
 * them foreign, and all absent.
 */
function stepsOf(route: AnyRoute, own: Things, from: Things) {
  const nouns = nounsOf(route);
  const steps = nouns.map((noun) => {
    const absent: Things = { ...own, [noun]: crypto.randomUUID() };
    const foreign: Things = { ...own, [noun]: from[noun] ?? '' };
    return { noun, foreign, absent };
  });
  if (nouns.length === 1) return steps;
  const none = Object.fromEntries(nouns.map((noun) => [noun, crypto.randomUUID()]));
  return [...steps, { noun: 'all', foreign: from, absent: { ...own, ...none } }];
}

/** The fields of a route's query and body that are called like an id. */
function idFieldsOf({ query, body }: AnyRoute): string[] {
  const schema = body ? JSON.stringify(z.toJSONSchema(body, { io: 'input', unrepresentable: 'any' })) : '';
  const ofBody = [...schema.matchAll(/"(\w+)":\{/g)].map(([, name = '']) => name);
  const names = [...Object.keys(query.shape), ...ofBody];
  return [...new Set(names.filter((name) => /Ids?$|^ean/.test(name)))];
}

/** The answer of a door or of an absent thing: not a limit, which would hide the difference between two ids. */
function expectRefused(caller: string, { status, text }: Seen): void {
  const isWithoutContext = status === 400 && text.includes('"ORG_CONTEXT_REQUIRED"');
  if (!isWithoutContext) expect([caller, status]).toEqual([caller, expect.toBeOneOf([401, 403, 404])]);
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
  const names = ['plants', 'devices', 'memberships', 'invitations', 'alerts', 'alert_rules', 'webhooks'];
  const tables = names.map((table) => `SELECT * FROM ${table} WHERE organization_id = ?`);
  // Callers log in where the route could end their session.
  const audit = `SELECT * FROM audit_events WHERE organization_id = ? AND event <> 'user.logged_in'`;
  const keys =
    'SELECT id, revoked_at_ms, updated_at_ms, bundle_acknowledged_at_ms FROM api_keys WHERE organization_id = ?';
  const all = [...tables, audit, ofPlants, keys, 'SELECT * FROM organizations WHERE id = ?'];
  const results = await env.DB.batch(all.map((sql) => env.DB.prepare(sql).bind(id)));
  return results.map((result) => result.results);
}

/** Whether the route accepts this caller's credentials: then only the id refuses the request. */
function accepts({ who }: AnyRoute, caller: string): boolean {
  if (who.door === 'public') return true;
  if (caller === 'a key with the scope') return 'scope' in who && who.scope !== undefined;
  return caller === 'an ORG_ADMIN' && who.door !== 'api-key';
}

// The receivers of webhooks.
beforeEach(() => {
  vi.spyOn(globalThis, 'fetch').mockImplementation(async () => new Response('thanks'));
});

const named = (routes: readonly AnyRoute[]) => routes.map((route) => [nameOf(route), route] as const);

it('this suite creates a foreign thing of each kind whose id is in the path of a route [C-1.3]', ({
  own,
}) => {
  const nouns = new Set(WITH_IDS.flatMap(nounsOf));
  expect([...nouns].filter((noun) => !own[noun])).toEqual([]);
  expect(nouns.size).toBeGreaterThan(5);
});

it('FIELDS and CHOSEN list every field of a query or a body that is named like an id [C-1.3]', () => {
  const fields = new Set(ROUTES.flatMap(idFieldsOf));
  expect([...fields].sort()).toEqual([...Object.keys(FIELDS), ...CHOSEN].sort());
});

describe(`${WITH_IDS.length} routes with an id`, () => {
  it.for(named(WITH_IDS))(
    '%s answers a foreign id like an absent one, for each kind of caller [C-1.3]',
    async ([_name, route], { other, outsiders, own, theirs }) => {
      const before = await rowsOf(other);
      await outsiders.each(route, async (caller, headers) => {
        for (const { noun, absent, foreign } of stepsOf(route, own, theirs)) {
          const expected = await look(route, absent, headers);
          expectRefused(caller, expected);
          if (accepts(route, caller)) expectAbsent(route, expected);
          const seen = await look(route, foreign, headers);
          expect({ caller, noun, ...seen }).toEqual({ caller, noun, ...expected });
        }
      });
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

describe('a field with an id', () => {
  const withFields = ROUTES.flatMap((route) => {
    const fields = idFieldsOf(route).filter((field) => field in FIELDS);
    return fields.map((field) => [nameOf(route), field, route] as const);
  });

  it.for(withFields)(
    '%s answers a foreign %s like an absent one, for each kind of caller [C-1.3]',
    async ([_name, field, route], { other, outsiders, own, theirs }) => {
      const before = await rowsOf(other);
      const noun = FIELDS[field] ?? '';
      await outsiders.each(route, async (caller, headers) => {
        const absentId = noun === 'ean' ? randomEan() : crypto.randomUUID();
        const absent = await lookWith(route, own, [field, absentId], headers);
        const seen = await lookWith(route, own, [field, theirs[noun] ?? ''], headers);
        expect({ caller, ...seen }).toEqual({ caller, ...absent });
        // Only a filter accepts the id, and finds nothing.
        if (route.method !== 'GET') expect([caller, seen.status < 400]).toEqual([caller, false]);
        // A key is a partner's own: it names no other one.
        if (!accepts(route, caller) || (field === 'keyId' && 'x-api-key' in headers)) return;
        const answer = await lookWith(route, own, [field, own[noun] ?? ''], headers);
        expect({ caller, ...answer }).not.toEqual({ caller, ...absent });
      });
      expect(await rowsOf(other)).toEqual(before);
    },
  );
});

describe('the organization of a request', () => {
  it.for(named(ROUTES.filter(({ who }) => who.door === 'member')))(
    '%s answers a foreign x-org-id like an absent one, for each kind of caller [C-1.3]',
    async ([_name, route], { other, outsiders, own }) => {
      await outsiders.each(route, async (caller, headers) => {
        const absent = await look(route, own, { ...headers, 'x-org-id': crypto.randomUUID() });
        expectRefused(caller, absent);
        const isAccepted = accepts(route, caller);
        if (isAccepted) expect(absent.text).toContain('"code":"ORG_MEMBERSHIP_REQUIRED"');
        const spellings = isAccepted ? [other.id.toUpperCase(), other.slug, 'x'] : [];
        for (const id of [other.id, ...spellings]) {
          const seen = await look(route, own, { ...headers, 'x-org-id': id });
          expect({ caller, id, ...seen }).toEqual({ caller, id, ...absent });
        }
      });
    },
  );

  it('no list shows anything of another organization [C-1.3]', async ({ team, other, own, theirs }) => {
    const lists = ROUTES.filter((route) => route.method === 'GET' && nounsOf(route).length === 0);
    const secrets = [...Object.values(theirs), other.slug, other.orgAdmin.id, other.orgAdmin.email];
    for (const route of lists.filter(({ who }) => who.door !== 'public')) {
      for (const headers of await entrancesOf(team, route)) {
        const ids = 'x-api-key' in headers ? { ...own, 'api-keys': '' } : own;
        const { status, text } = await look(route, ids, headers);
        const leaked = secrets.filter((secret) => text.includes(secret));
        expect([nameOf(route), status, leaked]).toEqual([nameOf(route), 200, []]);
      }
    }
  });
});
