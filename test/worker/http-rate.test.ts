/** Request limits: so many a minute for each key and each user, told in RateLimit-* headers [C-4.7]. */
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Role } from '../../protocol/roles.ts';
import { addMember } from '../../worker/registry/organizations.ts';
import { auditOf } from '../support/workerd/commits.ts';
import { call, PASSWORD, Person } from '../support/workerd/people.ts';
import { changeRegistry, changeSettings } from '../support/workerd/registry-changes.ts';
import { expectError, restRequest, send, settle } from '../support/workerd/rest.ts';
import { createKey, createOrganization, type Organization } from '../support/workerd/world.ts';

const SITES = '/api/v1/vcp/sites';
const LEAST = 10;
const DEFAULT = 600;

let organization: Organization;
let now: number;

beforeEach(async () => {
  organization = await createOrganization({ restRatePerMinute: LEAST });
  now = Date.now();
  vi.useFakeTimers({ toFake: ['Date'] });
  vi.setSystemTime(now);
});

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

async function join(person: Person, to: Organization, role: Role = 'ADMIN'): Promise<Person> {
  const audit = auditOf(to, 'member.added', 'USER')(person.id);
  await addMember(env.DB, to.id, { userId: person.id, role }, audit, Date.now());
  return person;
}

function told({ headers }: Response): (string | null)[] {
  return ['limit', 'remaining', 'reset'].map((name) => headers.get(`ratelimit-${name}`));
}

/** So many requests one after the other; their statuses. */
async function statusesOf(times: number, request: () => Promise<Response>): Promise<number[]> {
  const statuses = [];
  for (let time = 0; time < times; time++) statuses.push((await request()).status);
  return statuses;
}

const all = (times: number, status: number) => Array.from({ length: times }, () => status);

describe('the requests of an API key', () => {
  it('are so many a minute as its organization set, counted down in the headers [C-4.7] [C-1.1]', async () => {
    const { key } = await createKey(organization);
    for (let left = LEAST - 1; left >= 0; left--) {
      const response = await send(SITES, { key });
      expect([response.status, ...told(response)]).toEqual([200, '10', String(left), '60']);
    }
    vi.setSystemTime(now + 17_500);
    const response = await send(SITES, { key });
    expect([...told(response), response.headers.get('retry-after')]).toEqual(['10', '0', '43', '43']);
    await expectError(response, 429, 'TOO_MANY_REQUESTS');
  });

  it('are free again after the minute, and not before [C-4.7]', async () => {
    const { key } = await createKey(organization);
    const request = () => send(SITES, { key });
    expect(await statusesOf(LEAST + 1, request)).toEqual([...all(LEAST, 200), 429]);
    vi.setSystemTime(now + 59_999);
    const last = await request();
    expect([last.status, last.headers.get('retry-after')]).toEqual([429, '1']);
    vi.setSystemTime(now + 60_000);
    expect(told(await request())).toEqual(['10', '9', '60']);
    expect(await statusesOf(LEAST, request)).toEqual([...all(LEAST - 1, 200), 429]);
  });

  it('are counted apart from those of any other key [C-4.7]', async () => {
    const [one, other] = [await createKey(organization), await createKey(organization)];
    await statusesOf(LEAST + 1, () => send(SITES, { key: one.key }));
    const response = await send(SITES, { key: other.key });
    expect([response.status, ...told(response)]).toEqual([200, '10', '9', '60']);
    await expectError(await send(SITES, { key: one.key }), 429, 'TOO_MANY_REQUESTS');
  });

  it('are 600 where nothing is set [C-4.7]', async () => {
    const { key } = await createKey(await createOrganization());
    expect(told(await send(SITES, { key }))).toEqual([String(DEFAULT), String(DEFAULT - 1), '60']);
  });

  it('follow the setting from the next request on [C-1.1]', async () => {
    const { key } = await createKey(organization);
    await statusesOf(LEAST + 1, () => send(SITES, { key }));
    await changeRegistry(organization, changeSettings({ restRatePerMinute: 12 }));
    expect(told(await send(SITES, { key }))).toEqual(['12', '1', '60']);
  });

  it('at once are held to the same number [C-4.7]', async () => {
    const { key } = await createKey(organization);
    const answers = await Promise.all(Array.from({ length: 3 * LEAST }, () => send(SITES, { key })));
    expect(answers.map(({ status }) => status).sort()).toEqual([...all(LEAST, 200), ...all(2 * LEAST, 429)]);
  });

  it('count when they are refused for something else, too [C-4.7]', async () => {
    const weak = await createKey(organization, { scopes: ['plants:read'] });
    const refused = await send(SITES, { key: weak.key });
    expect([refused.status, ...told(refused)]).toEqual([403, '10', '9', '60']);
    for (const path of [
      `${SITES}/x/config`,
      `${SITES}/${crypto.randomUUID()}/config`,
      '/api/v1/vcp/unknown',
    ]) {
      await send(path, { key: weak.key });
    }
    expect(told(await send(SITES, { method: 'DELETE', key: weak.key }))[1]).toBe('5');
  });

  it('of nobody count for nobody: an unknown key is told no count [C-4.7]', async () => {
    const response = await send(SITES, { key: 'x' });
    expect([response.status, ...told(response)]).toEqual([401, null, null, null]);
  });
});

