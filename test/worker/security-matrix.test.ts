/**
 * Every route of the Worker for everyone who may come: its door lets in, or answers exactly what the table here says
 * of its kind [C-1.2], [C-1.3], [C-2.6]. Generated from ROUTES: a new route is in it by itself.
 */
import { env } from 'cloudflare:workers';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { LINK_PATHS, READY_PATH } from '../../protocol/link/proof.ts';
import { app, ROUTES } from '../../worker/app.ts';
import type { Who } from '../../worker/auth/door.ts';
import { METRICS_PATH } from '../../worker/metrics/metrics.ts';
import { type AnyRoute, errorsOf } from '../../worker/route.ts';
import { CALLERS, type Caller, Callers } from '../support/workerd/callers.ts';
import { callRoute, nameOf, nounsOf, pathWith } from '../support/workerd/routes.ts';

/** `in`: let in. `elsewhere`: let in, to an organization of its own, where nothing of ours is. */
type Answer = 'in' | 'elsewhere' | `${400 | 401 | 403 | 404} ${string}`;
type Rule = Answer | ((who: Asked) => Answer);
/** What a door asks for, where it asks. */
interface Asked {
  door: string;
  role?: string;
  scope?: string;
  isHeaderNeeded?: boolean;
}

const UNAUTHORIZED = '401 UNAUTHORIZED';
const RANKS = ['VIEWER', 'OPERATOR', 'ADMIN', 'ORG_ADMIN'];

const from =
  (rank: string): Rule =>
  ({ role = '' }) =>
    RANKS.indexOf(rank) >= RANKS.indexOf(role) ? 'in' : '403 INSUFFICIENT_ORG_PERMISSIONS';
/** Routes without a scope know no keys. */
const byKey =
  (answer: Answer): Rule =>
  ({ scope }) =>
    scope ? answer : UNAUTHORIZED;
const named =
  (answer: Answer): Rule =>
  ({ isHeaderNeeded }) =>
    isHeaderNeeded ? '400 ORG_CONTEXT_REQUIRED' : answer;

function everybody(answer: Answer): Record<Caller, Rule> {
  return Object.fromEntries(CALLERS.map((caller) => [caller, answer])) as Record<Caller, Rule>;
}

const MEMBERS = {
  'a VIEWER': from('VIEWER'),
  'an OPERATOR': from('OPERATOR'),
  'an ADMIN': from('ADMIN'),
  'an ORG_ADMIN': 'in',
  'an ORG_ADMIN by cookie': 'in',
} as const;
const NO_KEYS = {
  nobody: UNAUTHORIZED,
  'a wrong session': UNAUTHORIZED,
  'a wrong key': UNAUTHORIZED,
  'a key with the scope': UNAUTHORIZED,
  'a key with every scope but that': UNAUTHORIZED,
  'a key with the scope and a foreign x-org-id': UNAUTHORIZED,
  'a foreign key with the scope': UNAUTHORIZED,
} as const;

/** What each door answers to each caller. */
const DOORS: Record<Who['door'], Record<Caller, Rule>> = {
  public: everybody('in'),
  'api-key': {
    ...everybody(UNAUTHORIZED),
    'a key with the scope': 'in',
    'a key with every scope but that': '403 FORBIDDEN',
    // The only 403 that the spec declares for it.
    // The key says whose it is: there is no org context here.
    'a key with the scope and a foreign x-org-id': 'in',
    'a foreign key with the scope': 'elsewhere',
  },
  user: { ...everybody('in'), ...NO_KEYS },
  organization: {
    ...everybody('404 ORGANIZATION_NOT_FOUND'),
    ...NO_KEYS,
    ...MEMBERS,
    'an ORG_ADMIN without x-org-id': 'in',
    'an ORG_ADMIN with a wrong key beside': 'in',
  },
  member: {
    ...everybody(UNAUTHORIZED),
    ...MEMBERS,
    'an ORG_ADMIN without x-org-id': named('in'),
    'an ORG_ADMIN with a wrong key beside': ({ scope }) => (scope ? UNAUTHORIZED : 'in'),
    'a stranger without x-org-id': named('elsewhere'),
    'a stranger with their own x-org-id': 'elsewhere',
    'a stranger with this x-org-id': '403 ORG_MEMBERSHIP_REQUIRED',
    'a member of nothing': named('403 ORG_MEMBERSHIP_REQUIRED'),
    'a key with the scope': byKey('in'),
    'a key with every scope but that': byKey('403 FORBIDDEN'),
    'a key with the scope and a foreign x-org-id': byKey('403 ORG_MEMBERSHIP_REQUIRED'),
    'a foreign key with the scope': byKey('elsewhere'),
  },
};
const DOOR_CODES = ['ORGANIZATION_NOT_FOUND', 'ORG_CONTEXT_REQUIRED'];

let callers: Callers;

beforeAll(async () => {
  callers = await Callers.create();
});

