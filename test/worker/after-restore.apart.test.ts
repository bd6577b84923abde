/**
 * What the steps of `after-restore` do with each kind of event and each kind of object. Here rows of an earlier time replace
 * those of D1; test/system/d1-restored.test.ts replaces all of it.
 */
import { anonymous, bodyOf } from '#workerd/client.ts';
import { countOf, rowsFrom, runSql, valueFrom } from '#workerd/d1.ts';
import { operator } from '#workerd/operator.ts';
import { PASSWORD, uniqueEmail } from '#workerd/people.ts';
import { Team } from '#workerd/team.ts';
import { addWebhook } from '#workerd/webhooks.ts';
import { describe, expect, expectError, expectInvalid, it } from '#workerd/worker-test.ts';
import type { SavedEvent } from '../../protocol/after-restore.ts';
import type { AuditEvent } from '../../protocol/audit.ts';
import type { AuditEventName } from '../../protocol/audit-names.ts';

const STEP = '/platform/after-restore';

interface Done {
  count: number;
  lines: { isApplied: boolean; text: string }[];
  next: string | null;
}

async function take(step: string, more: object = {}): Promise<Done> {
  return await bodyOf<Done>(await operator.post(STEP, { step, ...more }), 200);
}

/** The rows of a table, and a function that replaces the present ones with them. */
async function kept(table: string, where: string, ...values: unknown[]): Promise<() => Promise<void>> {
  const rows = await rowsFrom<Record<string, unknown>>(`SELECT * FROM ${table} WHERE ${where}`, ...values);
  expect(rows.length).toBeGreaterThan(0);
  return async () => {
    for (const row of rows) {
      const columns = Object.keys(row);
      const places = columns.map(() => '?').join(', ');
      await runSql(
        `INSERT OR REPLACE INTO ${table} (${columns.join(', ')}) VALUES (${places})`,
        ...Object.values(row),
      );
    }
  };
}

/** The newest saved event of this name about the target. */
async function savedOf(team: Team | null, event: AuditEventName, targetId: string): Promise<SavedEvent> {
  const whose = team ? `&organizationId=${team.id}` : '';
  const path = `/platform/audit-events?limit=100&from=2020-01-01T00:00:00Z${whose}`;
  const { data } = await operator.read<{ data: AuditEvent[] }>(path);
  const found = data.find((one) => one.event === event && one.target?.id === targetId);
  if (!found) throw new Error(`no ${event} of ${targetId}`);
  return { organizationId: team?.id ?? null, event: found };
}

async function apply(saved: SavedEvent): Promise<Done['lines']> {
  return (await take('apply', { events: [saved] })).lines;
}

/** Applies the event twice: the second time there is nothing to do. */
async function expectApplied(saved: SavedEvent, text: string): Promise<void> {
  const id = saved.event.target?.id;
  expect(await apply(saved)).toEqual([
    { isApplied: true, text: expect.stringMatching(new RegExp(`${id}: .*${text}`)) },
  ]);
  expect(await apply(saved)).toEqual([]);
}

async function expectOpen(saved: SavedEvent, text: string): Promise<void> {
  const id = saved.event.target?.id;
  const line = { isApplied: false, text: expect.stringMatching(new RegExp(`${id}: .*${text}`)) };
  expect(await apply(saved)).toEqual([line]);
  expect(await apply(saved)).toEqual([line]);
}