describe('the requests of a user', () => {
  it('in an organization are as many as it set, by cookie and bearer together [C-4.7] [C-1.1]', async () => {
    const person = await join(await Person.register(), organization);
    expect(told(await person.call('/users'))).toEqual(['10', '9', '60']);
    expect(told(await person.callWithCookie('/users'))).toEqual(['10', '8', '60']);
    const elsewhere = await Person.logIn(person.email);
    expect(told(await elsewhere.call('/users'))).toEqual(['10', '7', '60']);
    expect(await statusesOf(LEAST - 2, () => person.call('/users'))).toEqual([...all(LEAST - 3, 200), 429]);
    const response = await elsewhere.call('/users');
    expect(response.headers.get('retry-after')).toBe('60');
    await expectError(response, 429, 'TOO_MANY_REQUESTS');
    vi.setSystemTime(now + 60_000);
    expect((await person.call('/users')).status).toBe(200);
  });

  it('are the same number where the path names the organization [C-4.7] [C-1.1]', async () => {
    const person = await join(await Person.register(), organization);
    const request = () => person.call(`/organizations/${organization.id}`);
    expect(told(await request())).toEqual(['10', '9', '60']);
    expect(await statusesOf(LEAST, request)).toEqual([...all(LEAST - 1, 200), 429]);
  });

  it('are 600 where they are about no organization [C-4.7]', async () => {
    const person = await Person.register();
    for (const path of ['/auth/me', '/organizations']) {
      expect(told(await person.call(path))[0]).toBe(String(DEFAULT));
    }
  });

  it('are counted apart from those of any other user, and of any key [C-4.7]', async () => {
    const person = await join(await Person.register(), organization);
    const other = await join(await Person.register(), organization);
    const { key } = await createKey(organization);
    await statusesOf(LEAST + 1, () => person.call('/users'));
    expect(told(await other.call('/users'))[1]).toBe('9');
    expect(told(await send(SITES, { key }))[1]).toBe('9');
  });

  it('count when they are refused for something else, too [C-4.7]', async () => {
    const person = await join(await Person.register(), organization, 'VIEWER');
    const refused = await person.call('/users');
    expect([refused.status, ...told(refused)]).toEqual([403, '10', '9', '60']);
    await person.call('/users?page=0');
    expect(told(await person.call('/users'))[1]).toBe('7');
  });

  it('count as about none when they name an organization that is not theirs, or none of several [C-4.7]', async () => {
    const person = await join(await Person.register(), organization);
    for (const org of [crypto.randomUUID(), 'x']) await person.call('/users', { org });
    await person.call(`/organizations/${crypto.randomUUID()}`);
    expect(told(await person.call('/auth/me'))[1]).toBe('596');
    await join(person, await createOrganization());
    await person.call('/users');
    expect(told(await person.call('/auth/me'))[1]).toBe('594');
    expect(told(await person.call('/users', { org: organization.id }))[1]).toBe('9');
  });

  it('of nobody count for nobody [C-4.7]', async () => {
    const response = await call('/users', { headers: { authorization: 'Bearer x' } });
    expect([response.status, ...told(response)]).toEqual([401, null, null, null]);
  });
});

describe('a count that is away', () => {
  it('stops nobody: the request is answered, without the headers [C-4.7]', async () => {
    const warn = vi.spyOn(console, 'warn').mockReturnValue();
    const { key } = await createKey(organization);
    const stub = { take: async () => Promise.reject(new Error('away')) };
    const REQUESTS = { idFromName: () => ({}), get: () => stub } as unknown as typeof env.REQUESTS;
    for (let time = 0; time <= LEAST; time++) {
      const response = await settle(restRequest(SITES, { key }), { REQUESTS });
      expect([response.status, ...told(response)]).toEqual([200, null, null, null]);
    }
    expect(warn).toHaveBeenCalledTimes(LEAST + 1);
  });
});

describe('requests that nobody is logged in for', () => {
  const email = 'nobody@example.org';
  const address = '203.0.113.7';

  it.each([
    ['login', { email, password: PASSWORD }],
    ['register', { email, password: PASSWORD, name: 'x' }],
    ['refresh', { refreshToken: 'x' }],
  ])('to %s are shed by address, where the platform tells it [C-4.7]', async (path, own) => {
    const keys: string[] = [];
    const SHED = { limit: async ({ key }: { key: string }) => ({ success: keys.push(key) === 0 }) };
    const headers = { 'content-type': 'application/json', 'cf-connecting-ip': address };
    const init = { method: 'POST', body: JSON.stringify(own), headers };
    const response = await settle(restRequest(`/api/v1/auth/${path}`, init), { SHED });
    expect(response.headers.get('retry-after')).toBe('60');
    await expectError(response, 429, 'TOO_MANY_REQUESTS');
    expect(keys).toEqual([address]);
    const elsewhere = { SHED, CLIENT_ADDRESS: 'socket' };
    expect((await settle(restRequest(`/api/v1/auth/${path}`, init), elsewhere)).status).not.toBe(429);
    expect(keys).toEqual([address]);
  });
});
