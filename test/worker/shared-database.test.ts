/** D1 is shared: how many changes an organization may make, how large they are, and what they leave [C-14.2]. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { fireAlert } from '#workerd/alerts.ts';
import { anonymous } from '#workerd/client.ts';
import { auditOf, done } from '#workerd/commits.ts';
import { countOf, runSql, valueFrom, valuesFrom } from '#workerd/d1.ts';
import { operator } from '#workerd/operator.ts';
import { send } from '#workerd/rest.ts';
import { stopClock } from '#workerd/site-clock.ts';
import { Team } from '#workerd/team.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { changeOrganization } from '../../registry/organizations.ts';
import { deletePlant } from '../../registry/plants.ts';

const LEAST = 5;

async function limitChanges({ id }: Team, changesPerMinute: number): Promise<void> {
  await operator.change(`/platform/organizations/${id}/limits`, { changesPerMinute });
}

describe('the changes of an organization', () => {
  it('are counted together for all its members and keys; over the ceiling they get 429 and change nothing [C-14.2]', async () => {
    const now = stopClock();
    const team = await Team.create();
    const key = await team.newKey(['plants:write', 'plants:read']);
    await limitChanges(team, LEAST);
    await team.operator.create('/plants', { name: 'a', timezone: 'UTC' });
    await team.admin.create('/plants', { name: 'b', timezone: 'UTC' });
    await key.create('/plants', { name: 'c', timezone: 'UTC' });
    await team.orgAdmin.change(`/organizations/${team.id}`, { name: 'changed' });
    // Refused for its body, but it has been counted: it could have changed something.
    await expectError(await team.operator.post('/plants', {}), 400, 'VALIDATION_ERROR');
    vi.setSystemTime(now + 17_500);
    for (const by of [team.operator, team.orgAdmin, key]) {
      const refused = await by.post('/plants', { name: 'd', timezone: 'UTC' });
      expect(refused.headers.get('retry-after')).toBe('43');
      const { message } = await expectError(refused, 429, 'TOO_MANY_REQUESTS');
      expect(message).toContain(`More than ${LEAST} changes of the organization in a minute`);
    }
    const { meta } = await team.viewer.read<{ meta: { total: number } }>('/plants');
    expect(meta.total).toBe(3);
    vi.setSystemTime(now + 60_000);
    await team.operator.create('/plants', { name: 'd', timezone: 'UTC' });
  });

  it('over the limit get 429, except those that take access away: delete, suspend and revoke [C-14.2]', async () => {
    stopClock();
    const team = await Team.create();
    const key = await team.newKey(['plants:read']);
    const [first, second] = [await team.newTokenDevice(), await team.newTokenDevice()];
    // Two devices were created and provisioned.
    await limitChanges(team, 5);
    await team.admin.create('/plants', { name: 'a', timezone: 'UTC' });
    await expectError(await team.admin.post('/plants', {}), 429, 'TOO_MANY_REQUESTS');
    const { id, orgAdmin, admin } = team;
    for (const [by, method, path] of [
      [orgAdmin, 'DELETE', `/partner/api-keys/${key.id}`],
      [admin, 'POST', `/devices/${first.id}/suspend`],
      [admin, 'POST', `/devices/${second.id}/revoke`],
      [orgAdmin, 'DELETE', `/organizations/${id}/members/${team.operator.id}`],
    ] as const)
      expect([path, (await by.call(path, { method, headers: { 'x-org-id': id } })).status]).toEqual([
        path,
        200,
      ]);
    await expectError(await admin.operate(first.id, 'reactivate'), 429, 'TOO_MANY_REQUESTS');
  });

  it('are counted without reads, requests that get 401 or 403, and the changes of another organization [C-14.2]', async () => {
    stopClock();
    const [team, other] = [await Team.create(), await Team.create()];
    await limitChanges(team, 1);
    for (let count = 0; count < 3; count++) {
      await expectError(await team.viewer.post('/plants', {}), 403, 'INSUFFICIENT_ORG_PERMISSIONS');
      await expectError(await anonymous.post('/plants', {}), 401, 'UNAUTHORIZED');
      await team.viewer.read('/plants');
      await other.newPlant();
    }
    await team.newPlant();
    await expectError(await team.operator.post('/plants', {}), 429, 'TOO_MANY_REQUESTS');
  });
});

describe('the body of a request', () => {
  const json = (bytes: number) => ({
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `"${'x'.repeat(bytes - 2)}"`,
  });

  it('may have 64 KiB on a route that needs no credential: one byte more gets 413, announced by Content-Length or not [C-14.2]', async () => {
    const { publicBodyBytes: most } = LIMIT;
    const post = (bytes: number, isAnnounced: boolean) => {
      const { headers, ...rest } = json(bytes);
      const length: Record<string, string> = isAnnounced ? { 'content-length': String(bytes) } : {};
      return send('/api/v1/auth/login', { ...rest, headers: { ...headers, ...length } });
    };
    for (const isAnnounced of [true, false]) {
      await expectError(await post(most, isAnnounced), 400, 'VALIDATION_ERROR');
      const { message } = await expectError(await post(most + 1, isAnnounced), 413, 'PAYLOAD_TOO_LARGE');
      expect(message).toContain(String(most));
    }
    const inTwoByteLetters = { ...json(most), body: `"${'č'.repeat(most / 2)}"` };
    await expectError(await send('/api/v1/auth/login', inTwoByteLetters), 413, 'PAYLOAD_TOO_LARGE');
  });

  it('is not parsed if the caller gets 401 [C-14.2]', async () => {
    const parse = vi.spyOn(JSON, 'parse');
    const malformed = { ...json(1_000_000), body: `{${'"'.repeat(999_999)}` };
    await expectError(await send('/api/v1/plants', malformed), 401, 'UNAUTHORIZED');
    expect(parse.mock.calls.some(([text]) => String(text).length > 100_000)).toBe(false);
    parse.mockRestore();
  });
});

describe('the alerts of an organization', () => {
  const alertCountOf = ({ id }: Team) => valueFrom('SELECT alert_count FROM organizations WHERE id = ?', id);

  it('over the limit replace the resolved alert with the earliest resolvedAt or, if all are open, the oldest one [C-14.2]', async ({
    ownTeam,
  }) => {
    const { id } = ownTeam;
    const fill = (status: string, count: number, prefix: string) =>
      runSql(
        `INSERT INTO alerts (id, organization_id, type, severity, status, message, first_seen_at_ms, last_seen_at_ms, count, resolved_at_ms)
         SELECT ?1 || key, ?2, 'THRESHOLD', 'INFO', ?3, 'x', key, key, 1, iif(?3 = 'RESOLVED', 1000 + key, NULL) FROM json_each(?4)`,
        `${prefix}-${id}-`,
        id,
        status,
        JSON.stringify(new Array(count).fill(0)),
      );
    const stored = async (alertId: string) => (await countOf('alerts', 'id = ?', alertId)) === 1;
    const counted = () => alertCountOf(ownTeam);
    await fill('RESOLVED', 2, 'resolved');
    await fill('ACTIVE', LIMIT.alertsKept - 2, 'active');
    expect(await counted()).toBe(LIMIT.alertsKept);
    const first = await fireAlert(id);
    expect([await stored(first), await stored(`resolved-${id}-0`), await stored(`resolved-${id}-1`)]).toEqual(
      [true, false, true],
    );
    const second = await fireAlert(id);
    const third = await fireAlert(id);
    expect([await stored(second), await stored(third), await stored(`active-${id}-0`)]).toEqual([
      true,
      true,
      false,
    ]);
    expect(await counted()).toBe(LIMIT.alertsKept);
  });

  it('are counted once for an alert that is reported twice [C-14.2]', async ({ ownTeam }) => {
    const alertId = crypto.randomUUID();
    for (let repeat = 0; repeat < 2; repeat++) await fireAlert(ownTeam.id, { id: alertId });
    expect(await alertCountOf(ownTeam)).toBe(1);
  });
});

describe('an announcement to all objects', () => {
  it('replaces earlier undelivered ones to the same objects, and keeps one to a deleted plant’s Site [C-14.2]', async ({
    ownTeam,
    other,
  }) => {
    const { organization } = ownTeam;
    const gone = await ownTeam.newPlant();
    await ownTeam.newPlant();
    await ownTeam.newKey();
    const audit = auditOf(organization, 'organization.updated', 'ORGANIZATION')(ownTeam.id);
    const settings = { telemetryIntervalSeconds: 20 };
    const change = async () =>
      (await changeOrganization(env.DB, ownTeam.id, { settings }, audit, Date.now())).id;
    await runSql('DELETE FROM registry_changes WHERE organization_id = ?', ownTeam.id);
    await other.newPlant();
    await change();
    // The Site of the deleted plant must still get the deletion.
    const whose = { organizationId: ownTeam.id, id: gone.id };
    const deletion = done(await deletePlant(env.DB, whose, audit, Date.now()));
    const ids = [await change(), await change(), await change()];
    const sql = 'SELECT id FROM registry_changes WHERE organization_id = ? ORDER BY version';
    const left = await valuesFrom(sql, ownTeam.id);
    expect(left).toContain(deletion.id);
    expect(left.slice(-1)).toEqual(ids.slice(-1));
    expect(left.filter((one) => ids.includes(String(one)))).toHaveLength(1);
  });
});
