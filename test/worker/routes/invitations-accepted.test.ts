/** An admin can neither revoke an accepted invitation nor send it again [C-11.2]. */
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';

/** The path of an invitation that `person` has accepted. */
const it = test.extend('path', async ({ ownTeam, person }) => {
  const { id, token } = await ownTeam.invite(person.email, 'OPERATOR');
  await person.read('/invitations/accept', { method: 'POST', body: { token, confirm: true } });
  return `/organizations/${ownTeam.id}/invitations/${id}`;
});

describe('an accepted invitation', () => {
  it('gets 409 INVITATION_ALREADY_ACCEPTED if an admin revokes it, and its person stays a member [C-11.2]', async ({
    ownTeam,
    person,
    path,
  }) => {
    await expectError(await ownTeam.admin.delete(path), 409, 'INVITATION_ALREADY_ACCEPTED');
    expect(await ownTeam.hasMember(person)).toBe(true);
    expect((await ownTeam.listInvitations('?status=ACCEPTED')).meta.total).toBe(1);
  });

  it('gets 409 INVITATION_ALREADY_ACCEPTED if an admin sends it again, also after its person has left [C-11.2]', async ({
    ownTeam,
    person,
    path,
  }) => {
    await expectError(await ownTeam.admin.post(`${path}/resend`), 409, 'INVITATION_ALREADY_ACCEPTED');
    await person.remove(`/organizations/${ownTeam.id}/members/${person.id}`);
    await expectError(await ownTeam.admin.post(`${path}/resend`), 409, 'INVITATION_ALREADY_ACCEPTED');
    expect(await ownTeam.hasMember(person)).toBe(false);
  });
});
