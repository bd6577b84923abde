/** Audit events show every admin action with its actor, address, target and outcome [C-8.4]. */
import { env } from 'cloudflare:workers';
import { anonymous, bodyOf, type Call } from '#workerd/client.ts';
import { KEY_REQUEST, KEYS } from '#workerd/key-admin.ts';
import { logIn, PASSWORD, Person, uniqueEmail } from '#workerd/people.ts';
import { describe, expect, expectError, it, UUID } from '#workerd/worker-test.ts';
import { createDevice } from '#workerd/world.ts';
import { apiKeyPrefix } from '../../../protocol/api-key.ts';
import type { CreatedApiKey } from '../../../protocol/api-key-record.ts';
import type { AuditEvent } from '../../../protocol/audit.ts';
import type { InvitationRecord } from '../../../protocol/invitation.ts';
import type { Page } from '../../../protocol/page.ts';
import type { PlantRecord, SubDeviceRecord } from '../../../protocol/plant-record.ts';
import { UNLIMITED } from '../../../protocol/site-config.ts';
import { writeConnected, writeRefusedConnection } from '../../../registry/audit-events.ts';

const ADDRESS = '203.0.113.9';
const CONFIG = { constraints: null, fallback: null, operatingMode: 'PEAK_SHAVING' };
/** The client address as the platform reports it. */
const FROM = { headers: { 'cf-connecting-ip': ADDRESS } };

async function pageOf(by: Person, query = ''): Promise<Page<AuditEvent>> {
  return await by.read(`/audit-events${query}`);
}

/** The newest row of the organization. */
async function newest(by: Person): Promise<AuditEvent | undefined> {
  return (await pageOf(by, '?limit=1')).data[0];
}

function rowOf(person: Person, event: string, type: string, id: string, details: object): object {
  return {
    id: UUID,
    event,
    actor: { type: 'USER', id: person.id, name: person.email },
    target: { type, id },
    address: ADDRESS,
    outcome: 'SUCCESS',
    details,
    count: 1,
    createdAt: expect.stringMatching(/Z$/),
  };
}