describe('the step apply', () => {
  it('deletes again a webhook, a plant, a sub-device and a template', async ({ ownTeam }) => {
    const { id: org, orgAdmin } = ownTeam;
    const key = await ownTeam.newKey();
    const webhookId = await addWebhook(ownTeam.organization, key.id);
    const plant = await ownTeam.newPlant();
    const sub = await ownTeam.newSubDevice(plant.id);
    const template = await ownTeam.newTemplate();
    const cases = [
      ['webhook.deleted', 'webhooks', webhookId, '/partner/webhooks'],
      ['sub_device.deleted', 'sub_devices', sub.id, `/plants/${plant.id}/sub-devices`],
      ['plant.deleted', 'plants', plant.id, '/plants'],
      ['device_template.deleted', 'device_templates', template.id, '/device-templates'],
    ] as const;
    for (const [event, table, id, path] of cases) {
      const restore = await kept(table, 'id = ?', id);
      await orgAdmin.remove(`${path}/${id}`, { org });
      await restore();
      await expectApplied(await savedOf(ownTeam, event, id), 'deleted');
      expect(await countOf(table, 'id = ?', id)).toBe(0);
    }
  });

  it('does not delete a plant or a template that devices have, and says so', async ({ ownTeam }) => {
    const { id: org, orgAdmin } = ownTeam;
    const plant = await ownTeam.newPlant();
    const template = await ownTeam.newTemplate();
    const restore = [
      await kept('plants', 'id = ?', plant.id),
      await kept('device_templates', 'id = ?', template.id),
    ];
    await orgAdmin.remove(`/plants/${plant.id}`, { org });
    await orgAdmin.remove(`/device-templates/${template.id}`, { org });
    for (const back of restore) await back();
    await ownTeam.newDevice({ plantId: plant.id, templateId: template.id });
    await expectOpen(await savedOf(ownTeam, 'plant.deleted', plant.id), 'has devices');
    await expectOpen(await savedOf(ownTeam, 'device_template.deleted', template.id), 'devices have it');
  });

  it('revokes a key again, and takes its sight back; a sight that it got since is left to people', async ({
    ownTeam,
  }) => {
    const { id: org, orgAdmin } = ownTeam;
    const key = await ownTeam.newKey();
    const path = `/partner/api-keys/${key.id}`;
    await orgAdmin.change(path, { sees: 'ORGANIZATION' }, { org });
    const widened = await savedOf(ownTeam, 'api_key.updated', key.id);
    const wide = await kept('api_keys', 'id = ?', key.id);
    await orgAdmin.change(path, { sees: 'PARTNER' }, { org });
    await expectOpen(widened, 'change it again');
    await wide();
    const details = { sees: 'PARTNER' };
    await expectApplied(
      { ...widened, event: { ...widened.event, details } },
      'only the commands of its partner',
    );
    const restore = await kept('api_keys', 'id = ?', key.id);
    await orgAdmin.remove(path, { org });
    await restore();
    await expectApplied(await savedOf(ownTeam, 'api_key.revoked', key.id), 'revoked');
    await expectError(await key.call('/vcp/sites'), 401, 'UNAUTHORIZED');
  });

  it('removes who left, but not the last ORG_ADMIN, and leaves a role that was raised to people', async ({
    ownTeam,
  }) => {
    const { id: org, viewer, orgAdmin } = ownTeam;
    const membership = `organization_id = '${org}' AND user_id = ?`;
    const back = await kept('memberships', membership, viewer.id);
    await orgAdmin.change(`/users/${viewer.id}`, { role: 'ADMIN' }, { org });
    const raised = await savedOf(ownTeam, 'member.role_changed', viewer.id);
    await back();
    await expectOpen(raised, 'their role was ADMIN, and is VIEWER');
    await viewer.remove(`/organizations/${org}/members/${viewer.id}`, { org });
    await back();
    await expectApplied(await savedOf(ownTeam, 'member.left', viewer.id), 'removed');
    const left = await savedOf(ownTeam, 'member.left', viewer.id);
    const target = { type: 'USER', id: orgAdmin.id };
    await expectOpen({ ...left, event: { ...left.event, target } }, 'no ORG_ADMIN would be left');
  });

  it('refuses the certificate of that time until another one is issued', async ({ ownTeam }) => {
    const device = await ownTeam.newMtlsDevice();
    const restore = await kept('devices', 'id = ?', device.id);
    await ownTeam.reissue(device.id);
    const saved = await savedOf(ownTeam, 'device.certificate_issued', device.id);
    await restore();
    await expectOpen(saved, 'issue another one');
    expect(await valueFrom('SELECT certificate_fingerprint FROM devices WHERE id = ?', device.id)).toBeNull();
    const later = { ...saved, event: { ...saved.event, createdAt: '2020-01-01T00:00:00.000Z' } };
    await ownTeam.reissue(device.id);
    expect(await apply(later)).toEqual([]);
    expect(await valueFrom('SELECT certificate_fingerprint FROM devices WHERE id = ?', device.id)).toMatch(
      /^[0-9a-f]{64}$/,
    );
  });

  it('deletes an organization again that was suspended and deleted', async () => {
    const team = await Team.create();
    const restore = await kept('organizations', 'id = ?', team.id);
    await operator.post(`/platform/organizations/${team.id}/suspend`, { reason: 'a test' });
    await operator.remove(`/platform/organizations/${team.id}`);
    const saved = await savedOf(team, 'organization.deleted', team.id);
    await restore();
    await expectApplied(saved, 'deleted');
    expect(await countOf('organizations', 'id = ? AND deleted_at_ms IS NOT NULL', team.id)).toBe(1);
  });

  it('deletes an account again that never proved its address, and not one that has', async () => {
    const email = uniqueEmail();
    await anonymous.post('/auth/register', { email, password: PASSWORD, name: 'Olga' });
    const id = (await valueFrom<string>('SELECT id FROM users WHERE email = ?', email)) ?? '';
    const restore = await kept('users', 'id = ?', id);
    expect((await operator.post('/platform/users/release', { email })).status).toBe(200);
    const saved = await savedOf(null, 'user.released', id);
    await restore();
    await expectApplied(saved, 'deleted');
    await restore();
    await runSql('UPDATE users SET proved_at_ms = 1 WHERE id = ?', id);
    await expectOpen(saved, 'has proved');
  });

  it('gives a person the address again that they have changed to, unless another account has it', async ({
    ownTeam,
  }) => {
    const [person, email] = [ownTeam.viewer, uniqueEmail()];
    const plant = await ownTeam.newPlant();
    const { event, organizationId } = await savedOf(ownTeam, 'plant.created', plant.id);
    const changed: SavedEvent = {
      organizationId,
      event: {
        ...{ ...event, event: 'user.email_changed', target: { type: 'USER', id: person.id } },
        actor: { type: 'USER', id: person.id, name: email },
      },
    };
    await expectApplied(changed, email);
    expect(await valueFrom('SELECT email FROM users WHERE id = ?', person.id)).toBe(email);
    const taken = { ...changed.event.actor, name: ownTeam.admin.email };
    await expectOpen({ ...changed, event: { ...changed.event, actor: taken } }, 'change it again');
    const foreign = { ...changed.event.actor, id: ownTeam.admin.id, name: uniqueEmail() };
    await expectOpen({ ...changed, event: { ...changed.event, actor: foreign } }, 'change it again');
    expect(await valueFrom('SELECT email FROM users WHERE id = ?', person.id)).toBe(email);
  });

  it('does nothing for an event of another kind, or of a thing that does not exist', async ({ ownTeam }) => {
    const plant = await ownTeam.newPlant();
    const created = await savedOf(ownTeam, 'plant.created', plant.id);
    expect(await apply(created)).toEqual([]);
    for (const event of [
      'api_key.revoked',
      'device.deleted',
      'user.deleted',
      'member.left',
      'organization.suspended',
      'constructor',
    ])
      expect(await apply({ ...created, event: { ...created.event, event } })).toEqual([]);
  });
});

