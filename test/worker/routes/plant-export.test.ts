/** The export of a plant over REST: who may read it, and that it is whole [C-13.4]. */
import { vi } from 'vitest';
import { auditRows } from '#workerd/door.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { createKey, createPlant } from '#workerd/world.ts';
import { sha256Hex } from '../../../durable-objects/secrets/hmac.ts';
import { readExport } from '../../../tools/replay/chain.ts';
import { replay } from '../../../tools/replay/replay.ts';

const HOUR = 3_600_000;
const timeOf = (fromMs: number, toMs: number) =>
  `from=${new Date(fromMs).toISOString()}&to=${new Date(toMs).toISOString()}`;
const PRESENT = () => timeOf(Date.now() - HOUR, Date.now() + HOUR);

const it = test.extend('scene', async ({ ownTeam }) => {
  const plant = await createPlant(ownTeam.organization);
  const setpoint = {
    type: 'POWER',
    direction: 'IMPORT',
    includeConsumption: true,
    priority: 'HIGH',
    validFrom: new Date().toISOString(),
  };
  for (const targetValueKw of [20, 101, 30])
    await ownTeam.operator.post(
      `/plants/${plant.id}/commands`,
      {
        family: 'site-setpoint',
        payload: { ...setpoint, targetValueKw },
        idempotencyKey: crypto.randomUUID(),
      },
      { org: ownTeam.id },
    );
  return { plant };
});

describe('GET /plants/{id}/export', () => {
  it('is a whole file whose replay finds no difference; the audit event has its last hash [C-13.4]', async ({
    ownTeam,
    scene: { plant },
  }) => {
    const { admin, id: org } = ownTeam;
    const response = await admin.call(`/plants/${plant.id}/export?${PRESENT()}`, { org });
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
    const text = await response.text();
    const lines = readExport(text);
    expect(lines.filter(({ line }) => line.kind === 'command')).toHaveLength(3);
    expect(replay(text)).toMatchObject({ judgements: 3, skipped: 0, differences: [] });
    const last = text.trimEnd().split('\n').at(-1) ?? '';
    await vi.waitFor(async () => {
      const rows = (await auditRows(org)).filter(({ event }) => event === 'plant.exported');
      expect(rows).toHaveLength(1);
      expect(JSON.stringify(rows)).toContain(sha256Hex(last));
    });
  });

  it('is in the audit log as incomplete if its client leaves', async ({
    ownTeam: { admin, id: org },
    scene: { plant },
  }) => {
    const week = timeOf(Date.now() - 7 * 24 * HOUR, Date.now());
    const response = await admin.call(`/plants/${plant.id}/export?${week}`, { org });
    const reader = response.body?.getReader();
    expect((await reader?.read())?.done).toBe(false);
    await reader?.cancel();
    await vi.waitFor(async () => {
      const rows = (await auditRows(org)).filter(({ event }) => event === 'plant.exported');
      expect(rows.map(({ details }) => JSON.parse(details ?? '').complete)).toEqual([false]);
    });
  });

  it('has two lines for a time without anything; it has only what was in its time', async ({
    ownTeam,
    scene: { plant },
  }) => {
    const { admin, id: org } = ownTeam;
    const before = timeOf(Date.now() - 3 * HOUR, Date.now() - 2 * HOUR);
    const text = await (await admin.call(`/plants/${plant.id}/export?${before}`, { org })).text();
    expect(readExport(text).map(({ line }) => line.kind)).toEqual(['plant', 'end']);
  });

  it('is for ADMINs of the organization; a wrong time gets 400', async ({
    ownTeam,
    other,
    scene: { plant },
  }) => {
    const { operator, admin, id: org } = ownTeam;
    const path = `/plants/${plant.id}/export`;
    await expectError(
      await operator.call(`${path}?${PRESENT()}`, { org }),
      403,
      'INSUFFICIENT_ORG_PERMISSIONS',
    );
    await expectError(
      await other.admin.call(`${path}?${PRESENT()}`, { org: other.id }),
      404,
      'PLANT_NOT_FOUND',
    );
    const key = await createKey(ownTeam.organization);
    await expectError(await key.call(`${path}?${PRESENT()}`), 401, 'UNAUTHORIZED');
    const now = Date.now();
    for (const wrong of ['', 'from=now&to=then', timeOf(now, now), timeOf(now, now + 8 * 24 * HOUR)])
      await expectError(await admin.call(`${path}?${wrong}`, { org }), 400, 'VALIDATION_ERROR');
  });
});