describe('the row of an action', () => {
  it('a plant’s changes are audited with actor and address [C-8.4]', async ({ team }) => {
    const by = team.operator;
    const { id } = await by.create<PlantRecord>('/plants', { name: 'Dairy', timezone: 'UTC' }, FROM);
    expect(await newest(team.admin)).toEqual(rowOf(by, 'plant.created', 'PLANT', id, { name: 'Dairy' }));
    await by.change(`/plants/${id}`, { externalPlantId: null }, FROM);
    expect(await newest(team.admin)).toEqual(
      rowOf(by, 'plant.updated', 'PLANT', id, { externalPlantId: null }),
    );
    await bodyOf(await team.admin.put(`/plants/${id}/config`, CONFIG, FROM), 200);
    const put = { ...CONFIG, hardLimits: null };
    expect(await newest(team.admin)).toEqual(rowOf(team.admin, 'plant.config_updated', 'PLANT', id, put));
    await by.remove(`/plants/${id}`, FROM);
    expect(await newest(team.admin)).toEqual(rowOf(by, 'plant.deleted', 'PLANT', id, { name: 'Dairy' }));
    expect(await team.eventsAbout(id)).toHaveLength(4);
  });

  it('a sub-device’s changes are audited with actor and address [C-8.4]', async ({ team }) => {
    const by = team.operator;
    const { id: plantId } = await team.newPlant();
    const path = `/plants/${plantId}/sub-devices`;
    const body = { externalId: 'M-1', assetType: 'METER', name: 'Meter' };
    const { id } = await by.create<SubDeviceRecord>(path, body, FROM);
    await by.change(`${path}/${id}`, { name: 'Main' }, FROM);
    await by.remove(`${path}/${id}`, FROM);
    expect(await team.eventsAbout(id)).toEqual([
      rowOf(by, 'sub_device.deleted', 'SUB_DEVICE', id, { externalId: 'M-1' }),
      rowOf(by, 'sub_device.updated', 'SUB_DEVICE', id, { name: 'Main' }),
      rowOf(by, 'sub_device.created', 'SUB_DEVICE', id, { plantId, ...body }),
    ]);
  });

  it('changes of the organization and its members are audited [C-8.4]', async ({ ownTeam, person }) => {
    const [by, path] = [ownTeam.orgAdmin, `/organizations/${ownTeam.id}`];
    const settings = { restRatePerMinute: 1_000 };
    await by.change(path, { settings }, FROM);
    expect(await newest(by)).toEqual(
      rowOf(by, 'organization.updated', 'ORGANIZATION', ownTeam.id, { settings }),
    );
    const { id, email } = person;
    const role = 'VIEWER';
    const invited = await by.create<InvitationRecord>(`${path}/invitations`, { email, role }, FROM);
    expect(await newest(by)).toEqual(rowOf(by, 'member.invited', 'INVITATION', invited.id, { email, role }));
    await person.read('/invitations/accept', {
      method: 'POST',
      body: { token: invited.token, confirm: true },
      ...FROM,
    });
    expect(await newest(by)).toEqual(
      rowOf(person, 'member.joined', 'USER', id, { role, invitation: invited.id }),
    );
    await by.change(`/users/${id}`, { role: 'ADMIN' }, FROM);
    const change = { from: 'VIEWER', to: 'ADMIN' };
    expect(await newest(by)).toEqual(rowOf(by, 'member.role_changed', 'USER', id, change));
    await by.remove(`${path}/members/${id}`, FROM);
    expect(await newest(by)).toEqual(rowOf(by, 'member.removed', 'USER', id, { role: 'ADMIN' }));
    const [first] = (await pageOf(by, '?event=organization.created')).data;
    const made = rowOf(by, 'organization.created', 'ORGANIZATION', ownTeam.id, { slug: ownTeam.slug });
    expect(first).toEqual({ ...made, address: null });
  });

  it('an API key as the actor is named by its id and prefix [C-8.4]', async ({ team }) => {
    const key = await team.newKey(['plants:write']);
    const { id } = await key.create<PlantRecord>('/plants', { name: 'x' }, FROM);
    const actor = { type: 'API_KEY', id: key.id, name: apiKeyPrefix(key.key) };
    expect(await team.eventsAbout(id)).toMatchObject([{ event: 'plant.created', actor, address: ADDRESS }]);
  });

  it('the address is null if only forwarding headers report one [C-4.2]', async ({ team }) => {
    const headers = { 'x-forwarded-for': ADDRESS, 'x-real-ip': ADDRESS, forwarded: `for=${ADDRESS}` };
    const { id } = await team.operator.create<PlantRecord>('/plants', { name: 'x' }, { headers });
    expect(await team.eventsAbout(id)).toMatchObject([{ address: null }]);
  });

  it('refused changes and reads are not audited [C-8.4]', async ({ team, other }) => {
    const { id } = await team.newPlant();
    await createDevice(team.organization, id, 'GATEWAY');
    const { total } = (await pageOf(team.admin)).meta;
    const path = `/plants/${id}`;
    const withHardLimits = { ...CONFIG, hardLimits: { ...UNLIMITED, maxImportKw: 1 } };
    const refused: [Person, string, Call, number][] = [
      [team.operator, path, { method: 'DELETE' }, 409],
      [team.operator, path, { method: 'PATCH', body: { eanCons: '1' } }, 400],
      [team.viewer, path, { method: 'PATCH', body: { name: 'x' } }, 403],
      [other.operator, path, { method: 'PATCH', body: { name: 'x' } }, 404],
      [team.admin, `${path}/config`, { method: 'PUT', body: CONFIG, headers: { 'if-match': '"x"' } }, 412],
      [team.admin, `${path}/config`, { method: 'PUT', body: withHardLimits }, 403],
      [team.viewer, path, {}, 200],
      [team.viewer, `${path}/config`, {}, 200],
    ];
    for (const [by, at, options, status] of refused) {
      expect([at, (await by.call(at, options)).status]).toEqual([at, status]);
    }
    expect((await pageOf(team.admin)).meta.total).toBe(total);
  });
});

