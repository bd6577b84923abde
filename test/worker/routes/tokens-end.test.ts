/** Mailed tokens that end before their time: with the password, and with the rights of who made them [C-15.6]. */
import { anonymous } from '#workerd/client.ts';
import { Mailbox } from '#workerd/mailbox.ts';
import { operator } from '#workerd/operator.ts';
import { logIn, PASSWORD, Person, uniqueEmail } from '#workerd/people.ts';
import type { Team } from '#workerd/team.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import type { Role } from '../../../protocol/enums.ts';

const NEXT = 'another horse battery';
const LATER = 'a third horse battery';
const NEWCOMER = { confirm: true, name: 'Newcomer', password: PASSWORD };

function verify(token: string): Promise<Response> {
  return anonymous.post('/invitations/verify', { token });
}

/** The invitation is dead: nobody can read or accept it, and its organization sees it as revoked. */
async function expectDead(team: Team, { id, token }: { id: string; token: string }): Promise<void> {
  await expectError(await verify(token), 404, 'INVITATION_NOT_FOUND');
  const accepted = await anonymous.post('/invitations/accept', { token, ...NEWCOMER });
  await expectError(accepted, 404, 'INVITATION_NOT_FOUND');
  const { data } = await team.orgAdmin.read<{ data: { id: string; status: string }[] }>(
    `/organizations/${team.id}/invitations`,
  );
  expect(data.find((one) => one.id === id)?.status).toBe('REVOKED');
}

function memberPath(team: Team, { id }: Person): string {
  return `/organizations/${team.id}/members/${id}`;
}

describe('a token that was mailed for a password', () => {
  it('ends when the password is changed in a session [C-15.6]', async ({ person }) => {
    const mailbox = new Mailbox();
    await mailbox.read('POST', '/auth/password-reset', { email: person.email }, 202);
    const { token } = mailbox.last(person.email);
    const change = { currentPassword: PASSWORD, newPassword: NEXT };
    expect((await person.post('/auth/change-password', change)).status).toBe(200);
    const late = await mailbox.call('POST', '/auth/password-reset/confirm', { token, newPassword: LATER });
    await expectError(late, 400, 'VALIDATION_ERROR');
    expect((await logIn(person.email, NEXT)).status).toBe(200);
    await expectError(await logIn(person.email, LATER), 401, 'INVALID_CREDENTIALS');
  });

  it('stays valid when the change of the password is refused [C-15.6]', async ({ person }) => {
    const mailbox = new Mailbox();
    await mailbox.read('POST', '/auth/password-reset', { email: person.email }, 202);
    const { token } = mailbox.last(person.email);
    const change = { currentPassword: 'not my password', newPassword: NEXT };
    await expectError(await person.post('/auth/change-password', change), 400, 'INVALID_CURRENT_PASSWORD');
    const used = await mailbox.call('POST', '/auth/password-reset/confirm', { token, newPassword: LATER });
    expect(used.status).toBe(200);
  });
});

describe('an invitation', () => {
  it('ends when its maker is removed, and stays ended when the maker is a member again [C-15.6]', async ({
    ownTeam,
  }) => {
    const made = await ownTeam.invite(uniqueEmail(), 'VIEWER', ownTeam.admin);
    await ownTeam.orgAdmin.remove(memberPath(ownTeam, ownTeam.admin));
    await expectDead(ownTeam, made);
    await ownTeam.join(ownTeam.admin, 'ADMIN');
    await expectDead(ownTeam, made);
  });

  it('ends when its maker leaves [C-15.6]', async ({ ownTeam }) => {
    const made = await ownTeam.invite(uniqueEmail(), 'VIEWER', ownTeam.admin);
    await ownTeam.admin.remove(memberPath(ownTeam, ownTeam.admin));
    await expectDead(ownTeam, made);
  });

  it('ends when the operator deletes the account of its maker [C-15.6]', async ({ ownTeam }) => {
    const made = await ownTeam.invite(uniqueEmail(), 'VIEWER', ownTeam.admin);
    const deleted = await operator.post('/platform/users/delete', { email: ownTeam.admin.email });
    expect(deleted.status).toBe(200);
    await expectDead(ownTeam, made);
  });

  it.for([
    [
      'PATCH members',
      (team: Team, person: Person, role: Role) => team.orgAdmin.patch(memberPath(team, person), { role }),
    ],
    [
      'PATCH users',
      (team: Team, person: Person, role: Role) =>
        team.orgAdmin.patch(`/users/${person.id}`, { role }, { org: team.id }),
    ],
  ] as const)(
    'ends when the role of its maker falls below the invited one, by %s; one of a lower role stays [C-15.6]',
    async ([, demote], { ownTeam }) => {
      const second = await Person.register();
      await ownTeam.join(second, 'ORG_ADMIN');
      const [high, low] = [
        await ownTeam.invite(uniqueEmail(), 'ADMIN', second),
        await ownTeam.invite(uniqueEmail(), 'OPERATOR', second),
      ];
      expect((await demote(ownTeam, second, 'ADMIN')).status).toBe(200);
      for (const { token } of [high, low]) expect((await verify(token)).status).toBe(200);
      expect((await demote(ownTeam, second, 'OPERATOR')).status).toBe(200);
      await expectDead(ownTeam, high);
      expect((await verify(low.token)).status).toBe(200);
      expect((await demote(ownTeam, second, 'ORG_ADMIN')).status).toBe(200);
      await expectDead(ownTeam, high);
    },
  );

  it('stays when another member leaves, and when the operator made it [C-15.6]', async ({ ownTeam }) => {
    const own = await ownTeam.invite(uniqueEmail(), 'VIEWER', ownTeam.orgAdmin);
    const path = `/platform/organizations/${ownTeam.id}/invitations`;
    const body = { email: uniqueEmail(), role: 'ORG_ADMIN' };
    const ofOperator = await operator.create<{ token: string }>(path, body);
    await ownTeam.orgAdmin.remove(memberPath(ownTeam, ownTeam.admin));
    for (const { token } of [own, ofOperator]) expect((await verify(token)).status).toBe(200);
    expect(
      (await anonymous.post('/invitations/accept', { token: ofOperator.token, ...NEWCOMER })).status,
    ).toBe(200);
  });

  it('stays accepted, once it was, when its maker leaves [C-15.6]', async ({ ownTeam }) => {
    const made = await ownTeam.invite(uniqueEmail(), 'VIEWER', ownTeam.admin);
    expect((await anonymous.post('/invitations/accept', { token: made.token, ...NEWCOMER })).status).toBe(
      200,
    );
    await ownTeam.admin.remove(memberPath(ownTeam, ownTeam.admin));
    const { data } = await ownTeam.orgAdmin.read<{ data: { id: string; status: string }[] }>(
      `/organizations/${ownTeam.id}/invitations`,
    );
    expect(data.find(({ id }) => id === made.id)?.status).toBe('ACCEPTED');
  });

  it('lives on when another admin sends it again before its maker leaves [C-15.6]', async ({ ownTeam }) => {
    const made = await ownTeam.invite(uniqueEmail(), 'VIEWER', ownTeam.admin);
    const path = `/organizations/${ownTeam.id}/invitations/${made.id}/resend`;
    const again = await ownTeam.orgAdmin.read<{ token: string; createdBy: string }>(path, { method: 'POST' });
    expect(again.createdBy).toBe(ownTeam.orgAdmin.id);
    await ownTeam.orgAdmin.remove(memberPath(ownTeam, ownTeam.admin));
    expect((await verify(again.token)).status).toBe(200);
  });
});
