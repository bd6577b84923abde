/** Trouble behind the Worker, not its client's fault and no bug: 503 with Retry-After, and one line in the log (rule 7). */
import { env } from 'cloudflare:workers';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Site } from '../../durable-objects/site.ts';
import { LINK_PATHS } from '../../protocol/link/proof.ts';
import { basic, dialAmqp, dialRequest } from '../support/workerd/door.ts';
import { restRequest, send, settle } from '../support/workerd/rest.ts';
import {
  createKey,
  createOrganization,
  createPlant,
  type Key,
  type Organization,
} from '../support/workerd/world.ts';

const SITES = '/api/v1/vcp/sites';

/** What D1 throws, as the runtime words it. */
const TROUBLES = [
  'D1_ERROR: database or disk is full: SQLITE_FULL',
  'D1_ERROR: disk I/O error: SQLITE_IOERR_WRITE',
  'disk I/O error: SQLITE_IOERR (extended: SQLITE_IOERR_SHMSIZE)',
  'internal error; reference = 7h6lm79qg7qubp7jnl68fm91',
  'D1_ERROR: Network connection lost.',
  'D1_ERROR: D1 DB is overloaded. Requests queued for too long.',
  'D1_ERROR: Internal error in D1 DB storage caused object to be reset.',
];

let organization: Organization;
let key: Key;
let siteId: string;
/** What was written to the log, a line a call. */
let lines: string[];

beforeEach(async () => {
  organization = await createOrganization();
  siteId = (await createPlant(organization)).id;
  key = await createKey(organization);
  lines = [];
  for (const method of ['error', 'warn', 'log', 'info'] as const) {
    vi.spyOn(console, method).mockImplementation((...values) => {
      lines.push(written(values));
    });
  }
});

afterEach(() => {
  vi.restoreAllMocks();
});

/** From here on every statement fails like that. */
function breakD1(message: string): void {
  const fail = () => Promise.reject(new Error(message));
  const statement = { bind: () => statement, first: fail, run: fail, all: fail, raw: fail };
  const prototype = Object.getPrototypeOf(env.DB) as D1Database;
  vi.spyOn(prototype, 'prepare').mockReturnValue(statement as unknown as D1PreparedStatement);
  vi.spyOn(prototype, 'batch').mockImplementation(fail);
}

async function expectTrouble(response: Response): Promise<void> {
  const text = await response.clone().text();
  expect([response.status, text]).toEqual([503, expect.stringContaining('"code":"SERVICE_UNAVAILABLE"')]);
  expect(await response.json()).toMatchObject({
    statusCode: 503,
    error: 'Service Unavailable',
    code: 'SERVICE_UNAVAILABLE',
    message: expect.stringMatching(/\S/),
  });
  expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(response.headers.get('x-request-id')).toMatch(/\S/);
  expect(text).not.toMatch(/sql|d1_|select|api_keys/i);
}

/** One line, with the request's id, and nothing of a statement or what was bound to it. */
function expectOneLine(response: Response): void {
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain(response.headers.get('x-request-id'));
  expectNoSql();
}

function expectNoSql(): void {
  for (const line of lines) {
    expect(line).not.toMatch(/select |insert |update |from "|params/i);
    expect(line).not.toContain(key.key);
  }
}

/** What a console writes of its arguments: errors with their stack and cause. */
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

describe('D1 in trouble', () => {
  it.each(TROUBLES)(
    'is 503 on every path that asks it: %s (spec: 503 SERVICE_UNAVAILABLE)',
    async (message) => {
      breakD1(message);
      for (const path of ['', `/${siteId}/config`, `/${siteId}/commands`, `/${siteId}/telemetry/latest`]) {
        await expectTrouble(await send(`${SITES}${path}`, { key: key.key }));
      }
    },
  );

  it('is one line in the log, without SQL and without the key (style: Errors)', async () => {
    breakD1(TROUBLES[0] ?? '');
    const response = await send(SITES, { key: key.key });
    await expectTrouble(response);
    expectOneLine(response);
  });

  it('that only the mark of the last use meets fails no read, and tells no SQL (rule 7)', async () => {
    const prototype = Object.getPrototypeOf(env.DB) as D1Database;
    const { prepare } = prototype;
    const fail = () => Promise.reject(new Error(TROUBLES[1]));
    vi.spyOn(prototype, 'prepare').mockImplementation(function (this: D1Database, sql) {
      if (!/^update/i.test(sql)) return prepare.call(this, sql);
      const statement = { bind: () => statement, first: fail, run: fail, all: fail, raw: fail };
      return statement as unknown as D1PreparedStatement;
    });
    const response = await settle(restRequest(SITES, { key: key.key }));
    expect(response.status).toBe(200);
    expectNoSql();
  });

  it('is trouble to a dialling bridge too, never a refusal (rule 7)', async () => {
    breakD1(TROUBLES[0] ?? '');
    const response = await dialAmqp(organization, key);
    expect(response.status).toBe(503);
    expect(response.webSocket).toBeNull();
    expectNoSql();
  });

  it('while a refusal is written does not make the refusal something else (rule 7)', async () => {
    const prototype = Object.getPrototypeOf(env.DB) as D1Database;
    const { prepare } = prototype;
    const fail = () => Promise.reject(new Error(TROUBLES[0]));
    vi.spyOn(prototype, 'prepare').mockImplementation(function (this: D1Database, sql) {
      if (!/^insert/i.test(sql)) return prepare.call(this, sql);
      const statement = { bind: () => statement, first: fail, run: fail, all: fail, raw: fail };
      return statement as unknown as D1PreparedStatement;
    });
    const authorization = basic(organization.slug, 'sw_mistyped');
    const response = await settle(dialRequest({ path: LINK_PATHS.amqp, authorization }));
    expect([401, 503]).toContain(response.status);
  });

  it('is over with it: the next request is answered (rule 7)', async () => {
    breakD1(TROUBLES[0] ?? '');
    await expectTrouble(await send(SITES, { key: key.key }));
    vi.restoreAllMocks();
    expect((await send(SITES, { key: key.key })).status).toBe(200);
  });
});

describe('an object in trouble', () => {
  it('that starts over while it is asked is 503, and then answers (spec: 503 SERVICE_UNAVAILABLE)', async () => {
    const reset = new Error('Internal error in Durable Object storage caused object to be reset.');
    vi.spyOn(Site.prototype, 'readConfig').mockImplementation(() => {
      throw Object.assign(reset, { durableObjectReset: true, retryable: true });
    });
    const path = `${SITES}/${siteId}/config`;
    const response = await send(path, { key: key.key });
    await expectTrouble(response);
    expectOneLine(response);
    vi.restoreAllMocks();
    expect((await send(path, { key: key.key })).status).toBe(200);
  });

  it('that has its disk full is 503 (spec: 503 SERVICE_UNAVAILABLE)', async () => {
    vi.spyOn(Site.prototype, 'readCommands').mockImplementation(() => {
      throw new Error('database or disk is full: SQLITE_FULL');
    });
    const response = await send(`${SITES}/${siteId}/commands`, { key: key.key });
    await expectTrouble(response);
    expectOneLine(response);
  });
});
