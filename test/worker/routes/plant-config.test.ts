/** A plant's configuration over REST: read and put with its ETag, in force when the request answers [C-2.3]. */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { apiKeyPrefix } from '../../../protocol/api-key.ts';
import type { CommandLogEntry } from '../../../protocol/command-log.ts';
import { OPERATING_MODES } from '../../../protocol/enums.ts';
import {
  type Constraints,
  DEFAULT_SITE_CONFIG,
  type SiteConfig,
  UNLIMITED,
} from '../../../protocol/site-config.ts';
import { callWithKey, createTeamKey, postPlant } from '../../support/workerd/fleet.ts';
import { createTeam, type Person, type Team } from '../../support/workerd/people.ts';
import { expectError, read } from '../../support/workerd/rest.ts';

let team: Team;
let id: string;
let path: string;

beforeAll(async () => {
  team = await createTeam();
});

beforeEach(async () => {
  ({ id } = await postPlant(team.operator));
  path = `/plants/${id}/config`;
});

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

async function get(by: Person = team.viewer): Promise<Tagged> {
  return await tagged(await by.call(path));
}

function put(
  body: unknown,
  { by = team.admin, ifMatch }: { by?: Person; ifMatch?: string } = {},
): Promise<Response> {
  const headers = ifMatch === undefined ? {} : { 'if-match': ifMatch };
  return by.call(path, { method: 'PUT', body, headers });
}

describe('GET /plants/{id}/config', () => {
  it('answers a plant that nobody configured with the default, and a strong tag that stays [C-2.3]', async () => {
    const first = await get();
    expect(first).toEqual({
      status: 200,
      etag: expect.stringMatching(/^"[^"]+"$/),
      config: DEFAULT_SITE_CONFIG,
    });
    expect(await get()).toEqual(first);
  });

  it('shows hardLimits, which partners do not see [C-2.3]', async () => {
    const hardLimits = { ...UNLIMITED, maxExportKw: 10 };
    expect((await put({ ...CONFIG, hardLimits }, { by: team.orgAdmin })).status).toBe(200);
    expect((await get()).config).toEqual({ ...CONFIG, hardLimits });
    const { key } = await createTeamKey(team, ['vcp:read']);
    const snapshot = await read<object>(`/api/v1/vcp/sites/${id}/config`, key);
    expect(snapshot).toMatchObject(CONFIG);
    expect(snapshot).not.toHaveProperty('hardLimits');
  });
});

