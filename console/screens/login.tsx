/** Log in; and mail a token for a forgotten password. */
import { useSignal } from '@preact/signals';
import { api, read, withCookies } from '../api/client.ts';
import { signedIn } from '../api/session.ts';
import { CallForm, TextField } from '../parts/form.tsx';
import { T } from '../texts.ts';

export function LoginScreen({ hasExpired }: { hasExpired: boolean }) {
  const isForgotten = useSignal(false);
  const isMailed = useSignal(false);
  const logIn = async (form: FormData) => {
    const body = { email: String(form.get('email')), password: String(form.get('password')) };
    const answer = await withCookies(() => read(api.POST('/api/v1/auth/login', { body })));
    signedIn(answer.user);
  };
  const reset = async (form: FormData) => {
    await read(api.POST('/api/v1/auth/password-reset', { body: { email: String(form.get('email')) } }));
    isMailed.value = true;
  };
  return (
    <main class="login">
      <h1>Sitewire</h1>
      {hasExpired && (
        <p class="notice" role="status">
          {T.login.expired}
        </p>
      )}
      {isForgotten.value ? (
        <CallForm submit={reset} label={T.login.mailToken} key="reset">
          {isMailed.value && (
            <p class="notice" role="status">
              {T.login.mailed}
            </p>
          )}
          <TextField label={T.login.email} name="email" type="email" autocomplete="username" required />
        </CallForm>
      ) : (
        <CallForm submit={logIn} label={T.login.logIn} key="login">
          <TextField label={T.login.email} name="email" type="email" autocomplete="username" required />
          <TextField
            label={T.login.password}
            name="password"
            type="password"
            autocomplete="current-password"
            required
          />
        </CallForm>
      )}
      <button
        type="button"
        class="plain"
        onClick={() => {
          isForgotten.value = !isForgotten.value;
        }}
      >
        {isForgotten.value ? T.login.back : T.login.forgotten}
      </button>
    </main>
  );
}
