/**
 * Every route of the Worker for every kind of caller: its door lets the caller in, or answers as the table here says
 * [C-1.2], [C-1.3], [C-2.6]. The cases come from ROUTES.
 */
import { env } from 'cloudflare:workers';
import { beforeEach, vi } from 'vitest';
import { CALLERS, type Caller, type Callers } from '#workerd/callers.ts';
import { callRoute, nameOf, nounsOf, pathWith } from '#workerd/routes.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, it } from '#workerd/worker-test.ts';
import { EVENT_STREAM } from '../../protocol/event-journal.ts';
import { EXPORT_TYPE } from '../../protocol/export.ts';
import { LINK_PATHS, READY_PATH } from '../../protocol/link/proof.ts';
import { app, ROUTES } from '../../worker/app.ts';
import type { Who } from '../../worker/auth/door.ts';
import { CONSOLE_FILES } from '../../worker/http/console-page.ts';
import { METRICS_PATH } from '../../worker/metrics/metrics.ts';
import { type AnyRoute, errorsOf } from '../../worker/route.ts';

/** `in`: let in. `elsewhere`: let in to the caller's own organization, which has nothing of the team's. */
type Answer = 'in' | 'elsewhere' | `${400 | 401 | 403 | 404} ${string}`;
type Rule = Answer | ((who: Asked) => Answer);
/** What a door asks for. */
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
/** Routes without a scope accept no keys. */
const byKey =
  (answer: Answer): Rule =>
  ({ scope }) =>
    scope ? answer : UNAUTHORIZED;
const named =
  (answer: Answer): Rule =>
  ({ isHeaderNeeded }) =>
    isHeaderNeeded ? '400 ORG_CONTEXT_REQUIRED' : answer;

function everyCaller(answer: Answer): Record<Caller, Rule> {
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
  'no credential': UNAUTHORIZED,
  'a wrong session': UNAUTHORIZED,
  'a wrong key': UNAUTHORIZED,
  'a key with the scope': UNAUTHORIZED,
  'a key with every scope but that': UNAUTHORIZED,
  'a key with the scope and a foreign x-org-id': UNAUTHORIZED,
  'a foreign key with the scope': UNAUTHORIZED,
} as const;

/** The answer of each door to each caller. */
const DOORS: Record<Who['door'], Record<Caller, Rule>> = {
  public: everyCaller('in'),
  'api-key': {
    ...everyCaller(UNAUTHORIZED),
    'a key with the scope': 'in',
    // The only 403 that the spec declares for this door.
    'a key with every scope but that': '403 FORBIDDEN',
    // The key names its organization: there is no org context here.
    'a key with the scope and a foreign x-org-id': 'in',
    'a foreign key with the scope': 'elsewhere',
  },
  account: { ...everyCaller('in'), ...NO_KEYS },
  user: { ...everyCaller('in'), ...NO_KEYS, 'an unproved ORG_ADMIN': '403 FORBIDDEN' },
  operator: { ...everyCaller('403 SUPER_ADMIN_REQUIRED'), ...NO_KEYS },
  organization: {
    ...everyCaller('404 ORGANIZATION_NOT_FOUND'),
    ...NO_KEYS,
    ...MEMBERS,
    'an unproved ORG_ADMIN': '403 FORBIDDEN',
    'an ORG_ADMIN without x-org-id': 'in',
    'an ORG_ADMIN with a wrong key, too': 'in',
  },
  member: {
    ...everyCaller(UNAUTHORIZED),
    ...MEMBERS,
    'an ORG_ADMIN without x-org-id': named('in'),
    'an ORG_ADMIN with a wrong key, too': ({ scope }) => (scope ? UNAUTHORIZED : 'in'),
    'a stranger without x-org-id': named('elsewhere'),
    'a stranger with their own x-org-id': 'elsewhere',
    'a stranger with this x-org-id': '403 ORG_MEMBERSHIP_REQUIRED',
    'an unproved ORG_ADMIN': '403 FORBIDDEN',
    'a member of nothing': named('403 ORG_MEMBERSHIP_REQUIRED'),
    'a key with the scope': byKey('in'),
    'a key with every scope but that': byKey('403 FORBIDDEN'),
    'a key with the scope and a foreign x-org-id': byKey('403 ORG_MEMBERSHIP_REQUIRED'),
    'a foreign key with the scope': byKey('elsewhere'),
  },
  // The handler checks the scopes of a key.
  'key-or-member': {
    ...everyCaller(UNAUTHORIZED),
    ...MEMBERS,
    'an ORG_ADMIN without x-org-id': 'in',
    'a stranger without x-org-id': 'elsewhere',
    'a stranger with their own x-org-id': 'elsewhere',
    'a stranger with this x-org-id': '403 ORG_MEMBERSHIP_REQUIRED',
    'an unproved ORG_ADMIN': '403 FORBIDDEN',
    'a member of nothing': '403 ORG_MEMBERSHIP_REQUIRED',
    'a key with the scope': 'in',
    'a key with every scope but that': 'in',
    'a key with the scope and a foreign x-org-id': '403 ORG_MEMBERSHIP_REQUIRED',
    'a foreign key with the scope': 'elsewhere',
  },
};
const DOOR_CODES = ['ORGANIZATION_NOT_FOUND', 'ORG_CONTEXT_REQUIRED'];

beforeEach(() => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});

