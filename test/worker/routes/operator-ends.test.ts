/** How the operator suspends, reactivates and deletes an organization, and deletes an account [C-14.1]. */
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { anonymous, bodyOf } from '#workerd/client.ts';
import { auditOf } from '#workerd/commits.ts';
import { countOf, runSql } from '#workerd/d1.ts';
import { renew, renewal } from '#workerd/device-tokens.ts';
import { connectForCommands } from '#workerd/devices.ts';
import { auditRows, dialAmqp, dialMqtt } from '#workerd/door.ts';
import { openLink, type VhostTestLink } from '#workerd/links.ts';
import { operator } from '#workerd/operator.ts';
import { Person } from '#workerd/people.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import { ALL_VCP_SCOPES, siteOf, vhostOf } from '#workerd/world.ts';
import { Site } from '../../../durable-objects/site.ts';
import { Vhost } from '../../../durable-objects/vhost.ts';
import type { AuditEvent } from '../../../protocol/audit.ts';
import type { VhostLinkDown, VhostLinkUp } from '../../../protocol/link/vhost.ts';
import type { Page } from '../../../protocol/page.ts';
import { activateKey } from '../../../registry/api-keys.ts';
import { eraseRemains } from '../../../worker/lifecycle/organization-end.ts';

const REASON = { reason: 'the account was taken over' };

function pathOf({ id }: Team, action = ''): string {
  return `/platform/organizations/${id}${action}`;
}

function deleteUser({ email }: Person): Promise<Response> {
  return operator.post('/platform/users/delete', { email });
}

async function suspend(team: Team): Promise<void> {
  expect(await bodyOf(await operator.post(pathOf(team, '/suspend'), REASON), 200)).toMatchObject({
    id: team.id,
    status: 'SUSPENDED',
  });
}

async function reactivate(team: Team): Promise<void> {
  expect(await bodyOf(await operator.post(pathOf(team, '/reactivate'), undefined), 200)).toMatchObject({
    status: 'ACTIVE',
  });
}

async function connectPartner(team: Team, key: { key: string }): Promise<VhostTestLink> {
  return openLink<VhostLinkUp, VhostLinkDown>(await dialAmqp(team.organization, key));
}

function tablesOf({ sql }: DurableObjectStorage): unknown[] {
  return sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray();
}