describe('PUT /plants/{id}/config', () => {
  it('puts the whole configuration and answers it with its new tag, the same for the same [C-2.3]', async () => {
    const before = await get();
    const first = await tagged(await put(CONFIG));
    expect(first).toEqual({ status: 200, etag: expect.any(String), config: { ...CONFIG, hardLimits: null } });
    expect(first.etag).not.toBe(before.etag);
    expect(await get()).toEqual(first);
    expect(await tagged(await put(CONFIG))).toEqual(first);
    const other = await tagged(await put({ ...CONFIG, constraints: { ...LIMITS, maxImportKw: 121 } }));
    expect(other.etag).not.toBe(first.etag);
  });

  it('with If-Match puts only over what has that tag: else 412 CONFLICT, and nothing changes [C-2.3]', async () => {
    const { etag } = await get();
    const second = await tagged(await put(CONFIG, { ifMatch: etag }));
    expect(second.status).toBe(200);
    const stale = [etag, '"x"', `W/${second.etag}`, second.etag.replaceAll('"', ''), `${etag}, "x"`, '"*"'];
    for (const ifMatch of stale) {
      const response = await put({ ...CONFIG, fallback: null }, { ifMatch });
      const body = (await response.json()) as object;
      expect([ifMatch, response.status, body]).toEqual([
        ifMatch,
        412,
        expect.objectContaining({ statusCode: 412, code: 'CONFLICT', error: 'Precondition Failed' }),
      ]);
    }
    expect(await get()).toEqual(second);
    expect((await put(CONFIG, { ifMatch: `"x" , ${second.etag}` })).status).toBe(200);
  });

  it('may leave out how long a fallback waits and what it holds: 300 s, and nothing [C-2.3]', async () => {
    const fallback = { mode: 'STANDARD', action: 'STOP' };
    const answer = await tagged(await put({ ...CONFIG, fallback }));
    expect([answer.status, answer.config.fallback]).toEqual([
      200,
      { ...fallback, afterSeconds: 300, setpointKw: null },
    ]);
    expect(await get()).toEqual(answer);
  });

  it('with If-Match * or none lets the last writer win [C-2.3]', async () => {
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

  it('lets one of many win that come at once with one tag [C-2.3]', async () => {
    const { etag } = await get();
    const answers = await Promise.all(
      OPERATING_MODES.filter((mode) => mode !== 'STANDARD').map(async (operatingMode) => {
        return {
          operatingMode,
          ...(await tagged(await put({ ...CONFIG, operatingMode }, { ifMatch: etag }))),
        };
      }),
    );
    const winners = answers.filter(({ status }) => status === 200);
    expect(answers.map(({ status }) => status).sort()).toEqual([
      200,
      ...Array.from({ length: 5 }, () => 412),
    ]);
    expect((await get()).config.operatingMode).toBe(winners[0]?.operatingMode);
  });

  it('leaves hardLimits that are left out as they are, null takes them away [C-2.3]', async () => {
    const hardLimits = { ...UNLIMITED, maxImportKw: 200 };
    await put({ ...CONFIG, hardLimits }, { by: team.orgAdmin });
    await put({ ...CONFIG, operatingMode: 'MAX_EXPORT' });
    expect((await get()).config).toMatchObject({ hardLimits, operatingMode: 'MAX_EXPORT' });
    expect((await put({ ...CONFIG, hardLimits })).status, 'the same again').toBe(200);
    await put({ ...CONFIG, hardLimits: null }, { by: team.orgAdmin });
    expect((await get()).config.hardLimits).toBeNull();
  });

  it('lets nobody but an ORG_ADMIN change hardLimits: no ADMIN, and no key [C-2.3]', async () => {
    const hardLimits = { ...UNLIMITED, maxImportKw: 200 };
    await put({ ...CONFIG, hardLimits }, { by: team.orgAdmin });
    const before = await get();
    const key = await createTeamKey(team, ['config:write']);
    for (const changed of [
      null,
      UNLIMITED,
      { ...hardLimits, maxImportKw: 201 },
      { ...hardLimits, maxExportKw: 1 },
    ]) {
      const body = { ...CONFIG, operatingMode: 'MAX_EXPORT', hardLimits: changed };
      await expectError(await put(body), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      await expectError(await callWithKey(key, path, { method: 'PUT', body }), 403, 'FORBIDDEN');
    }
    expect(await get()).toEqual(before);
    const kept = { method: 'PUT', body: { ...CONFIG, operatingMode: 'MAX_EXPORT' } } as const;
    expect((await callWithKey(key, path, kept)).status).toBe(200);
  });

  it('refuses a body with anything missing, unknown or out of bounds: 400, and nothing changes [C-2.3]', async () => {
    const before = await get();
    const fallback = CONFIG.fallback;
    const bad = [
      undefined,
      null,
      {},
      ...['constraints', 'fallback', 'operatingMode'].map((field) => ({ ...CONFIG, [field]: undefined })),
      ...['id', 'siteId', 'modeOverride', 'etag'].map((field) => ({ ...CONFIG, [field]: id })),
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

  it('writes a CONFIG row without a key to the log that partners read, and none when it is refused [C-2.3]', async () => {
    const key = await createTeamKey(team, ['config:write', 'vcp:read']);
    await put(CONFIG);
    await put(CONFIG, { ifMatch: '"x"' });
    await put({ ...CONFIG, hardLimits: LIMITS });
    await callWithKey(key, path, { method: 'PUT', body: { ...CONFIG, fallback: null } });
    const commands = `/api/v1/vcp/sites/${id}/commands`;
    const { items, total } = await read<{ items: CommandLogEntry[]; total: number }>(commands, key.key);
    const row = {
      commandType: 'CONFIG',
      status: 'COMPLETED',
      keyPrefix: null,
      routingKey: '',
      target: 'SITE',
    };
    expect(items).toMatchObject([
      { ...row, siteId: id, source: apiKeyPrefix(key.key), payload: { ...CONFIG, fallback: null } },
      { ...row, siteId: id, source: expect.any(String), payload: CONFIG },
    ]);
    expect(total).toBe(2);
  });
});
