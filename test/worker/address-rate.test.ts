/** Requests are counted by client address before a body is read or a credential is looked up [C-14.2]. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { unknownKey } from '#workerd/client.ts';
import { changeRegistry, changeSettings } from '#workerd/registry-changes.ts';
import { restRequest, sendRequest, statusesOf } from '#workerd/rest.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import type { Env } from '../../durable-objects/env.ts';

const SITES = '/api/v1/vcp/sites';

/** Sends requests from an address that no other test uses, with this limit. */
const it = test.extend('from', () => {
  const block = crypto.getRandomValues(new Uint8Array(2)).join('.');
  return (
    host: number | string,
    path = SITES,
    init: RequestInit & { key?: string } = {},
    bindings: Partial<Env> = {},
  ) => {
    const address = typeof host === 'number' ? `10.${block}.${host}` : host;
    const headers = { ...(init.headers as Record<string, string>), 'cf-connecting-ip': address };
    return sendRequest(restRequest(path, { ...init, headers }), {
      ADDRESS_RATE_PER_MINUTE: '20',
      ...bindings,
    });
  };
});

let seconds = 0;

/** Spies on the waits for answers, in a second in which the isolate has not answered anybody yet. */
function waitsInNewSecond() {
  vi.useFakeTimers({ toFake: ['Date'] });
  // Each call is ahead of the one before, which may have been less than a second ago.
  seconds += 2;
  vi.setSystemTime(Date.now() + seconds * 1_000);
  return vi.spyOn(scheduler, 'wait').mockResolvedValue(undefined);
}

const all = (times: number, status: number) => Array.from({ length: times }, () => status);

