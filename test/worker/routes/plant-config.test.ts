/** A plant’s configuration over REST: read and put with its ETag, active when the request answers [C-2.3]. */
import type { Person } from '#workerd/people.ts';
import type { LogPage } from '#workerd/site-reads.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { apiKeyPrefix } from '../../../protocol/api-key.ts';
import { OPERATING_MODES } from '../../../protocol/enums.ts';
import {
  type Constraints,
  DEFAULT_SITE_CONFIG,
  type SiteConfig,
  UNLIMITED,
} from '../../../protocol/site-config.ts';

const LIMITS: Constraints = { ...UNLIMITED, maxImportKw: 120, maxChargeKw: 50, minSocPercent: 10 };
const CONFIG = {
  constraints: LIMITS,
  fallback: { mode: 'ZERO_EXPORT', afterSeconds: 300, action: 'HOLD', setpointKw: null },
  operatingMode: 'STANDARD',
} as const;

interface Tagged {
  status: number;
  etag: string;
  config: SiteConfig;
}

async function tagged(response: Response): Promise<Tagged> {
  const etag = response.headers.get('etag') ?? '';
  return { status: response.status, etag, config: (await response.json()) as SiteConfig };
}

const it = test
  .extend('path', ({ plantId }) => `/plants/${plantId}/config`)
  .extend('get', ({ team, path }) => async () => {
    return tagged(await team.viewer.call(path));
  })
  .extend('put', ({ team, path }) => {
    return (body: unknown, { by = team.admin, ifMatch }: { by?: Person; ifMatch?: string } = {}) =>
      by.put(path, body, ifMatch === undefined ? {} : { headers: { 'if-match': ifMatch } });
  });

describe('GET /plants/{id}/config', () => {
  it('a new plant has the default configuration and a strong ETag [C-2.3]', async ({ get }) => {
    const first = await get();
    expect(first).toEqual({
      status: 200,
      etag: expect.stringMatching(/^"[^"]+"$/),
      config: DEFAULT_SITE_CONFIG,
    });
    expect(await get()).toEqual(first);
  });

  it('members see hardLimits, partners do not [C-2.3]', async ({ team, plantId, get, put }) => {
    const hardLimits = { ...UNLIMITED, maxExportKw: 10 };
    expect((await put({ ...CONFIG, hardLimits }, { by: team.orgAdmin })).status).toBe(200);
    expect((await get()).config).toEqual({ ...CONFIG, hardLimits });
    const key = await team.newKey(['vcp:read']);
    const snapshot = await key.read<object>(`/vcp/sites/${plantId}/config`);
    expect(snapshot).toMatchObject(CONFIG);
    expect(snapshot).not.toHaveProperty('hardLimits');
  });
});