beforeEach(() => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});

/** A path to things of the team that nobody has touched yet. */
async function freshPath(route: AnyRoute): Promise<string> {
  const [plants, subDevice, device] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
  await env.DB.batch([
    env.DB.prepare('INSERT INTO plants (id, organization_id, name, created_at_ms) VALUES (?, ?, ?, 1)').bind(
      plants,
      callers.team.id,
      'Plant',
    ),
    env.DB.prepare(
      `INSERT INTO sub_devices (id, plant_id, external_id, asset_type, name, created_at_ms) VALUES (?, ?, 'A', 'FVE', 'A', 1)`,
    ).bind(subDevice, plants),
    env.DB.prepare(
      `INSERT INTO devices (id, organization_id, plant_id, name, serial_number, type, auth_method, created_at_ms)
       VALUES (?, ?, ?, 'Device', ?, 'GATEWAY', 'TOKEN', 1)`,
    ).bind(device, callers.team.id, plants, device),
    env.DB.prepare('UPDATE organizations SET device_count = device_count + 1 WHERE id = ?').bind(
      callers.team.id,
    ),
  ]);
  const { id: organizations } = callers.team;
  return pathWith(route, { organizations, plants, sites: plants, 'sub-devices': subDevice, devices: device });
}

/** What an answer says of the door. */
async function answerOf(route: AnyRoute, caller: Caller): Promise<string> {
  const response = await callRoute(route, await freshPath(route), await callers.headersOf(caller, route));
  const { code = '' } = (await response.json()) as { code?: string };
  const isRefused = [401, 403].includes(response.status) || DOOR_CODES.includes(code);
  if (isRefused) return `${response.status} ${code}`;
  if (![200, 201, 400, 404, 409].includes(response.status)) return `${response.status} out of the blue`;
  const isForeign = caller.startsWith('a stranger') || caller.startsWith('a foreign');
  if (!isForeign || !['member', 'api-key'].includes(route.who.door)) return 'in';
  return response.ok && nounsOf(route).length > 0 ? 'in, and shown what is not theirs' : 'elsewhere';
}

function expectedOf({ who }: AnyRoute): Record<Caller, Answer> {
  const rules = Object.entries(DOORS[who.door]).map(([caller, rule]) => [
    caller,
    typeof rule === 'function' ? rule(who) : rule,
  ]);
  return Object.fromEntries(rules) as Record<Caller, Answer>;
}

describe(`${ROUTES.length} routes and ${CALLERS.length} callers: ${ROUTES.length * CALLERS.length} cases`, () => {
  it.each(ROUTES.map((route) => [nameOf(route), route] as const))(
    '%s lets in who may, and nobody else [C-1.3]',
    async (_name, route) => {
      const answers: Record<string, string> = {};
      for (const caller of CALLERS) answers[caller] = await answerOf(route, caller);
      expect(answers).toEqual(expectedOf(route));
    },
  );
});

describe('no route is forgotten', () => {
  it('each has a door of the table, and each door stands for somebody [C-1.3]', () => {
    const doors = new Set(ROUTES.map(({ who }) => who.door));
    expect([...doors].sort()).toEqual(Object.keys(DOORS).sort());
    expect(new Set(ROUTES.map(nameOf)).size).toBe(ROUTES.length);
  });

  it('the app has no path beside the list, but for the bridges’ and the scraper’s (style: HTTP)', () => {
    const mounted = app.routes
      .filter(({ method }) => method !== 'ALL')
      .map(({ method, path }) => `${method} ${path}`);
    const listed = ROUTES.map((route) => nameOf(route).replace(/\{(\w+)\}/g, ':$1'));
    const others = [...Object.values(LINK_PATHS), READY_PATH, METRICS_PATH].map((path) => `GET ${path}`);
    expect([...new Set(mounted)].sort()).toEqual([...listed, ...others].sort());
  });

  it('each says in the document what its door answers [C-10]', () => {
    const missing = ROUTES.flatMap((route) => {
      const codes = new Set<string>(errorsOf(route));
      const answers = Object.values(expectedOf(route)).filter((answer) => /^\d/.test(answer));
      return [...new Set(answers.filter((answer) => !codes.has(answer.slice(4))))].map(
        (answer) => `${nameOf(route)}: ${answer}`,
      );
    });
    expect(missing).toEqual([]);
  });

  it('each asks who it is before it answers HEAD, or 405 to another method [C-10]', async () => {
    for (const route of ROUTES) {
      const path = await freshPath(route);
      const { status } = await callRoute({ method: 'PURGE' }, path, {});
      expect([nameOf(route), status]).toEqual([nameOf(route), route.who.door === 'public' ? 405 : 401]);
      if (route.method !== 'GET') continue;
      const head = await callRoute({ method: 'HEAD' }, path, {});
      expect([nameOf(route), head.status]).toEqual([nameOf(route), route.who.door === 'public' ? 200 : 401]);
    }
  });
});