describe('the requests of an address', () => {
  it('beyond the limit get 429 with Retry-After, even with a valid key; another address does not [C-14.2]', async ({
    from,
    key,
  }) => {
    const request = () => from(1, SITES, { key: key.key });
    expect(await statusesOf(21, request)).toEqual([...all(20, 200), 429]);
    const response = await request();
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    await expectError(response, 429, 'TOO_MANY_REQUESTS');
    expect((await from(2, SITES, { key: key.key })).status).toBe(200);
  });

  it('count as five requests each when the answer is 401 or 403 [C-14.2]', async ({ from, newKey }) => {
    const unknown = await statusesOf(6, () => from(1, SITES, { key: unknownKey() }));
    expect(unknown).toEqual([...all(4, 401), 429, 429]);
    const { key } = await newKey({ scopes: ['plants:read'] });
    expect(await statusesOf(6, () => from(2, SITES, { key }))).toEqual([...all(4, 403), 429, 429]);
  });

  it('over the limit get twenty 429s immediately and later ones delayed; another address is not delayed [C-14.2]', async ({
    from,
  }) => {
    const wait = waitsInNewSecond();
    const request = (host: number) => from(host, '/api/v1/openapi.json');
    await statusesOf(40, () => request(1));
    expect(wait).not.toHaveBeenCalled();
    expect(await statusesOf(3, () => request(1))).toEqual(all(3, 429));
    expect(wait).toHaveBeenCalledTimes(3);
    expect((await request(2)).status).toBe(200);
    expect(wait).toHaveBeenCalledTimes(3);
  });

  it('get twenty 413s immediately for too large bodies and later ones delayed, even below the limit [C-14.2]', async ({
    from,
  }) => {
    const wait = waitsInNewSecond();
    const large = () =>
      from(
        1,
        '/api/v1/auth/login',
        { method: 'POST', body: 'x'.repeat(70_000), headers: { 'content-type': 'application/json' } },
        { ADDRESS_RATE_PER_MINUTE: '1000' },
      );
    expect(await statusesOf(22, large)).toEqual(all(22, 413));
    expect(wait).toHaveBeenCalledTimes(2);
  });

  it('get their refusals later and later, up to two seconds, also those over the rate of a key [C-14.2]', async ({
    from,
    newKey,
    organization,
  }) => {
    await changeRegistry(organization, changeSettings({ restRatePerMinute: 10 }));
    const { key } = await newKey();
    const wait = waitsInNewSecond();
    const request = () => from(1, SITES, { key }, { ADDRESS_RATE_PER_MINUTE: '1000' });
    expect(await statusesOf(30, request)).toEqual([...all(10, 200), ...all(20, 429)]);
    expect(wait).not.toHaveBeenCalled();
    await statusesOf(220, request);
    const waits = wait.mock.calls.map(([ms]) => ms);
    expect(waits.slice(0, 21)).toEqual([...all(10, 100), ...all(10, 200), 300]);
    expect(waits.slice(190)).toEqual(all(30, 2_000));
  });

  it('are delayed without a credential after a hundred from all addresses in a second; with a key they are not [C-14.2]', async ({
    from,
    key,
  }) => {
    const wait = waitsInNewSecond();
    const document = (host: number) => from(host, '/api/v1/openapi.json');
    for (let host = 1; host <= 5; host++)
      expect(await statusesOf(20, () => document(host))).toEqual(all(20, 200));
    expect(wait).not.toHaveBeenCalled();
    expect((await document(6)).status).toBe(200);
    expect((await from(6, SITES, { key: unknownKey() })).status).toBe(401);
    expect(wait).toHaveBeenCalledTimes(2);
    expect((await from(6, SITES, { key: key.key })).status).toBe(200);
    expect(wait).toHaveBeenCalledTimes(2);
    vi.setSystemTime(Date.now() + 1_000);
    expect((await document(6)).status).toBe(200);
    expect(wait).toHaveBeenCalledTimes(2);
  });

  it('are delayed at most a thousand at a time, and again after delays that never ended [C-14.2]', async ({
    from,
  }) => {
    const wait = waitsInNewSecond();
    const send = () => from(1, SITES, {}, { ADDRESS_RATE_PER_MINUTE: '100000' });
    await statusesOf(100, send);
    expect(wait).not.toHaveBeenCalled();
    // A cancelled request stays in its wait for ever.
    await new Promise<void>((resolve) => {
      wait.mockImplementation(async () => {
        if (wait.mock.calls.length === 1_000) resolve();
        await new Promise(() => {});
      });
      for (let sent = 0; sent < 1_000; sent++) void send();
    });
    expect((await send()).status).toBe(401);
    expect(wait).toHaveBeenCalledTimes(1_000);
    vi.setSystemTime(Date.now() + 100);
    wait.mockImplementation(async () => {});
    expect((await send()).status).toBe(401);
    expect(wait).toHaveBeenCalledTimes(1_001);
  });

  it('over the limit get 429 until the minute has passed, and 200 after that [C-14.2]', async ({ from }) => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const request = () => from(1, '/api/v1/openapi.json');
    expect(await statusesOf(21, request)).toEqual([...all(20, 200), 429]);
    vi.setSystemTime(Date.now() + 59_000);
    expect((await request()).status).toBe(429);
    vi.setSystemTime(Date.now() + 1_000);
    expect((await request()).status).toBe(200);
  });

  it('from one IPv6 /64 network share one limit; another /64 network has its own [C-14.2]', async ({
    from,
  }) => {
    const network = `2001:db8:${crypto.randomUUID().slice(0, 4)}`;
    let host = 1;
    const request = () => from(`${network}:1::${host++}`, '/api/v1/openapi.json');
    expect(await statusesOf(21, request)).toEqual([...all(20, 200), 429]);
    expect((await from(`${network}:2::1`, '/api/v1/openapi.json')).status).toBe(200);
  });

  it('over the limit are refused before a body is read or a key is looked up [C-14.2]', async ({ from }) => {
    await statusesOf(20, () => from(1, '/api/v1/openapi.json'));
    const reads = vi.spyOn(env.DB, 'prepare');
    const body = new ReadableStream({
      pull() {
        throw new Error('the body was read');
      },
    });
    const headers = { 'content-type': 'application/json', 'x-api-key': unknownKey() };
    const init = { method: 'POST', body, headers };
    await expectError(await from(1, '/api/v1/auth/login', init), 429, 'TOO_MANY_REQUESTS');
    await expectError(await from(1, SITES, { headers }), 429, 'TOO_MANY_REQUESTS');
    expect(reads).not.toHaveBeenCalled();
  });

  it('have no limit if client addresses are not known (CLIENT_ADDRESS "none") [C-14.2]', async ({ from }) => {
    const request = () => from(1, '/api/v1/openapi.json', {}, { CLIENT_ADDRESS: 'none' });
    expect(await statusesOf(25, request)).toEqual(all(25, 200));
  });

  it('count, too, if other isolates answered them, once this isolate has reported its own requests [C-14.2]', async ({
    from,
  }) => {
    const network = `2001:db8:${crypto.randomUUID().slice(0, 4)}:7`;
    const limit = { ADDRESS_RATE_PER_MINUTE: '200' };
    const counter = env.REQUESTS.get(env.REQUESTS.idFromName(`address:${network.replace(/:0+/g, ':')}::/64`));
    await counter.add(140);
    const request = () => from(`${network}::1`, '/api/v1/openapi.json', {}, limit);
    expect(await statusesOf(62, request)).toEqual([...all(60, 200), 429, 429]);
  });
});

describe('the limit for an address', () => {
  it('is 1 200 requests a minute without ADDRESS_RATE_PER_MINUTE [C-14.2]', async ({ from }) => {
    const { ADDRESS_RATE_PER_MINUTE: _, ...rest } = env as Env;
    expect('ADDRESS_RATE_PER_MINUTE' in rest).toBe(false);
    const request = () =>
      from(1, SITES, { key: unknownKey() }, {
        ADDRESS_RATE_PER_MINUTE: undefined,
      } as unknown as Partial<Env>);
    expect(await statusesOf(241, request)).toEqual([...all(240, 401), 429]);
  });

  it('makes each request get 500, and logs why, if ADDRESS_RATE_PER_MINUTE is not a positive whole number [C-14.2]', async ({
    from,
  }) => {
    const error = vi.spyOn(console, 'error').mockReturnValue(undefined);
    for (const wrong of ['0', '-1', '1.5', 'many', '']) {
      const counted = await from(1, '/api/v1/openapi.json', {}, { ADDRESS_RATE_PER_MINUTE: wrong });
      await expectError(counted, 500, 'INTERNAL_SERVER_ERROR');
    }
    expect(JSON.stringify(error.mock.calls)).toContain('it must be a whole number from 1 to 999999999');
  });
});