describe('the step ask-objects', () => {
  /** All lines about one id. */
  async function linesAbout(id: string): Promise<Done['lines']> {
    const lines: Done['lines'] = [];
    for (let after: string | null = ''; after !== null; ) {
      const done: Done = await take('ask-objects', after === '' ? {} : { after });
      lines.push(...done.lines);
      after = done.next;
    }
    return lines.filter(({ text }) => text.includes(id));
  }

  it('revokes a key that its object has revoked', async ({ ownTeam }) => {
    const key = await ownTeam.newKey();
    const restore = await kept('api_keys', 'id = ?', key.id);
    await ownTeam.orgAdmin.remove(`/partner/api-keys/${key.id}`, { org: ownTeam.id });
    await restore();
    expect(await linesAbout(key.id)).toEqual([{ isApplied: true, text: expect.stringContaining('revoked') }]);
    await expectError(await key.call('/vcp/sites'), 401, 'UNAUTHORIZED');
    expect(await linesAbout(key.id)).toEqual([]);
  });

  it('suspends an organization that a newer copy of an object has as suspended, and not one that an older copy has', async ({
    ownTeam,
  }) => {
    const { id } = ownTeam;
    const { id: plantId } = await ownTeam.newPlant();
    await ownTeam.newTokenDevice({ plantId });
    const restore = await kept('organizations', 'id = ?', id);
    await bodyOf(await operator.post(`/platform/organizations/${id}/suspend`, { reason: 'a test' }), 200);
    await restore();
    await runSql('UPDATE organizations SET registry_version = registry_version + 1000 WHERE id = ?', id);
    expect(await linesAbout(id)).toEqual([]);
    await restore();
    expect(await linesAbout(id)).toEqual([{ isApplied: true, text: expect.stringContaining('suspended') }]);
    expect(await countOf('organizations', 'id = ? AND suspended_at_ms IS NOT NULL', id)).toBe(1);
    expect(await linesAbout(id)).toEqual([]);
  });

  it('names a device that D1 does not have, and says nothing of one that was never provisioned', async ({
    ownTeam,
  }) => {
    const { id: plantId } = await ownTeam.newPlant();
    const pending = await ownTeam.newDevice({ plantId });
    const device = await ownTeam.newTokenDevice({ plantId });
    await runSql('DELETE FROM devices WHERE id = ?', device.id);
    expect(await linesAbout(device.id)).toEqual([
      { isApplied: false, text: expect.stringContaining('registered or moved here since') },
    ]);
    expect(await linesAbout(pending.id)).toEqual([]);
  });
});