describe('GET /audit-events', () => {
  it('connected and refused partners are shown with a count (spec: Audit events)', async ({ ownTeam }) => {
    const key = await ownTeam.newKey();
    const now = Date.now() + 60_000;
    const prefix = apiKeyPrefix(key.key);
    await writeConnected(
      env.DB,
      { organizationId: ownTeam.id, keyId: key.id, keyPrefix: prefix },
      ADDRESS,
      now,
    );
    const refused = {
      organizationId: ownTeam.id,
      username: ownTeam.slug,
      address: ADDRESS,
      reason: 'revoked',
    };
    for (let time = 0; time < 3; time++) await writeRefusedConnection(env.DB, refused, now + 1);
    expect((await pageOf(ownTeam.admin, '?limit=2')).data).toMatchObject([
      {
        event: 'partner.connection_refused',
        actor: { type: 'API_KEY', id: ownTeam.slug },
        target: null,
        address: ADDRESS,
        outcome: 'FAILURE',
        details: { reason: 'revoked' },
        count: 3,
      },
      {
        event: 'partner.connected',
        actor: { type: 'API_KEY', id: key.id, name: prefix },
        target: { type: 'API_KEY', id: key.id },
        address: ADDRESS,
        outcome: 'SUCCESS',
        count: 1,
      },
    ]);
  });

  it('rows are listed in pages, newest first, and can be filtered by their exact event [C-8.4]', async ({
    ownTeam,
  }) => {
    const ids: string[] = [];
    for (const name of ['a', 'b', 'c']) ids.unshift((await ownTeam.newPlant({ name })).id);
    const targets = ({ data }: Page<AuditEvent>) => data.map(({ target }) => target?.id);
    expect(targets(await pageOf(ownTeam.admin, '?limit=3'))).toEqual(ids);
    const second = await pageOf(ownTeam.admin, '?event=plant.created&limit=2&page=2');
    expect([targets(second), second.meta]).toEqual([
      [ids[2]],
      { page: 2, limit: 2, total: 3, totalPages: 2, next: null },
    ]);
    const none = await pageOf(ownTeam.admin, '?event=plant.deleted');
    expect([none.data, none.meta.total]).toEqual([[], 0]);
  });

  it('an invalid event, cursor, range or page, or an offset over 10 000 gets 400 [C-14.3]', async ({
    ownTeam,
  }) => {
    const events = ['plant', 'plant.%', "'%20OR%201=1--", 'PLANT.CREATED', '', 'a'.repeat(101), 'a&event=b'];
    const queries = [
      ...events.map((event) => `event=${event}`),
      ...['limit=101', 'page=0', 'page=101&limit=100', 'page=10001&limit=1', 'actor=', 'from=today'],
      ...['before=x', 'before=W10', 'before=WyJhIl0', `before=${'A'.repeat(1_001)}`],
      'from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z',
      `before=${btoa('[1,"x"]').replaceAll('=', '')}&page=2`,
    ];
    for (const query of queries)
      await expectError(await ownTeam.admin.call(`/audit-events?${query}`), 400, 'VALIDATION_ERROR');
  });

  it('a cursor returns each row once, also while newer ones are added [C-14.3]', async ({ ownTeam }) => {
    const ids: string[] = [];
    for (let count = 0; count < 7; count++) ids.unshift((await ownTeam.newPlant()).id);
    const seen: (string | undefined)[] = [];
    for (let next: string | null = ''; next !== null; ) {
      const query: string = `?event=plant.created&limit=3${next === '' ? '' : `&before=${next}`}`;
      const { data, meta } = (await pageOf(ownTeam.admin, query)) as Page<AuditEvent> & {
        meta: { next: string | null };
      };
      seen.push(...data.map(({ target }) => target?.id));
      next = meta.next;
      await ownTeam.newPlant();
    }
    expect(seen).toEqual(ids);
  });

  it('equal events of one minute share one row, with their count and the details of each [C-14.3]', async ({
    ownTeam,
  }) => {
    const plant = await ownTeam.newPlant();
    const { total } = (await pageOf(ownTeam.admin)).meta;
    for (const name of ['a', 'b', 'c']) await ownTeam.operator.change(`/plants/${plant.id}`, { name });
    await ownTeam.operator.change(`/plants/${plant.id}`, { externalPlantId: 'P-1' });
    await ownTeam.admin.change(`/plants/${plant.id}`, { name: 'd' });
    const rows = (await ownTeam.eventsAbout(plant.id)).filter(({ event }) => event === 'plant.updated');
    // A minute may end between two of the changes.
    const byActor = Map.groupBy(rows, ({ actor }) => actor.id);
    const counts = [...byActor].map(([id, of]) => [id, of.reduce((sum, { count }) => sum + count, 0)]);
    expect(Object.fromEntries(counts)).toEqual({ [ownTeam.operator.id]: 4, [ownTeam.admin.id]: 1 });
    expect(rows.length).toBeLessThanOrEqual(3);
    const [newest, ...others] = byActor.get(ownTeam.operator.id) ?? [];
    expect(newest?.details).toMatchObject({ externalPlantId: 'P-1' });
    const text = JSON.stringify([newest, ...others].map((row) => row?.details));
    for (const name of ['a', 'b', 'c']) expect(text).toContain(`{"name":"${name}"}`);
    expect((await pageOf(ownTeam.admin)).meta.total).toBe(total + rows.length);
  });

  it('a row of many events shows "more" if not all details fit, and a changed client address [C-14.3]', async ({
    ownTeam,
  }) => {
    const plant = await ownTeam.newPlant();
    const change = (name: string, address: string) =>
      ownTeam.operator.change(`/plants/${plant.id}`, { name }, { headers: { 'cf-connecting-ip': address } });
    const names = Array.from({ length: 20 }, (_none, index) => `${index}`.padStart(90, 'x'));
    for (const name of names) await change(name, ADDRESS);
    await change('last', '198.51.100.7');
    for (let repeat = 0; repeat < 3; repeat++) await change('last', '198.51.100.7');
    const rows = (await ownTeam.eventsAbout(plant.id)).filter(({ event }) => event === 'plant.updated');
    expect(rows.reduce((sum, { count }) => sum + count, 0)).toBe(24);
    for (const { details } of rows)
      expect(new TextEncoder().encode(JSON.stringify(details)).length).toBeLessThanOrEqual(1_024);
    const [newest] = rows;
    // Unless a minute ended in between, it is one row.
    if (rows.length === 1)
      expect(newest).toMatchObject({
        address: ADDRESS,
        details: { name: 'last', address: '198.51.100.7', more: true },
      });
    expect(rows.at(-1)?.details.earlier ?? []).toContainEqual({ name: names[0] });
  });

  it('rows can be filtered by actor and time [C-14.3]', async ({ ownTeam, rows }) => {
    const at = Date.parse('2026-01-01T00:00:00Z');
    for (const [actor, ms] of [
      ['one', at],
      ['two', at + 1],
      ['one', at + 2],
    ] as const)
      await rows.insert('audit_events', {
        event: 'plant.created',
        organization_id: ownTeam.id,
        actor,
        created_at_ms: ms,
      });
    const actors = async (query: string) =>
      (await pageOf(ownTeam.admin, query)).data.map(({ actor }) => actor.id);
    expect(await actors('?actor=one')).toEqual(['one', 'one']);
    expect(await actors('?from=2026-01-01T00:00:00.001Z&to=2026-01-01T00:00:00.002Z')).toEqual(['two']);
  });

  it('long details are truncated to the maximum size of a row [C-14.3]', async ({ ownTeam }) => {
    const metadata = Object.fromEntries(
      Array.from({ length: 9 }, (_none, n) => [`field-${n}`, 'x'.repeat(98)]),
    );
    const device = await ownTeam.newDevice();
    await ownTeam.operator.change(`/devices/${device.id}`, { metadata, name: 'y'.repeat(100) });
    const [row] = await ownTeam.eventsAbout(device.id);
    expect(row?.event).toBe('device.updated');
    expect(JSON.stringify(row?.details).length).toBeLessThanOrEqual(1_024);
    expect(JSON.stringify(row?.details)).toContain('metadata');
  });

  it('rows of another organization, or of none, are never shown [C-1.3]', async ({ team, other, rows }) => {
    const mine = await team.newPlant();
    const theirs = await other.newPlant();
    const { total } = (await pageOf(team.admin)).meta;
    await rows.insert('audit_events', { event: 'user.created', organization_id: null });
    await rows.insert('audit_events', { event: 'user.created', organization_id: other.id });
    expect((await pageOf(team.admin, '?event=user.created')).data).toEqual([]);
    expect((await pageOf(team.admin)).meta.total).toBe(total);
    expect(await team.eventsAbout(theirs.id)).toEqual([]);
    const seen = (await pageOf(other.admin, '?limit=100')).data;
    expect(seen.some(({ target }) => target?.id === mine.id)).toBe(false);
    expect(seen.some(({ target }) => target?.id === theirs.id)).toBe(true);
  });

  it('outcomes in lower case are shown in upper case [C-8.4]', async ({ team, rows }) => {
    const old = { actor: 'k', target: 'k', organization_id: team.id, created_at_ms: Date.now() + 3_600_000 };
    for (const [outcome, expected] of [
      ['success', 'SUCCESS'],
      ['failure', 'FAILURE'],
    ]) {
      const event = outcome === 'success' ? 'user.created' : 'user.locked';
      await rows.insert('audit_events', { ...old, event, outcome: outcome ?? '' });
      const [row] = (await pageOf(team.admin, `?event=${event}`)).data;
      expect(row).toMatchObject({ actor: { type: 'API_KEY', id: 'k' }, outcome: expected });
    }
  });

  it('rows about passwords, tokens and keys have none of them (bad input: REST)', async ({ ownTeam }) => {
    const { viewer, orgAdmin, id: org } = ownTeam;
    const [wrong, next] = ['a wrong horse battery', 'another horse battery'];
    await logIn(viewer.email, wrong);
    const again = await Person.logIn(viewer.email);
    await again.read('/auth/change-password', {
      method: 'POST',
      body: { currentPassword: PASSWORD, newPassword: next },
    });
    const made = await orgAdmin.create<CreatedApiKey>(KEYS, KEY_REQUEST, { org });
    const invitation = await ownTeam.invite(uniqueEmail());
    const device = await ownTeam.newTokenDevice();
    const token = await ownTeam.newToken(device.id);
    const { hmacSecret } = await ownTeam.rotateSecret(device.id);
    const { data } = await pageOf(ownTeam.admin, '?limit=100');
    expect(data.map(({ event }) => event)).toEqual(
      expect.arrayContaining([
        'user.login_failed',
        'user.logged_in',
        'user.password_changed',
        'api_key.created',
        'member.invited',
        'device.provisioned',
        'device.token_issued',
        'device.secret_rotated',
      ]),
    );
    const passwords = [PASSWORD, wrong, next];
    const keys = [made.key, made.signingKey, device.hmacSecret, hmacSecret];
    const tokens = [again.accessToken, again.refreshToken, invitation.token, device.token, token];
    const text = JSON.stringify(data);
    for (const secret of [...passwords, ...keys, ...tokens]) {
      expect(secret.length).toBeGreaterThan(9);
      expect(text).not.toContain(secret);
    }
    // Nor their hashes: SHA-256 in hex, and scrypt.
    expect(text).not.toMatch(/[0-9a-f]{64}|scrypt/i);
    for (const { details } of data)
      expect(Object.keys(details).join()).not.toMatch(/password|hash|secret|token/i);
  });

  it('a client without a credential gets 401 (bad input: REST)', async () => {
    await expectError(await anonymous.call('/audit-events'), 401, 'UNAUTHORIZED');
  });
});
