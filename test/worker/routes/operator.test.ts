import { makeRule, RULE } from '#workerd/alert-rest.ts';
import { anonymous, bodyOf } from '#workerd/client.ts';
import { auditRows } from '#workerd/door.ts';
import { operator } from '#workerd/operator.ts';
import { makeSuperAdmin, PASSWORD, Person, uniqueEmail } from '#workerd/people.ts';
import { uniqueSlug } from '#workerd/team.ts';
import { describe, expect, expectError, it, UUID } from '#workerd/worker-test.ts';
import type { InvitationRecord } from '../../../protocol/invitation.ts';
import type { MemberRecord, OrganizationRecord } from '../../../protocol/organization.ts';
import type { Page } from '../../../protocol/page.ts';
import type { UserRecord } from '../../../protocol/user.ts';

const DEFAULTS = {
  restRatePerMinute: 6_000,
  publishRatePerSecond: 500,
  deviceRatePerSecond: 200,
  changesPerMinute: 600,
  keyTestsPerMinute: 10,
  invitationsPerDay: 100,
  webhookPostsPerMinute: 3_000,
  webhookHostPostsPerMinute: 600,
  webhookTestsPerMinute: 30,
  plants: 10_000,
  alertRules: 200,
};

function wanted(email = uniqueEmail(), slug = uniqueSlug()) {
  return { name: 'Acme', slug, admin: { email, name: 'Jana', password: PASSWORD } };
}

function limitsOf(organizationId: string): string {
  return `/platform/organizations/${organizationId}/limits`;
}

describe('POST /platform/organizations', () => {
  it('makes an organization and an admin whose address counts as proved, also where registration is closed [C-14.1]', async () => {
    const body = wanted();
    const options = { method: 'POST', body } as const;
    const response = await operator.call('/platform/organizations', options, { REGISTRATION: 'closed' });
    const made = await bodyOf<{ organization: OrganizationRecord; user: UserRecord }>(response, 201);
    expect(made.organization).toMatchObject({ id: UUID, slug: body.slug, role: null });
    expect(made.user).toMatchObject({ email: body.admin.email, role: 'ORG_ADMIN' });
    const person = await Person.logIn(body.admin.email);
    expect(await person.read(`/organizations/${made.organization.id}`)).toMatchObject({ role: 'ORG_ADMIN' });
  });

  it('a registered address gets 409 EMAIL_ALREADY_REGISTERED, a taken slug 409 CONFLICT; nothing is created', async ({
    team,
  }) => {
    const known = await operator.post('/platform/organizations', wanted(team.admin.email));
    await expectError(known, 409, 'EMAIL_ALREADY_REGISTERED');
    const body = wanted(uniqueEmail(), team.slug);
    await expectError(await operator.post('/platform/organizations', body), 409, 'CONFLICT');
    const login = await anonymous.post('/auth/login', { email: body.admin.email, password: PASSWORD });
    await expectError(login, 401, 'INVALID_CREDENTIALS');
  });

  it('answers every token 401 if the deployment has no OPERATOR_TOKEN [C-14.1]', async () => {
    const options = { method: 'POST', body: wanted() } as const;
    for (const OPERATOR_TOKEN of ['', ' ']) {
      const response = await operator.call('/platform/organizations', options, { OPERATOR_TOKEN });
      await expectError(response, 401, 'UNAUTHORIZED');
    }
  });
});

describe('POST /platform/organizations/{id}/invitations', () => {
  it('invites in any role; the audit names the operator, and nobody is a member before accepting [C-14.1]', async ({
    ownTeam,
  }) => {
    const { id, orgAdmin } = ownTeam;
    const email = uniqueEmail();
    const path = `/platform/organizations/${id}/invitations`;
    const made = await operator.create<InvitationRecord>(path, { email, role: 'ORG_ADMIN' });
    expect(made).toMatchObject({ email, role: 'ORG_ADMIN', status: 'PENDING', createdBy: 'operator' });
    const rows = (await auditRows(id)).filter(({ event }) => event === 'member.invited');
    expect(rows.map(({ actor, details }) => [actor, JSON.parse(details)])).toEqual([
      ['operator', { email, role: 'ORG_ADMIN' }],
    ]);
    const members = () => orgAdmin.read<Page<MemberRecord>>(`/organizations/${id}/members`);
    expect((await members()).data.map((member) => member.email)).not.toContain(email);
    const acceptance = { token: made.token, confirm: true, name: 'Jana', password: PASSWORD };
    expect((await anonymous.post('/invitations/accept', acceptance)).status).toBe(200);
    expect((await members()).data).toContainEqual(expect.objectContaining({ email, role: 'ORG_ADMIN' }));
  });

  it('the address of a member gets 409, an unknown organization 404, and a caller who is not the operator 401 or 403', async ({
    ownTeam,
  }) => {
    const { id, orgAdmin } = ownTeam;
    const path = `/platform/organizations/${id}/invitations`;
    const body = { email: uniqueEmail(), role: 'ADMIN' };
    await expectError(await operator.post(path, { ...body, email: orgAdmin.email }), 409, 'CONFLICT');
    const absent = `/platform/organizations/${crypto.randomUUID()}/invitations`;
    await expectError(await operator.post(absent, body), 404, 'ORGANIZATION_NOT_FOUND');
    await expectError(await orgAdmin.post(path, body), 403, 'SUPER_ADMIN_REQUIRED');
    await expectError(await anonymous.post(path, body), 401, 'UNAUTHORIZED');
  });
});