describe('a suspended organization', () => {
  it('loses its links and gets 401 or 403 immediately; after its reactivation all works again', async ({
    ownTeam,
  }) => {
    const plant = await ownTeam.newPlant();
    const device = await ownTeam.newTokenDevice({ plantId: plant.id });
    const alone = await ownTeam.newTokenDevice();
    const key = await ownTeam.newKey();
    const partner = await connectPartner(ownTeam, key);
    const [gateway, other] = [await connectForCommands(device), await connectForCommands(alone)];
    await suspend(ownTeam);

    expect((await partner.untilClosed()).reason).toBe('organization suspended');
    expect((await gateway.untilClosed()).reason).toBe('organization suspended');
    await vi.waitFor(() => expect(other.closed).toBeDefined());
    await expectError(await key.call('/vcp/sites'), 401, 'UNAUTHORIZED');
    expect((await dialAmqp(ownTeam.organization, key)).status).toBe(401);
    for (const one of [device, alone]) expect((await dialMqtt(one.id, one.token)).status).toBe(401);
    for (const member of ownTeam.members) {
      await expectError(await member.call('/plants'), 403, 'FORBIDDEN');
      await expectError(await member.call(`/organizations/${ownTeam.id}`), 403, 'FORBIDDEN');
      // Their own accounts are not suspended.
      expect((await member.call('/auth/me')).status).toBe(200);
    }
    const refused = (await auditRows(ownTeam.id)).filter(
      ({ event }) => event === 'partner.connection_refused',
    );
    expect(refused.map(({ target, details }) => [target, JSON.parse(details)])).toMatchObject([
      [key.id, { reason: 'suspended organization' }],
    ]);

    await reactivate(ownTeam);
    expect(await ownTeam.viewer.read(`/plants/${plant.id}`)).toMatchObject({ id: plant.id });
    expect((await key.call('/vcp/sites')).status).toBe(200);
    await connectPartner(ownTeam, key);
    await connectForCommands(device);
    await connectForCommands(alone);
  });

  it('gets 401 UNAUTHORIZED for its keys on all their routes and dials, and for the dials and renewals of its devices [C-14.2]', async ({
    ownTeam,
  }) => {
    const plant = await ownTeam.newPlant();
    const device = await ownTeam.newTokenDevice({ plantId: plant.id });
    const key = await ownTeam.newKey([...ALL_VCP_SCOPES, 'plants:read']);
    const paths = ['/vcp/sites', `/vcp/sites/${plant.id}/config`, '/plants', `/plants/${plant.id}`];
    const answers = () => [
      ...paths.map((path) => key.call(path)),
      dialAmqp(ownTeam.organization, key),
      dialMqtt(device.id, device.token),
      renew(device.id, renewal(device)),
    ];
    const statuses = (await Promise.all(answers())).map(({ status }) => status);
    expect(statuses).toEqual([200, 200, 200, 200, 101, 101, 200]);
    await suspend(ownTeam);
    const refused = [];
    for (const answer of await Promise.all(answers()))
      refused.push((await expectError(answer, 401, 'UNAUTHORIZED')).message);
    expect(refused[paths.length]).toBe('The operator has suspended the organization: ask the operator why');
    await reactivate(ownTeam);
    const { connects } = await ownTeam.diagnosticsOf(device.id);
    expect(connects.map(({ reason }) => reason)).toContain('the organization is suspended');
  });

  it('gets 401 from its objects even if the registry does not yet refuse its dials (rule 6)', async ({
    ownTeam,
  }) => {
    const plant = await ownTeam.newPlant();
    const device = await ownTeam.newTokenDevice({ plantId: plant.id });
    const key = await ownTeam.newKey();
    await (await connectPartner(ownTeam, key)).socket.close();
    await suspend(ownTeam);
    // As if the Worker had checked the dials before the suspension was stored.
    await runSql('UPDATE organizations SET suspended_at_ms = NULL WHERE id = ?', ownTeam.id);
    await expectError(await dialAmqp(ownTeam.organization, key), 401, 'UNAUTHORIZED');
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
  });

  it('gets no key whose creation was under way, not even after its reactivation', async ({ ownTeam }) => {
    const key = await ownTeam.newKey(undefined, { state: 'probing' });
    await suspend(ownTeam);
    const of = { id: key.id, organizationId: ownTeam.id, createdBy: ownTeam.orgAdmin.id };
    const audit = auditOf(ownTeam.organization, 'api_key.created', 'API_KEY')(key.id);
    expect(await activateKey(env.DB, of, audit, Date.now())).toBe('gone');
    await reactivate(ownTeam);
    await runSql("UPDATE memberships SET role = 'ADMIN' WHERE user_id = ?", ownTeam.orgAdmin.id);
    expect(await activateKey(env.DB, of, audit, Date.now())).toBe('gone');
  });

  it('gets 409 if suspended again, an active one if reactivated or deleted; an unknown one gets 404', async ({
    ownTeam,
  }) => {
    await expectError(await operator.post(pathOf(ownTeam, '/reactivate'), undefined), 409, 'CONFLICT');
    await expectError(await operator.delete(pathOf(ownTeam)), 409, 'CONFLICT');
    await suspend(ownTeam);
    const again = await operator.post(pathOf(ownTeam, '/suspend'), REASON);
    const { message } = await expectError(again, 409, 'CONFLICT');
    expect(message).toContain('SUSPENDED');
    const absent = `/platform/organizations/${crypto.randomUUID()}`;
    await expectError(await operator.post(`${absent}/suspend`, REASON), 404, 'ORGANIZATION_NOT_FOUND');
    await expectError(await operator.delete(absent), 404, 'ORGANIZATION_NOT_FOUND');
    await expectError(await operator.post(pathOf(ownTeam, '/suspend'), {}), 400, 'VALIDATION_ERROR');
  });
});