/** A path to new things of the team. */
async function freshPath(route: AnyRoute, { id: organization }: Team): Promise<string> {
  const [plants, subDevice, device] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
  const write = (sql: string, ...values: string[]) => env.DB.prepare(sql).bind(...values);
  await env.DB.batch([
    write(
      `INSERT INTO plants (id, organization_id, name, created_at_ms) VALUES (?, ?, 'Plant', 1)`,
      plants,
      organization,
    ),
    write(
      `INSERT INTO sub_devices (id, plant_id, external_id, asset_type, name, created_at_ms) VALUES (?, ?, 'A', 'FVE', 'A', 1)`,
      subDevice,
      plants,
    ),
    write(
      `INSERT INTO devices (id, organization_id, plant_id, name, serial_number, type, auth_method, created_at_ms)
       VALUES (?1, ?2, ?3, 'Device', ?1, 'GATEWAY', 'TOKEN', 1)`,
      device,
      organization,
      plants,
    ),
    write('UPDATE organizations SET device_count = device_count + 1 WHERE id = ?', organization),
  ]);
  const things = { plants, sites: plants, 'sub-devices': subDevice, devices: device };
  return pathWith(route, { organizations: organization, ...things });
}

/** Routes that mail a token. */
const NEEDS_MAIL = /password-reset$|email-change$|resend$/;

/** The route that ends all other sessions comes last: the callers' own sessions are among them. */
function endersLast(a: AnyRoute, b: AnyRoute): number {
  const ends = (route: AnyRoute) => (nameOf(route) === 'DELETE /api/v1/auth/sessions' ? 1 : 0);
  return ends(a) - ends(b);
}

/** The refusal of the door as status and code, or `in` if the door let the caller in. */
async function answerOf(route: AnyRoute, caller: Caller, callers: Callers): Promise<string> {
  const path = await freshPath(route, callers.team);
  const response = await callRoute(route, path, await callers.headersOf(caller, route));
  // A stream does not end, and an export is many JSON values.
  const isStream = [EVENT_STREAM, EXPORT_TYPE].includes(response.headers.get('content-type') ?? '');
  const { code = '' } = isStream ? {} : ((await response.json()) as { code?: string });
  if (isStream) await response.body?.cancel();
  const isRefused = [401, 403].includes(response.status) || DOOR_CODES.includes(code);
  if (isRefused) return `${response.status} ${code}`;
  // This environment sends no mail.
  if (response.status === 503 && NEEDS_MAIL.test(route.path)) return 'in';
  if (![200, 201, 202, 400, 404, 409].includes(response.status)) return `${response.status} out of the blue`;
  const isForeign = caller.startsWith('a stranger') || caller.startsWith('a foreign');
  if (!isForeign || !['member', 'key-or-member', 'api-key'].includes(route.who.door)) return 'in';
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
  it.for([...ROUTES].sort(endersLast).map((route) => [nameOf(route), route] as const))(
    '%s lets in the permitted callers and no others [C-1.3]',
    async ([_name, route], { callers }) => {
      const answers: Record<string, string> = {};
      for (const caller of CALLERS) answers[caller] = await answerOf(route, caller, callers);
      expect(answers).toEqual(expectedOf(route));
    },
  );
});

describe('the list of routes', () => {
  it('the DOORS table of this suite has the door of each route, and no door without a route [C-1.3]', () => {
    const doors = new Set(ROUTES.map(({ who }) => who.door));
    expect([...doors].sort()).toEqual(Object.keys(DOORS).sort());
    expect(new Set(ROUTES.map(nameOf)).size).toBe(ROUTES.length);
  });

  it('the app has exactly the routes in ROUTES, the paths of bridges and the path of metrics (style: HTTP)', () => {
    const mounted = app.routes
      .filter(({ method }) => method !== 'ALL')
      .map(({ method, path }) => `${method} ${path}`);
    const listed = ROUTES.map((route) => nameOf(route).replace(/\{(\w+)\}/g, ':$1'));
    const others = [...Object.values(LINK_PATHS), READY_PATH, CONSOLE_FILES, METRICS_PATH].map(
      (path) => `GET ${path}`,
    );
    expect([...new Set(mounted)].sort()).toEqual([...listed, ...others].sort());
  });

  it('each route documents every error with which its door refuses a caller [C-10]', () => {
    const missing = ROUTES.flatMap((route) => {
      const codes = new Set<string>(errorsOf(route));
      const answers = Object.values(expectedOf(route)).filter((answer) => /^\d/.test(answer));
      return [...new Set(answers.filter((answer) => !codes.has(answer.slice(4))))].map(
        (answer) => `${nameOf(route)}: ${answer}`,
      );
    });
    expect(missing).toEqual([]);
  });

  it('a wrong method, or HEAD, gets 401 without a credential on each route that is not public [C-10]', async ({
    team,
  }) => {
    for (const route of ROUTES) {
      const path = await freshPath(route, team);
      const { status } = await callRoute({ method: 'PURGE' }, path, {});
      expect([nameOf(route), status]).toEqual([nameOf(route), route.who.door === 'public' ? 405 : 401]);
      if (route.method !== 'GET') continue;
      const head = await callRoute({ method: 'HEAD' }, path, {});
      expect([nameOf(route), head.status]).toEqual([nameOf(route), route.who.door === 'public' ? 200 : 401]);
    }
  });
});
