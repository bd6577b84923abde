/** The revocation of an API key whose request is interrupted: the key's object finishes it, with its audit event [C-8.4]. */
import { countOf, rowsFrom, runSql } from '#workerd/d1.ts';
import { keyAdminTest } from '#workerd/key-admin.ts';
import { holdClock, passVhostTime, SECOND } from '#workerd/site-clock.ts';
import { describe, expect } from '#workerd/worker-test.ts';

holdClock();

/** Lets no update of this key in D1 pass until the returned function is called. */
async function breakUpdates(id: string): Promise<() => Promise<void>> {
  const name = `broken_${id.replaceAll('-', '')}`;
  await runSql(
    `CREATE TRIGGER ${name} BEFORE UPDATE ON api_keys WHEN NEW.id = '${id}' BEGIN SELECT RAISE(ABORT, 'broken'); END`,
  );
  return async () => {
    await runSql(`DROP TRIGGER IF EXISTS ${name}`);
  };
}

interface AuditRow {
  actor: string;
  actor_type: string;
  address: string | null;
  details: string;
}

const it = keyAdminTest.extend(
  'revocations',
  ({ ownTeam }) =>
    (id: string) =>
      rowsFrom<AuditRow>(
        `SELECT actor, actor_type, address, details FROM audit_events
         WHERE organization_id = ? AND event = 'api_key.revoked' AND target = ?`,
        ownTeam.id,
        id,
      ),
);

describe('a revocation that the key’s object makes', () => {
  it('has its audit event, once, with the person who asked for it, although the request failed [C-8.4]', async ({
    keys,
    ownTeam,
    revocations,
  }) => {
    const { apiKey } = await keys.make();
    const repair = await breakUpdates(apiKey.id);
    try {
      const failed = await keys.ask(`/${apiKey.id}`, { method: 'DELETE' });
      expect(failed.status).toBeGreaterThanOrEqual(500);
      expect(await revocations(apiKey.id)).toEqual([]);
    } finally {
      await repair();
    }
    await passVhostTime({ id: apiKey.id }, 30 * SECOND);
    expect(await countOf('api_keys', 'id = ? AND revoked_at_ms IS NOT NULL', apiKey.id)).toBe(1);
    const [row, ...more] = await revocations(apiKey.id);
    expect(more).toEqual([]);
    expect(row).toMatchObject({ actor: ownTeam.orgAdmin.id, actor_type: 'USER' });
    expect(JSON.parse(row?.details ?? '{}')).toEqual({ keyPrefix: apiKey.keyPrefix });
    // The admin repeats the request that got no answer.
    expect((await keys.ask(`/${apiKey.id}`, { method: 'DELETE' })).status).toBe(200);
    expect(await revocations(apiKey.id)).toHaveLength(1);
  });

  it('has one audit event where the request has written it already [C-8.4]', async ({
    keys,
    revocations,
  }) => {
    const { apiKey } = await keys.make();
    expect((await keys.ask(`/${apiKey.id}`, { method: 'DELETE' })).status).toBe(200);
    await passVhostTime({ id: apiKey.id }, 30 * SECOND);
    expect(await revocations(apiKey.id)).toHaveLength(1);
    expect((await keys.ask(`/${apiKey.id}`, { method: 'DELETE' })).status).toBe(200);
    expect(await revocations(apiKey.id)).toHaveLength(1);
  });
});