describe('the step put-back', () => {
  it('inserts each event once, says that it was put back, and leaves out those of an unknown organization', async ({
    ownTeam,
  }) => {
    const plant = await ownTeam.newPlant();
    const saved = await savedOf(ownTeam, 'plant.created', plant.id);
    await runSql('DELETE FROM audit_events WHERE id = ?', saved.event.id);
    const unknown = {
      organizationId: crypto.randomUUID(),
      event: { ...saved.event, id: crypto.randomUUID() },
    };
    const none = { organizationId: null, event: { ...saved.event, id: crypto.randomUUID() } };
    expect((await take('put-back', { events: [saved, unknown, none] })).count).toBe(2);
    expect((await take('put-back', { events: [saved, unknown, none] })).count).toBe(0);
    const { event } = await savedOf(ownTeam, 'plant.created', plant.id);
    expect(event).toEqual({ ...saved.event, details: { ...saved.event.details, putBack: true } });
  });
});

describe('the steps end-access and raise-versions', () => {
  it('end all sessions, and the tokens of that time but not later ones', async () => {
    const team = await Team.create();
    const early = await team.invite(uniqueEmail());
    const since = new Date(Date.now()).toISOString();
    await runSql('UPDATE invitations SET sent_at_ms = sent_at_ms - 1 WHERE id = ?', early.id);
    const late = await team.invite(uniqueEmail());
    await runSql('UPDATE invitations SET sent_at_ms = sent_at_ms + 1000 WHERE id = ?', late.id);
    const before = await valueFrom<number>(
      'SELECT registry_version FROM organizations WHERE id = ?',
      team.id,
    );
    const { lines, next } = await take('end-access', { since });
    expect(next).toBeNull();
    expect(lines.filter(({ text }) => text.includes(team.id))).toEqual([
      { isApplied: true, text: expect.stringContaining(early.email) },
    ]);
    await expectError(await team.orgAdmin.call('/auth/me'), 401, 'UNAUTHORIZED');
    expect(await countOf('sessions', 'TRUE')).toBe(0);
    expect((await take('raise-versions')).count).toBeGreaterThan(0);
    const after = await valueFrom<number>('SELECT registry_version FROM organizations WHERE id = ?', team.id);
    expect(after).toBe((before ?? 0) + 1_000_000);
  });
});

describe('who may call it, and with what', () => {
  it('refuses everybody but the operator, and wrong steps', async ({ ownTeam }) => {
    for (const caller of [anonymous, ownTeam.orgAdmin])
      expect([401, 403]).toContain((await caller.post(STEP, { step: 'raise-versions' })).status);
    const wrong = [
      [{}, 'step'],
      [{ step: 'x' }, 'step'],
      [{ step: 'end-access' }, 'since'],
      [{ step: 'end-access', since: 'yesterday' }, 'since'],
      [{ step: 'apply', events: [] }, 'events'],
      [{ step: 'ask-objects', after: 'x' }, 'after'],
    ] as const;
    for (const [body, field] of wrong) await expectInvalid(await operator.post(STEP, body), field, body);
  });
});
