/**
 * Limits of counts when requests come at once: the statement that inserts counts, too, so there are never more things
 * than the limit, and each request over it is refused [C-14.2].
 */
import { RULE } from '#workerd/alert-rest.ts';
import { countOf, runSql } from '#workerd/d1.ts';
import { registration } from '#workerd/devices.ts';
import { KEY_REQUEST, KEYS } from '#workerd/key-admin.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import type { ApiErrorCode } from '../../../protocol/errors.ts';
import { LIMIT } from '../../../protocol/limits.ts';

const AT_ONCE = 8;

async function setCeiling({ id }: Team, name: string, most: number): Promise<void> {
  await runSql(
    'UPDATE organizations SET ceilings = json_set(ceilings, ?, ?) WHERE id = ?',
    `$.${name}`,
    most,
    id,
  );
}

/** Of requests at once exactly one succeeds, and each of the others is refused and names the limit. */
async function expectOne(
  post: (index: number) => Promise<Response>,
  most: number,
  [status, code]: readonly [number, ApiErrorCode] = [409, 'CONFLICT'],
): Promise<void> {
  const answers = await Promise.all(Array.from({ length: AT_ONCE }, (_none, index) => post(index)));
  expect(answers.map((answer) => answer.status).sort()).toEqual([201, ...Array(AT_ONCE - 1).fill(status)]);
  for (const answer of answers.filter((one) => one.status === status))
    expect((await expectError(answer, status, code)).message).toContain(String(most));
}

describe('the limits of counts', () => {
  it('holds for plants that are created at once [C-14.2]', async ({ ownTeam }) => {
    await ownTeam.newPlant();
    await setCeiling(ownTeam, 'plants', 2);
    await expectOne((index) => ownTeam.operator.post('/plants', { name: `Plant ${index}` }), 2);
    expect(await countOf('plants', 'organization_id = ?', ownTeam.id)).toBe(2);
  });

  it('holds for devices, and their counter stays exact', async ({ ownTeam }) => {
    const most = LIMIT.devicesPerOrganization;
    await runSql('UPDATE organizations SET device_count = ? WHERE id = ?', most - 1, ownTeam.id);
    await expectOne(() => ownTeam.operator.post('/devices', registration()), most);
    expect(await countOf('devices', 'organization_id = ?', ownTeam.id)).toBe(1);
    expect(await countOf('organizations', 'id = ? AND device_count = ?', ownTeam.id, most)).toBe(1);
  });

  it('holds for sub-devices', async ({ ownTeam }) => {
    const { id } = await ownTeam.newPlant();
    const most = LIMIT.subDevicesPerPlant;
    await runSql(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO sub_devices (id, plant_id, external_id, asset_type, name, created_at_ms)
       SELECT lower(hex(randomblob(16))), ?, 'N-' || i, 'GENERIC', 'One', 1 FROM n`,
      most - 1,
      id,
    );
    const one = (index: number) => ({ externalId: `M-${index}`, assetType: 'METER', name: 'Meter' });
    await expectOne((index) => ownTeam.operator.post(`/plants/${id}/sub-devices`, one(index)), most);
    expect(await countOf('sub_devices', 'plant_id = ?', id)).toBe(most);
  });

  it('holds for alert rules [C-14.2]', async ({ ownTeam }) => {
    await setCeiling(ownTeam, 'alertRules', 1);
    await expectOne(() => ownTeam.operator.post('/alerts', RULE), 1);
    expect(await countOf('alert_rules', 'organization_id = ?', ownTeam.id)).toBe(1);
  });

  it('holds for the invitations of a day [C-14.2]', async ({ ownTeam }) => {
    await setCeiling(ownTeam, 'invitationsPerDay', 1);
    const path = `/organizations/${ownTeam.id}/invitations`;
    const body = (index: number) => ({ email: `limit-${index}-${ownTeam.id}@example.org`, role: 'VIEWER' });
    await expectOne((index) => ownTeam.orgAdmin.post(path, body(index)), 1, [429, 'TOO_MANY_REQUESTS']);
    expect(await countOf('invitations', 'organization_id = ?', ownTeam.id)).toBe(1);
  });

  it('holds for API keys', async ({ ownTeam }) => {
    const org = ownTeam.id;
    const most = LIMIT.keysPerOrganization;
    await runSql(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       INSERT INTO api_keys (id, organization_id, key_hash, key_prefix, name, partner_id, scopes, created_by, created_at_ms, updated_at_ms)
       SELECT lower(hex(randomblob(16))), ?, lower(hex(randomblob(32))), 'sw_x', 'Key', 'partner', '["plants:read"]', ?, 1, 1 FROM n`,
      most - 1,
      org,
      ownTeam.orgAdmin.id,
    );
    const body = { ...KEY_REQUEST, scopes: ['plants:read'] };
    await expectOne(() => ownTeam.orgAdmin.post(KEYS, body, { org }), most);
    expect(await countOf('api_keys', 'organization_id = ?', org)).toBe(most);
  });
});
