/** Requests are limited per minute for each key and each user; RateLimit-* headers show the count [C-4.7]. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { anonymous } from '#workerd/client.ts';
import { joinOrganization, Person } from '#workerd/people.ts';
import { changeRegistry, changeSettings } from '#workerd/registry-changes.ts';
import { restRequest, sendRequest, statusesOf } from '#workerd/rest.ts';
import { stopClock } from '#workerd/site-clock.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { createKey, createOrganization, type Organization } from '#workerd/world.ts';
import type { Role } from '../../protocol/enums.ts';

const SITES = '/vcp/sites';
const LEAST = 10;
const DEFAULT = 600;

/** An organization with the lowest limit, and a member of it; the clock is stopped. */
const it = test
  .extend('organization', () => createOrganization({ restRatePerMinute: LEAST }))
  .extend('member', ({ person, organization }) => join(person, organization))
  .extend('now', { auto: true }, () => stopClock());

async function join(person: Person, to: Organization, role: Role = 'ADMIN'): Promise<Person> {
  await joinOrganization(to.id, person, role);
  return person;
}

/** The rate headers of an answer: limit, remaining, reset. */
function rateOf({ headers }: Response): (string | null)[] {
  return ['limit', 'remaining', 'reset'].map((name) => headers.get(`ratelimit-${name}`));
}

const all = (times: number, status: number) => Array.from({ length: times }, () => status);

describe('the requests of an API key', () => {
  it('RateLimit-* headers count down from the organization’s limit; a request over it gets 429 [C-4.7] [C-1.1]', async ({
    key,
    now,
  }) => {
    for (let left = LEAST - 1; left >= 0; left--) {
      const response = await key.call(SITES);
      expect([response.status, ...rateOf(response)]).toEqual([200, '10', String(left), '60']);
    }
    vi.setSystemTime(now + 17_500);
    const response = await key.call(SITES);
    expect([...rateOf(response), response.headers.get('retry-after')]).toEqual(['10', '0', '43', '43']);
    await expectError(response, 429, 'TOO_MANY_REQUESTS');
  });

  it('a key over its limit gets 429 until the minute ends, and then has its whole limit again [C-4.7]', async ({
    key,
    now,
  }) => {
    const request = () => key.call(SITES);
    expect(await statusesOf(LEAST + 1, request)).toEqual([...all(LEAST, 200), 429]);
    vi.setSystemTime(now + 59_999);
    const last = await request();
    expect([last.status, last.headers.get('retry-after')]).toEqual([429, '1']);
    vi.setSystemTime(now + 60_000);
    expect(rateOf(await request())).toEqual(['10', '9', '60']);
    expect(await statusesOf(LEAST, request)).toEqual([...all(LEAST - 1, 200), 429]);
  });

  it('each key has its own count [C-4.7]', async ({ newKey, key }) => {
    const second = await newKey();
    await statusesOf(LEAST + 1, () => key.call(SITES));
    const response = await second.call(SITES);
    expect([response.status, ...rateOf(response)]).toEqual([200, '10', '9', '60']);
    await expectError(await key.call(SITES), 429, 'TOO_MANY_REQUESTS');
  });

  it('the limit is 600 where the organization sets none [C-4.7]', async () => {
    const key = await createKey(await createOrganization());
    expect(rateOf(await key.call(SITES))).toEqual([String(DEFAULT), String(DEFAULT - 1), '60']);
  });

  it('a changed limit applies two seconds after a 429 at the latest, and the requests before it still count [C-1.1]', async ({
    organization,
    key,
  }) => {
    await statusesOf(LEAST + 1, () => key.call(SITES));
    await changeRegistry(organization, changeSettings({ restRatePerMinute: 12 }));
    vi.setSystemTime(Date.now() + 2_000);
    expect(rateOf(await key.call(SITES))).toEqual(['12', '1', '58']);
  });

  it('those after a 429 are answered from memory for two seconds, then a key that ended meanwhile gets 401 [C-14.2]', async ({
    newKey,
    key,
  }) => {
    await statusesOf(LEAST + 1, () => key.call(SITES));
    await env.DB.prepare('UPDATE api_keys SET revoked_at_ms = ? WHERE id = ?').bind(Date.now(), key.id).run();
    const again = await key.call(SITES);
    expect(rateOf(again)).toEqual(['10', '0', '60']);
    expect(again.headers.get('retry-after')).toBe('60');
    await expectError(again, 429, 'TOO_MANY_REQUESTS');
    const other = await newKey();
    expect((await other.call(SITES)).status).toBe(200);
    vi.setSystemTime(Date.now() + 2_000);
    await expectError(await key.call(SITES), 401, 'UNAUTHORIZED');
  });

  it('those that open event streams are sixty a minute; the next ones are 429, from memory for two seconds [C-15.4]', async () => {
    const key = await createKey(await createOrganization());
    const open = () =>
      sendRequest(restRequest('/api/v1/vcp/events/stream', { method: 'HEAD', key: key.key }));
    expect(await statusesOf(61, open)).toEqual([...all(60, 200), 429]);
    await env.DB.prepare('UPDATE api_keys SET revoked_at_ms = ? WHERE id = ?').bind(Date.now(), key.id).run();
    const again = await open();
    expect([again.status, again.headers.get('retry-after')]).toEqual([429, '60']);
    await expectError(await key.call(SITES), 401, 'UNAUTHORIZED');
    vi.setSystemTime(Date.now() + 2_000);
    expect((await open()).status).toBe(401);
  });

  it('concurrent requests share the limit [C-4.7]', async ({ key }) => {
    const answers = await Promise.all(Array.from({ length: 3 * LEAST }, () => key.call(SITES)));
    expect(answers.map(({ status }) => status).sort()).toEqual([...all(LEAST, 200), ...all(2 * LEAST, 429)]);
  });

  it('requests that are refused for another reason also count [C-4.7]', async ({ newKey }) => {
    const weak = await newKey({ scopes: ['plants:read'] });
    const refused = await weak.call(SITES);
    expect([refused.status, ...rateOf(refused)]).toEqual([403, '10', '9', '60']);
    for (const path of [`${SITES}/x/config`, `${SITES}/${crypto.randomUUID()}/config`, '/vcp/unknown']) {
      await weak.call(path);
    }
    expect(rateOf(await weak.delete(SITES))[1]).toBe('5');
  });

  it('an answer to an unknown key has no RateLimit-* headers [C-4.7]', async () => {
    const response = await anonymous.call(SITES, { headers: { 'x-api-key': 'x' } });
    expect([response.status, ...rateOf(response)]).toEqual([401, null, null, null]);
  });
});