describe('PUT /plants/{id}/config', () => {
  it('a PUT answers the configuration with its ETag [C-2.3]', async ({ get, put }) => {
    const before = await get();
    const first = await tagged(await put(CONFIG));
    expect(first).toEqual({ status: 200, etag: expect.any(String), config: { ...CONFIG, hardLimits: null } });
    expect(first.etag).not.toBe(before.etag);
    expect(await get()).toEqual(first);
    expect(await tagged(await put(CONFIG))).toEqual(first);
    const other = await tagged(await put({ ...CONFIG, constraints: { ...LIMITS, maxImportKw: 121 } }));
    expect(other.etag).not.toBe(first.etag);
  });

  it('a PUT whose If-Match has another ETag gets 412 CONFLICT and changes nothing [C-2.3]', async ({
    get,
    put,
  }) => {
    const { etag } = await get();
    const second = await tagged(await put(CONFIG, { ifMatch: etag }));
    expect(second.status).toBe(200);
    const stale = [etag, '"x"', `W/${second.etag}`, second.etag.replaceAll('"', ''), `${etag}, "x"`, '"*"'];
    for (const ifMatch of stale) {
      const response = await put({ ...CONFIG, fallback: null }, { ifMatch });
      await expectError(response, 412, 'CONFLICT');
    }
    expect(await get()).toEqual(second);
    expect((await put(CONFIG, { ifMatch: `"x" , ${second.etag}` })).status).toBe(200);
  });

  it('a fallback without afterSeconds and setpointKw waits 300 s and has no setpoint [C-2.3]', async ({
    get,
    put,
  }) => {
    const fallback = { mode: 'STANDARD', action: 'STOP' };
    const answer = await tagged(await put({ ...CONFIG, fallback }));
    const whole = { ...fallback, afterSeconds: 300, setpointKw: null };
    expect([answer.status, answer.config.fallback]).toEqual([200, whole]);
    expect(await get()).toEqual(answer);
  });

  it('lets the last writer win with If-Match: * or without If-Match [C-2.3]', async ({ get, put }) => {
    for (const [mode, ifMatch] of [
      ['MAX_EXPORT', '*'],
      ['GRID_TARGET', undefined],
      ['PEAK_SHAVING', ' * '],
    ] as const) {
      const body = { ...CONFIG, operatingMode: mode };
      expect((await put(body, ifMatch === undefined ? {} : { ifMatch })).status).toBe(200);
      expect((await get()).config.operatingMode).toBe(mode);
    }
  });

  it('succeeds for one of concurrent PUTs with one ETag, and the others get 412 [C-2.3]', async ({
    get,
    put,
  }) => {
    const { etag } = await get();
    const answers = await Promise.all(
      OPERATING_MODES.filter((mode) => mode !== 'STANDARD').map(async (operatingMode) => {
        const answer = await tagged(await put({ ...CONFIG, operatingMode }, { ifMatch: etag }));
        return { operatingMode, ...answer };
      }),
    );
    const winners = answers.filter(({ status }) => status === 200);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 412, 412, 412, 412, 412]);
    expect((await get()).config.operatingMode).toBe(winners[0]?.operatingMode);
  });

  it('a PUT without hardLimits keeps them, and one with null deletes them [C-2.3]', async ({
    team,
    get,
    put,
  }) => {
    const hardLimits = { ...UNLIMITED, maxImportKw: 200 };
    await put({ ...CONFIG, hardLimits }, { by: team.orgAdmin });
    await put({ ...CONFIG, operatingMode: 'MAX_EXPORT' });
    expect((await get()).config).toMatchObject({ hardLimits, operatingMode: 'MAX_EXPORT' });
    expect((await put({ ...CONFIG, hardLimits })).status, 'the same again').toBe(200);
    await put({ ...CONFIG, hardLimits: null }, { by: team.orgAdmin });
    expect((await get()).config.hardLimits).toBeNull();
  });

  it('only an ORG_ADMIN changes hardLimits; others get 403 [C-2.3]', async ({ team, path, get, put }) => {
    const hardLimits = { ...UNLIMITED, maxImportKw: 200 };
    await put({ ...CONFIG, hardLimits }, { by: team.orgAdmin });
    const before = await get();
    const key = await team.newKey(['config:write']);
    const changes = [{ maxImportKw: 201 }, { maxExportKw: 1 }].map((limit) => ({ ...hardLimits, ...limit }));
    for (const changed of [null, UNLIMITED, ...changes]) {
      const body = { ...CONFIG, operatingMode: 'MAX_EXPORT', hardLimits: changed };
      await expectError(await put(body), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      await expectError(await key.put(path, body), 403, 'FORBIDDEN');
    }
    expect(await get()).toEqual(before);
    expect((await key.put(path, { ...CONFIG, operatingMode: 'MAX_EXPORT' })).status).toBe(200);
  });

  it('an invalid body gets 400 and changes nothing [C-2.3]', async ({ team, plantId, get, put }) => {
    const before = await get();
    const fallback = CONFIG.fallback;
    const bad = [
      undefined,
      null,
      {},
      ...['constraints', 'fallback', 'operatingMode'].map((field) => ({ ...CONFIG, [field]: undefined })),
      ...['id', 'siteId', 'modeOverride', 'etag'].map((field) => ({ ...CONFIG, [field]: plantId })),
      ...['', 'standard', null].map((operatingMode) => ({ ...CONFIG, operatingMode })),
      ...[-1, 1e9 + 1, '1'].map((maxImportKw) => ({ ...CONFIG, constraints: { ...LIMITS, maxImportKw } })),
      ...[-1, 100.1].map((minSocPercent) => ({ ...CONFIG, constraints: { ...LIMITS, minSocPercent } })),
      { ...CONFIG, constraints: { maxImportKw: 1 } },
      { ...CONFIG, constraints: { ...LIMITS, maxPowerKw: 1 } },
      { ...CONFIG, hardLimits: { ...LIMITS, maxPowerKw: 1 } },
      ...[29, 3601, 30.5].map((afterSeconds) => ({ ...CONFIG, fallback: { ...fallback, afterSeconds } })),
      { ...CONFIG, fallback: { ...fallback, action: 'RUN' } },
    ];
    for (const body of bad)
      await expectError(await put(body, { by: team.orgAdmin }), 400, 'VALIDATION_ERROR');
    expect(await get()).toEqual(before);
  });

  it('each PUT that is accepted writes a CONFIG row to the partners’ log, a refused one none [C-2.3]', async ({
    team,
    plantId,
    path,
    put,
  }) => {
    const key = await team.newKey(['config:write', 'vcp:read']);
    await put(CONFIG);
    await put(CONFIG, { ifMatch: '"x"' });
    await put({ ...CONFIG, hardLimits: LIMITS });
    await key.put(path, { ...CONFIG, fallback: null });
    const { items, total } = await key.read<LogPage>(`/vcp/sites/${plantId}/commands`);
    const row = {
      commandType: 'CONFIG',
      status: 'COMPLETED',
      keyPrefix: null,
      routingKey: '',
      target: 'SITE',
    };
    expect(items).toMatchObject([
      { ...row, siteId: plantId, source: apiKeyPrefix(key.key), payload: { ...CONFIG, fallback: null } },
      { ...row, siteId: plantId, source: expect.any(String), payload: CONFIG },
    ]);
    expect(total).toBe(2);
  });
});
