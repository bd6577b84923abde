/** The pages that mails link to: each has its token behind the # of its address, which no server gets to see. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren, ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { api, read, withCookies } from '../api/client.ts';
import { signedIn, user } from '../api/session.ts';
import { mailedToken } from '../mailed-token.ts';
import { CallForm, TextField } from '../parts/form.tsx';
import { Shown, useLoad } from '../parts/load.tsx';
import { T } from '../texts.ts';

const token = () => mailedToken.value;

/** By path. They are shown with and without a session. */
export const MAILED: Readonly<Record<string, ComponentType>> = {
  '/accept-invitation': AcceptInvitation,
  '/verify-email': VerifyEmail,
  '/reset-password': ResetPassword,
  '/confirm-email': ConfirmEmail,
};

function Page({ title, children }: { title: string; children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Sitewire`;
  }, [title]);
  return (
    <main class="login">
      <h1>{title}</h1>
      {token() === '' ? <p class="notice">{T.mailed.noToken}</p> : children}
    </main>
  );
}

function Done({ text }: { text: string }) {
  return (
    <>
      <p class="notice" role="status">
        {text}
      </p>
      {/* The whole page is loaded, because the session may be another one. */}
      <a href="/sites" target="_self">
        {T.mailed.goOn}
      </a>
    </>
  );
}

/** A page with one button, which uses the token. */
function OneStep({
  title,
  label,
  done,
  use,
}: {
  title: string;
  label: string;
  done: string;
  use: () => Promise<unknown>;
}) {
  const isDone = useSignal(false);
  return (
    <Page title={title}>
      {isDone.value ? (
        <Done text={done} />
      ) : (
        <CallForm
          label={label}
          submit={async () => {
            await use();
            isDone.value = true;
          }}
        />
      )}
    </Page>
  );
}

function VerifyEmail() {
  const use = () => read(api.POST('/api/v1/auth/verify-email', { body: { token: token() } }));
  return <OneStep title={T.mailed.verify} label={T.mailed.confirm} done={T.mailed.verified} use={use} />;
}

function ConfirmEmail() {
  const use = () => read(api.POST('/api/v1/auth/email-change/confirm', { body: { token: token() } }));
  return <OneStep title={T.mailed.change} label={T.mailed.confirm} done={T.mailed.changed} use={use} />;
}

function ResetPassword() {
  const isDone = useSignal(false);
  const reset = async (form: FormData) => {
    const body = { token: token(), newPassword: String(form.get('new')) };
    await read(api.POST('/api/v1/auth/password-reset/confirm', { body }));
    isDone.value = true;
  };
  return (
    <Page title={T.mailed.reset}>
      {isDone.value ? (
        <Done text={T.mailed.wasReset} />
      ) : (
        <CallForm submit={reset} label={T.account.changePassword}>
          <TextField
            label={T.account.new}
            hint={T.mailed.passwordHint}
            name="new"
            type="password"
            autocomplete="new-password"
            minLength={10}
            required
          />
        </CallForm>
      )}
    </Page>
  );
}

function AcceptInvitation() {
  const loaded = useLoad('invitation', async () =>
    token() === ''
      ? undefined
      : await read(api.POST('/api/v1/invitations/verify', { body: { token: token() } })),
  );
  const isDone = useSignal(false);
  const accept = async (form: FormData) => {
    const name = String(form.get('name') ?? '');
    const account = name === '' ? {} : { name, password: String(form.get('password')) };
    const body = { token: token(), confirm: true as const, ...account };
    const { session } = await withCookies(() => read(api.POST('/api/v1/invitations/accept', { body })));
    if (session) signedIn(session.user);
    isDone.value = true;
  };
  return (
    <Page title={T.mailed.invitation}>
      <Shown loaded={loaded}>
        {(invitation) => {
          if (!invitation) return null;
          const { organization, email, role, accountExists } = invitation;
          if (isDone.value) return <Done text={T.mailed.joined(organization.name)} />;
          const isOwn = user.value?.email === email;
          return (
            <>
              <p>{T.mailed.invites(organization.name, role, email)}</p>
              {accountExists && !isOwn ? (
                <p class="notice">
                  {T.mailed.logInFirst(email)} <a href="/sites">{T.login.logIn}</a>
                </p>
              ) : (
                <CallForm submit={accept} label={T.mailed.join}>
                  {!accountExists && <AccountFields />}
                </CallForm>
              )}
            </>
          );
        }}
      </Shown>
    </Page>
  );
}

function AccountFields() {
  return (
    <>
      <TextField label={T.site.name} name="name" autocomplete="name" maxLength={100} required />
      <TextField
        label={T.login.password}
        hint={T.mailed.passwordHint}
        name="password"
        type="password"
        autocomplete="new-password"
        minLength={10}
        required
      />
    </>
  );
}