describe('the requests of a user', () => {
  it('requests by cookie, by bearer token and in a second session share the organization’s limit [C-4.7] [C-1.1]', async ({
    member,
    now,
  }) => {
    expect(rateOf(await member.call('/users'))).toEqual(['10', '9', '60']);
    expect(rateOf(await member.callWithCookie('/users'))).toEqual(['10', '8', '60']);
    const elsewhere = await member.newSession();
    expect(rateOf(await elsewhere.call('/users'))).toEqual(['10', '7', '60']);
    expect(await statusesOf(LEAST - 2, () => member.call('/users'))).toEqual([...all(LEAST - 3, 200), 429]);
    const response = await elsewhere.call('/users');
    expect(response.headers.get('retry-after')).toBe('60');
    await expectError(response, 429, 'TOO_MANY_REQUESTS');
    vi.setSystemTime(now + 60_000);
    expect((await member.call('/users')).status).toBe(200);
  });

  it('requests with the organization in the path have the limit of that organization [C-4.7] [C-1.1]', async ({
    organization,
    member,
  }) => {
    const request = () => member.call(`/organizations/${organization.id}`);
    expect(rateOf(await request())).toEqual(['10', '9', '60']);
    expect(await statusesOf(LEAST, request)).toEqual([...all(LEAST - 1, 200), 429]);
  });

  it('requests to routes outside any organization have a limit of 600 a minute [C-4.7]', async ({
    person,
  }) => {
    for (const path of ['/auth/me', '/organizations']) {
      expect(rateOf(await person.call(path))[0]).toBe(String(DEFAULT));
    }
  });

  it('each user and each key has its own count [C-4.7]', async ({ organization, key, member }) => {
    const second = await join(await Person.register(), organization);
    await statusesOf(LEAST + 1, () => member.call('/users'));
    expect(rateOf(await second.call('/users'))[1]).toBe('9');
    expect(rateOf(await key.call(SITES))[1]).toBe('9');
  });

  it('requests refused for another reason also count [C-4.7]', async ({ person, organization }) => {
    await join(person, organization, 'VIEWER');
    const refused = await person.call('/users');
    expect([refused.status, ...rateOf(refused)]).toEqual([403, '10', '9', '60']);
    await person.call('/users?page=0');
    expect(rateOf(await person.call('/users'))[1]).toBe('7');
  });

  it('a request with a foreign x-org-id, or without the x-org-id that it needs, counts as one without an organization [C-4.7]', async ({
    organization,
    member,
  }) => {
    for (const org of [crypto.randomUUID(), 'x']) await member.call('/users', { org });
    await member.call(`/organizations/${crypto.randomUUID()}`);
    expect(rateOf(await member.call('/auth/me'))[1]).toBe('596');
    await join(member, await createOrganization());
    await member.call('/users');
    expect(rateOf(await member.call('/auth/me'))[1]).toBe('594');
    expect(rateOf(await member.call('/users', { org: organization.id }))[1]).toBe('9');
  });

  it('an answer to a request without a valid session has no RateLimit-* headers [C-4.7]', async () => {
    const response = await anonymous.call('/users', { headers: { authorization: 'Bearer x' } });
    expect([response.status, ...rateOf(response)]).toEqual([401, null, null, null]);
  });
});

describe('while the counter is unavailable', () => {
  it('every request is answered, without a limit and RateLimit-* headers, and a warning is logged [C-4.7]', async ({
    key,
  }) => {
    const warn = vi.spyOn(console, 'warn').mockReturnValue();
    const stub = { take: async () => Promise.reject(new Error('away')) };
    const REQUESTS = { idFromName: () => ({}), get: () => stub } as unknown as typeof env.REQUESTS;
    for (let time = 0; time <= LEAST; time++) {
      const response = await sendRequest(restRequest(`/api/v1${SITES}`, { key: key.key }), { REQUESTS });
      expect([response.status, ...rateOf(response)]).toEqual([200, null, null, null]);
    }
    expect(warn).toHaveBeenCalledTimes(LEAST + 1);
  });
});
