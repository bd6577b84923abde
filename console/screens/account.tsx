/** My account: e-mail address, password and sessions. */
import { useSignal } from '@preact/signals';
import { api, read, withCookies } from '../api/client.ts';
import { user } from '../api/session.ts';
import { CallButton, CallForm, TextField } from '../parts/form.tsx';
import { Ago, Time } from '../parts/format.tsx';
import { Failure, Shown, useLoad } from '../parts/load.tsx';
import { Badge, Heading, Pairs, Panel, Table } from '../parts/ui.tsx';
import { T } from '../texts.ts';

export function AccountScreen() {
  const { email = '', name = '' } = user.value ?? {};
  return (
    <>
      <Heading title={T.nav.account} />
      <div class="columns">
        <EmailPanel name={name} email={email} />
        <PasswordPanel />
      </div>
      <Sessions />
    </>
  );
}

function EmailPanel({ name, email }: { name: string; email: string }) {
  const loaded = useLoad('pending e-mail', async () => await read(api.GET('/api/v1/auth/email-change')));
  const { pendingEmail = null, expiresAt = null } = loaded.data ?? {};
  const request = async (form: FormData) => {
    const body = {
      newEmail: String(form.get('email')).trim(),
      currentPassword: String(form.get('password')),
    };
    loaded.set(await read(api.POST('/api/v1/auth/email-change', { body })));
  };
  const cancel = async () => {
    await read(api.DELETE('/api/v1/auth/email-change'));
    loaded.set({ pendingEmail: null, expiresAt: null });
  };
  return (
    <Panel title={name}>
      <Pairs of={[[T.login.email, email]]} />
      {loaded.error && <Failure error={loaded.error} retry={loaded.reload} />}
      {pendingEmail !== null ? (
        <div role="status">
          <p class="notice">
            {T.account.emailMailed(pendingEmail)} <Time at={expiresAt} />
          </p>
          <CallButton call={cancel}>{T.account.cancelEmail}</CallButton>
        </div>
      ) : (
        <CallForm submit={request} label={T.account.changeEmail}>
          <TextField
            label={T.account.newEmail}
            hint={T.account.newEmailHint}
            name="email"
            type="email"
            autocomplete="email"
            maxLength={254}
            required
          />
          <TextField
            label={T.account.current}
            name="password"
            type="password"
            autocomplete="current-password"
            required
          />
        </CallForm>
      )}
    </Panel>
  );
}

function PasswordPanel() {
  const isDone = useSignal(false);
  const change = async (form: FormData) => {
    isDone.value = false;
    const body = { currentPassword: String(form.get('current')), newPassword: String(form.get('new')) };
    await withCookies(() => read(api.POST('/api/v1/auth/change-password', { body })));
    isDone.value = true;
  };
  return (
    <Panel title={T.account.password}>
      <CallForm submit={change} label={T.account.changePassword}>
        <TextField
          label={T.account.current}
          name="current"
          type="password"
          autocomplete="current-password"
          required
        />
        <TextField label={T.account.new} name="new" type="password" autocomplete="new-password" required />
      </CallForm>
      {isDone.value && (
        <p class="notice" role="status">
          {T.account.changed}
        </p>
      )}
    </Panel>
  );
}

function Sessions() {
  const loaded = useLoad('sessions', async () => (await read(api.GET('/api/v1/auth/sessions'))).data);
  return (
    <Panel title={T.account.sessions}>
      <Shown loaded={loaded}>
        {(sessions) => (
          <Table
            caption={T.account.sessions}
            columns={[T.account.browser, T.audit.address, T.account.begun, T.account.used, T.alerts.actions]}
          >
            {sessions.map(({ id, userAgent, address, createdAt, lastUsedAt, current }) => (
              <tr key={id}>
                <th scope="row" class="wrap">
                  {userAgent ?? T.common.unknown}
                </th>
                <td>{address ?? ''}</td>
                <td>
                  <Ago at={createdAt} />
                </td>
                <td>
                  <Ago at={lastUsedAt} />
                </td>
                <td>
                  {current ? (
                    <Badge state={T.account.this} tone="good" />
                  ) : (
                    <CallButton
                      about={userAgent ?? T.common.unknown}
                      call={() =>
                        loaded.after(
                          read(api.DELETE('/api/v1/auth/sessions/{id}', { params: { path: { id } } })),
                        )
                      }
                    >
                      {T.account.end}
                    </CallButton>
                  )}
                </td>
              </tr>
            ))}
          </Table>
        )}
      </Shown>
    </Panel>
  );
}
