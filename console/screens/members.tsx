/** The members of the organization, their roles, and invitations. */
import { useSignal } from '@preact/signals';
import { ROLES } from '../../protocol/enums.ts';
import { api, read } from '../api/client.ts';
import { readMembers } from '../api/lists.ts';
import { may, organizationId, user } from '../api/session.ts';
import type { Member } from '../api/types.ts';
import { ConfirmButton } from '../parts/dialog.tsx';
import { About, CallButton, CallForm, SelectField, TextField } from '../parts/form.tsx';
import { Time } from '../parts/format.tsx';
import { List, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Code, Heading, Panel, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';

export function MembersScreen() {
  const id = organizationId.value ?? '';
  const loaded = useLoad(`members ${id}`, () => readMembers(id));
  return (
    <>
      <Heading title={T.nav.members} />
      <Shown loaded={loaded}>
        {(members) => (
          <Table
            caption={T.nav.members}
            columns={[T.site.name, T.login.email, T.members.role, T.members.since, T.alerts.actions]}
          >
            {members.map((member) => (
              <MemberRow key={member.userId} member={member} organization={id} after={loaded.after} />
            ))}
          </Table>
        )}
      </Shown>
      {may('ADMIN') && <Invitations id={id} />}
    </>
  );
}

function MemberRow({
  member,
  organization,
  after,
}: {
  member: Member;
  organization: string;
  after: (call: Promise<unknown>) => Promise<void>;
}) {
  const { userId, name, email, role, createdAt } = member;
  const path = { params: { path: { id: organization, userId } } };
  const isSelf = userId === user.value?.id;
  return (
    <tr>
      <th scope="row">{name}</th>
      <td class="name">{email}</td>
      <td>
        <Badge state={role} tone="quiet" />
      </td>
      <td>
        <Time at={createdAt} />
      </td>
      <td>
        {may('ADMIN') && !isSelf && (
          <details>
            <summary>
              {T.members.change}
              <About what={name} />
            </summary>
            <div class="actions">
              {ROLES.filter((one) => one !== role).map((one) => (
                <CallButton
                  key={one}
                  about={name}
                  call={() =>
                    after(
                      read(
                        api.PATCH('/api/v1/organizations/{id}/members/{userId}', {
                          ...path,
                          body: { role: one },
                        }),
                      ),
                    )
                  }
                >
                  {one}
                </CallButton>
              ))}
              <ConfirmButton
                label={T.members.remove}
                about={name}
                asks={T.members.removeHint}
                call={() => after(read(api.DELETE('/api/v1/organizations/{id}/members/{userId}', path)))}
              />
            </div>
          </details>
        )}
      </td>
    </tr>
  );
}

function Invitations({ id }: { id: string }) {
  const link = useSignal<string | undefined>(undefined);
  const loaded = useLoad(`invitations ${id}`, async () => {
    const path = { params: { path: { id }, query: { limit: 100, status: 'PENDING' as const } } };
    return (await read(api.GET('/api/v1/organizations/{id}/invitations', path))).data;
  });
  const invite = async (form: FormData) => {
    const body = { email: String(form.get('email')), role: String(form.get('role')) as Member['role'] };
    const made = await read(
      api.POST('/api/v1/organizations/{id}/invitations', { params: { path: { id } }, body }),
    );
    link.value = made.url ?? made.token;
    await loaded.reload();
  };
  return (
    <Panel title={T.members.invitations}>
      <CallForm submit={invite} label={T.members.invite}>
        <div class="fields">
          <TextField label={T.login.email} name="email" type="email" required />
          <SelectField label={T.members.role} name="role">
            {ROLES.map((role) => (
              <option key={role}>{role}</option>
            ))}
          </SelectField>
        </div>
      </CallForm>
      {link.value !== undefined && <Code label={T.members.link} text={link.value} />}
      <Shown loaded={loaded}>
        {(invitations) => (
          <List of={invitations} none={T.members.noInvitations}>
            <ul class="plain-list">
              {invitations.map((one) => {
                const path = { params: { path: { id, invitationId: one.id } } };
                return (
                  <li key={one.id}>
                    {one.email} {one.role} {T.members.until} <Time at={one.expiresAt} />{' '}
                    <CallButton
                      about={one.email}
                      call={() =>
                        loaded.after(
                          read(api.DELETE('/api/v1/organizations/{id}/invitations/{invitationId}', path)),
                        )
                      }
                    >
                      {T.members.revoke}
                    </CallButton>
                  </li>
                );
              })}
            </ul>
          </List>
        )}
      </Shown>
    </Panel>
  );
}