describe('a deleted organization', () => {
  it('has no keys, members, plants or devices left; its audit events stay, and its slug stays taken', async ({
    ownTeam,
  }) => {
    const plant = await ownTeam.newPlant();
    await ownTeam.newSubDevice(plant.id);
    const device = await ownTeam.newTokenDevice({ plantId: plant.id });
    const alone = await ownTeam.newTokenDevice();
    const key = await ownTeam.newKey();
    await ownTeam.command(device.id);
    const { id, slug, orgAdmin } = ownTeam;
    await suspend(ownTeam);
    const deleted = await bodyOf(await operator.delete(pathOf(ownTeam)), 200);
    expect(deleted).toMatchObject({ id, status: 'DELETED' });
    for (const table of ['memberships', 'invitations', 'support_sessions'])
      expect([table, await countOf(table, 'organization_id = ?', id)]).toEqual([table, 0]);
    await expectError(await orgAdmin.call(`/organizations/${id}`), 404, 'ORGANIZATION_NOT_FOUND');
    await expectError(await operator.call(pathOf(ownTeam, '/limits')), 404, 'ORGANIZATION_NOT_FOUND');
    await expectError(await operator.post(pathOf(ownTeam, '/reactivate'), undefined), 409, 'CONFLICT');

    // More alerts than one round deletes, and the objects of a plant and a key that fail once.
    await env.DB.prepare(
      `INSERT INTO alerts (id, organization_id, type, severity, status, message, first_seen_at_ms, last_seen_at_ms, count)
       SELECT 'of-' || ?1 || key, ?1, 'THRESHOLD', 'INFO', 'ACTIVE', 'x', 1, 1, 1 FROM json_each(?2)`,
    )
      .bind(id, JSON.stringify(new Array(6_000).fill(0)))
      .run();
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    const fail = () => {
      throw new Error('the object fails');
    };
    vi.spyOn(Site.prototype, 'erase').mockImplementationOnce(fail);
    vi.spyOn(Vhost.prototype, 'discard').mockImplementationOnce(fail);
    for (let round = 0; round < 4; round++) await eraseRemains(env);
    vi.restoreAllMocks();
    for (const table of ['plants', 'devices', 'api_keys', 'alert_rules', 'alerts', 'registry_changes'])
      expect([table, await countOf(table, 'organization_id = ?', id)]).toEqual([table, 0]);
    expect((await dialMqtt(device.id, device.token)).status).toBe(401);
    for (const siteId of [plant.id, alone.id])
      expect(await runInDurableObject(siteOf(siteId), (_site, { storage }) => tablesOf(storage))).toEqual([]);
    expect(await vhostOf(key.id).sealedBy()).toEqual({});
    expect((await auditRows(id)).map(({ event }) => event)).toContain('plant.created');
    await expectError(await orgAdmin.post('/organizations', { name: 'Again', slug }), 409, 'CONFLICT');
    const found = await operator.read<Page<object>>(`/platform/organizations?slug=${slug}`);
    expect(found).toMatchObject({ data: [{ id, slug, name: '', status: 'DELETED' }], meta: { total: 1 } });
  });
});

describe('a deleted account', () => {
  it('leaves nothing personal: sessions end, and the audit log keeps only the id', async ({ ownTeam }) => {
    const { id, admin } = ownTeam;
    const leaver = await Person.register('Jana');
    const invited = await ownTeam.invite(leaver.email, 'ADMIN');
    const accepted = { token: invited.token, confirm: true };
    const from = { headers: { 'cf-connecting-ip': '203.0.113.9' } };
    expect((await leaver.post('/invitations/accept', accepted, from)).status).toBe(200);
    await leaver.create('/plants', { name: 'Dairy', timezone: 'UTC' }, from);
    const texts = async () => JSON.stringify((await admin.read<Page<AuditEvent>>('/audit-events')).data);
    expect(await texts()).toContain(leaver.email);

    expect(await bodyOf(await deleteUser(leaver), 200)).toEqual({ userId: leaver.id, deleted: true });
    await expectError(await leaver.call('/auth/me'), 401, 'TOKEN_VERSION_MISMATCH');
    expect(await texts()).not.toContain(leaver.email);
    const { data } = await admin.read<Page<AuditEvent>>(`/audit-events?actor=${leaver.id}`);
    expect(data.map(({ event, actor, address }) => [event, actor, address])).toEqual([
      ['plant.created', { type: 'USER', id: leaver.id }, null],
      ['member.joined', { type: 'USER', id: leaver.id }, null],
    ]);
    const { meta } = await admin.read<Page<object>>(`/organizations/${id}/members`);
    expect(meta.total).toBe(4);
    // The address is free again, and nobody logs in to what is left.
    await expectError(await deleteUser(leaver), 404, 'NOT_FOUND');
    const row = env.DB.prepare('SELECT email, name FROM users WHERE id = ?').bind(leaver.id);
    const { email = '', name } = (await row.first<{ email: string; name: string }>()) ?? {};
    expect([email.endsWith('@deleted.invalid'), email.includes(leaver.id), name]).toEqual([
      true,
      false,
      'Deleted user',
    ]);
    const login = { email, password: 'correct horse battery' };
    await expectError(await anonymous.post('/auth/login', login), 401, 'INVALID_CREDENTIALS');
    expect((await auditRows(id)).map(({ event }) => event)).toContain('user.deleted');
  });

  it('cannot be that of the only ORG_ADMIN of an organization: 409, and the message names it', async ({
    ownTeam,
  }) => {
    const { message } = await expectError(await deleteUser(ownTeam.orgAdmin), 409, 'CONFLICT');
    expect(message).toContain(ownTeam.slug);
  });
});
