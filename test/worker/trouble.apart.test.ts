/** A failure of D1 or of an object: 503 with Retry-After, and one line in the log (rule 7). */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import type { KeyClient } from '#workerd/client.ts';
import { basic, dialAmqp, dialRequest, dialRows } from '#workerd/door.ts';
import { sendRequest } from '#workerd/rest.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { Site } from '../../durable-objects/site.ts';
import { LINK_PATHS } from '../../protocol/link/proof.ts';

/** Messages that D1 throws. */
const TROUBLES = [
  'D1_ERROR: database or disk is full: SQLITE_FULL',
  'D1_ERROR: disk I/O error: SQLITE_IOERR_WRITE',
  'disk I/O error: SQLITE_IOERR (extended: SQLITE_IOERR_SHMSIZE)',
  'internal error; reference = 7h6lm79qg7qubp7jnl68fm91',
  'D1_ERROR: Network connection lost.',
  'D1_ERROR: D1 DB is overloaded. Requests queued for too long.',
  'D1_ERROR: Internal error in D1 DB storage caused object to be reset.',
];

const SITES = '/vcp/sites';

/** `lines`: the lines that are logged after the plant and the key were made. */
const it = test
  .extend('site', ({ plant }) => `${SITES}/${plant.id}`)
  .extend('lines', { auto: true }, ({ plant: _plant, key: _key }) => {
    const lines: string[] = [];
    for (const method of ['error', 'warn', 'log', 'info'] as const) {
      vi.spyOn(console, method).mockImplementation((...values) => {
        lines.push(written(values));
      });
    }
    return lines;
  });

/** Makes every statement fail with that message, or only those whose SQL matches, and batches with one of them. */
function breakD1(message: string, kind = /^/): void {
  const database = Object.getPrototypeOf(env.DB) as Record<string, (...given: unknown[]) => Promise<unknown>>;
  const statement = Object.getPrototypeOf(env.DB.prepare('SELECT 1')) as typeof database;
  const breakMethod = (prototype: typeof database, method: string) => {
    const own = prototype[method];
    vi.spyOn(prototype, method).mockImplementation(async function (this: unknown, ...given) {
      const statements = (method === 'batch' ? given[0] : [this]) as { statement: string }[];
      if (statements.some((one) => kind.test(one.statement))) throw new Error(message);
      return await own?.apply(this, given);
    });
  };
  for (const method of ['first', 'run', 'all', 'raw']) breakMethod(statement, method);
  breakMethod(database, 'batch');
}

async function expectUnavailable(response: Response): Promise<void> {
  const text = await response.clone().text();
  await expectError(response, 503, 'SERVICE_UNAVAILABLE');
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(response.headers.get('x-request-id')).toMatch(/\S/);
  expect(text).not.toMatch(/sql|d1_|select|api_keys/i);
}

/** The log has one line, with the request's id, and no SQL. */
function expectOneLine(lines: string[], response: Response, key: KeyClient): void {
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain(response.headers.get('x-request-id'));
  expectNoSql(lines, key);
}

function expectNoSql(lines: string[], { key }: KeyClient): void {
  for (const line of lines) {
    expect(line).not.toMatch(/select |insert |update |from "|params/i);
    expect(line).not.toContain(key);
  }
}

/** The text that a console writes: errors with their stack and cause. */
function written(values: readonly unknown[]): string {
  const one = (value: unknown): string => {
    if (value instanceof Error) return `${value.stack} ${value.cause === undefined ? '' : one(value.cause)}`;
    if (value && typeof value === 'object') {
      return Object.entries(value)
        .map(([name, inner]) => `${name}: ${one(inner)}`)
        .join(', ');
    }
    return String(value);
  };
  return values.map(one).join(' ');
}

describe('a failure of D1', () => {
  it.for(TROUBLES)(
    'makes the reads of a partner answer 503 if D1 throws "%s" (spec: 503 SERVICE_UNAVAILABLE)',
    async (message, { key, site }) => {
      breakD1(message);
      for (const path of [SITES, `${site}/config`, `${site}/commands`, `${site}/telemetry/latest`]) {
        await expectUnavailable(await key.call(path));
      }
    },
  );

  it('the log has one line without SQL and key (style: Errors)', async ({ key, lines }) => {
    breakD1(TROUBLES[0] ?? '');
    const response = await key.call(SITES);
    await expectUnavailable(response);
    expectOneLine(lines, response, key);
  });

  it('a read is answered even if its key’s lastUsedAt cannot be written (rule 7)', async ({ key, lines }) => {
    breakD1(TROUBLES[1] ?? '', /^update/i);
    expect((await key.call(SITES)).status).toBe(200);
    expectNoSql(lines, key);
  });

  it('a bridge’s dial with a valid key gets 503, not 401 or 403 (rule 7)', async ({
    organization,
    key,
    lines,
  }) => {
    breakD1(TROUBLES[0] ?? '');
    const response = await dialAmqp(organization, key);
    expect(response.status).toBe(503);
    expect(response.webSocket).toBeNull();
    expectNoSql(lines, key);
  });

  it('a dial with a wrong key gets 401, whether its audit row can be written or not (rule 7)', async ({
    organization,
    key,
    lines,
  }) => {
    const authorization = basic(organization.slug, 'sw_mistyped');
    const dial = () => sendRequest(dialRequest({ path: LINK_PATHS.amqp, authorization }));
    breakD1(TROUBLES[0] ?? '', /^insert/i);
    const response = await dial();
    expect([response.status, response.webSocket]).toEqual([401, null]);
    expectNoSql(lines, key);
    expect(await dialRows(organization.id)).toEqual([]);
    vi.restoreAllMocks();
    expect((await dial()).status).toBe(401);
    expect(await dialRows(organization.id)).toMatchObject([{ event: 'partner.connection_refused' }]);
  });

  it('the next request after a failure is answered (rule 7)', async ({ key }) => {
    breakD1(TROUBLES[0] ?? '');
    await expectUnavailable(await key.call(SITES));
    vi.restoreAllMocks();
    expect((await key.call(SITES)).status).toBe(200);
  });
});

describe('a failure of an object', () => {
  it('a request to a restarting object gets 503, and the next request gets 200 (spec: 503 SERVICE_UNAVAILABLE)', async ({
    key,
    site,
    lines,
  }) => {
    const reset = new Error('Internal error in Durable Object storage caused object to be reset.');
    vi.spyOn(Site.prototype, 'readConfig').mockImplementation(() => {
      throw Object.assign(reset, { durableObjectReset: true, retryable: true });
    });
    const response = await key.call(`${site}/config`);
    await expectUnavailable(response);
    expectOneLine(lines, response, key);
    vi.restoreAllMocks();
    expect((await key.call(`${site}/config`)).status).toBe(200);
  });

  it('a request to an object whose disk is full gets 503 (spec: 503 SERVICE_UNAVAILABLE)', async ({
    key,
    site,
    lines,
  }) => {
    vi.spyOn(Site.prototype, 'readCommands').mockImplementation(() => {
      throw new Error('database or disk is full: SQLITE_FULL');
    });
    const response = await key.call(`${site}/commands`);
    await expectUnavailable(response);
    expectOneLine(lines, response, key);
  });
});