describe('the ceilings of an organization', () => {
  it('are the defaults until the operator changes one; null restores it [C-14.2]', async ({ ownTeam }) => {
    const { id } = ownTeam;
    expect(await operator.read(limitsOf(id))).toEqual({ organizationId: id, limits: DEFAULTS });
    const raised = await operator.change(limitsOf(id), { plants: 20_000, alertRules: 1 });
    expect(raised).toMatchObject({ limits: { ...DEFAULTS, plants: 20_000, alertRules: 1 } });
    expect(await operator.change(limitsOf(id), { plants: null })).toMatchObject({
      limits: { ...DEFAULTS, alertRules: 1 },
    });
    const rows = (await auditRows(id)).filter(({ event }) => event === 'organization.limits_changed');
    expect(rows.map(({ actor, count }) => [actor, count])).toEqual([['operator', 2]]);
    expect(JSON.parse(rows[0]?.details ?? '')).toEqual({
      plants: null,
      earlier: [{ plants: 20_000, alertRules: 1 }],
    });
  });

  it('are changed by a SUPER_ADMIN, too, and by nobody else [C-14.2]', async ({ ownTeam }) => {
    const { id, orgAdmin } = ownTeam;
    await expectError(await orgAdmin.patch(limitsOf(id), { plants: 2 }), 403, 'SUPER_ADMIN_REQUIRED');
    await expectError(await anonymous.patch(limitsOf(id), { plants: 2 }), 401, 'UNAUTHORIZED');
    await makeSuperAdmin(orgAdmin);
    expect(await orgAdmin.change(limitsOf(id), { plants: 2 })).toMatchObject({ limits: { plants: 2 } });
  });

  it('a setting above its ceiling gets 400 and changes nothing [C-14.2]', async ({ ownTeam }) => {
    const { id, orgAdmin } = ownTeam;
    for (const settings of [
      { restRatePerMinute: 6_001 },
      { publishRatePerSecond: 501 },
      { deviceRatePerSecond: 201 },
    ]) {
      const refused = await orgAdmin.patch(`/organizations/${id}`, { name: 'Other', settings });
      await expectError(refused, 400, 'VALIDATION_ERROR');
    }
    expect(await orgAdmin.read(`/organizations/${id}`)).toMatchObject({
      settings: { restRatePerMinute: 600 },
    });
    await operator.change(limitsOf(id), { restRatePerMinute: 6_001 });
    await orgAdmin.change(`/organizations/${id}`, { settings: { restRatePerMinute: 6_001 } });
  });

  it('a lowered ceiling lowers the setting above it, and leaves the others [C-14.2]', async ({ ownTeam }) => {
    const { id, orgAdmin } = ownTeam;
    const settings = { restRatePerMinute: 5_000, publishRatePerSecond: 400 };
    await orgAdmin.change(`/organizations/${id}`, { settings });
    await operator.change(limitsOf(id), { restRatePerMinute: 100 });
    expect(await orgAdmin.read(`/organizations/${id}`)).toMatchObject({
      settings: { restRatePerMinute: 100, publishRatePerSecond: 400 },
    });
  });

  it('one plant or alert rule over the ceiling gets 409, one invitation over it 429 [C-14.2]', async ({
    ownTeam,
  }) => {
    const { id, admin } = ownTeam;
    await operator.change(limitsOf(id), {
      plants: 1,
      alertRules: 1,
      invitationsPerDay: 1,
      keyTestsPerMinute: 1,
    });
    const plant = await ownTeam.newPlant();
    await expectError(await admin.post('/plants', { name: 'Two' }), 409, 'CONFLICT');
    await makeRule(admin, { plantId: plant.id });
    await expectError(await admin.post('/alerts', { ...RULE, plantId: plant.id }), 409, 'CONFLICT');
    const invite = () =>
      admin.post(`/organizations/${id}/invitations`, { email: uniqueEmail(), role: 'VIEWER' });
    expect((await invite()).status).toBe(201);
    await expectError(await invite(), 429, 'TOO_MANY_REQUESTS');
  });

  it('key creations and connection tests of an organization share one rate; over it they get 429 [C-14.2]', async ({
    ownTeam,
  }) => {
    const { id, orgAdmin } = ownTeam;
    await operator.change(limitsOf(id), { keyTestsPerMinute: 2 });
    const create = () =>
      orgAdmin.post('/partner/api-keys', { name: 'n', partnerId: 'p', scopes: ['vcp:read'] }, { org: id });
    const made = await bodyOf<{ apiKey: { id: string }; key: string }>(await create(), 201);
    const path = `/partner/api-keys/${made.apiKey.id}/test-connection`;
    expect((await orgAdmin.post(path, { key: made.key }, { org: id })).status).toBe(200);
    const refused = await create();
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    await expectError(refused, 429, 'TOO_MANY_REQUESTS');
    await expectError(await orgAdmin.post(path, { key: made.key }, { org: id }), 429, 'TOO_MANY_REQUESTS');
  });

  it('an unknown organization gets 404, an unknown ceiling or wrong value 400', async ({ ownTeam }) => {
    await expectError(await operator.call(limitsOf(crypto.randomUUID())), 404, 'ORGANIZATION_NOT_FOUND');
    for (const body of [{ plants: 0 }, { plants: 100_001 }, { plants: 1.5 }, { plants: '1' }, { members: 1 }])
      await expectError(await operator.patch(limitsOf(ownTeam.id), body), 400, 'VALIDATION_ERROR');
  });
});
