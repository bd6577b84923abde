/** A person's own account: proof of the address, password reset, e-mail change, sessions [C-11.3] to [C-11.5]. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { anonymous } from '#workerd/client.ts';
import { countOf, rowsFrom } from '#workerd/d1.ts';
import { type AuditRow, auditRows } from '#workerd/door.ts';
import { Mailbox } from '#workerd/mailbox.ts';
import { logIn, PASSWORD, Person, refresh, uniqueEmail } from '#workerd/people.ts';
import { stopClock } from '#workerd/site-clock.ts';
import { uniqueSlug } from '#workerd/team.ts';
import { describe, expect, expectError, INSTANT, it, UUID } from '#workerd/worker-test.ts';
import type { SessionRecord } from '../../../protocol/account.ts';
import type { LoginAnswer } from '../../../protocol/user.ts';
import { keepHouse } from '../../../worker/lifecycle/housekeeping.ts';
import { deliverMails } from '../../../worker/mail/outbox.ts';

const NEXT = 'another horse battery';
const MINUTE_MS = 60_000;
const UNKNOWN_TOKEN = 'A'.repeat(43);

describe('an account whose address is not proved', () => {
  it('can log in and see itself, and gets 403 for organizations and plants [C-14.1]', async ({
    newcomer,
  }) => {
    expect((await newcomer.call('/auth/me')).status).toBe(200);
    expect((await newcomer.call('/auth/sessions')).status).toBe(200);
    const others = [
      () => newcomer.post('/organizations', { name: 'Acme', slug: uniqueSlug() }),
      () => newcomer.call('/organizations'),
      () => newcomer.call('/plants'),
    ];
    for (const call of others) await expectError(await call(), 403, 'FORBIDDEN');
  });

  it('can use other routes after the mailed token proved the address; the token works once [C-14.1]', async ({
    mailbox,
    newcomer,
  }) => {
    const { token } = mailbox.last(newcomer.email);
    await mailbox.read('POST', '/auth/verify-email', { token }, 200);
    expect((await newcomer.call('/organizations')).status).toBe(200);
    await expectError(await mailbox.call('POST', '/auth/verify-email', { token }), 400, 'VALIDATION_ERROR');
  });

  it('gets a token by mail that is neither in D1 in plain text nor in the log [C-11.1]', async ({
    mailbox,
  }) => {
    const logged = ['log', 'warn', 'error'].map((name) => vi.spyOn(console, name as 'log'));
    const email = uniqueEmail();
    await mailbox.read('POST', '/auth/register', { email, password: PASSWORD, name: 'New' }, 201);
    const { token } = mailbox.last(email);
    expect(JSON.stringify(await rowsFrom('SELECT * FROM account_tokens'))).not.toContain(token);
    expect(JSON.stringify(logged.flatMap((spy) => spy.mock.calls))).not.toContain(token);
  });

  it('gets a token that expires after 24 hours or when a new one is mailed, at most one a minute [C-14.1]', async ({
    mailbox,
    newcomer,
  }) => {
    const now = stopClock();
    const { token: first } = mailbox.last(newcomer.email);
    const resend = () =>
      mailbox.read('POST', '/auth/verify-email/resend', undefined, 202, newcomer.accessToken);
    await resend();
    expect(mailbox.mails).toHaveLength(1);
    vi.setSystemTime(now + 2 * MINUTE_MS);
    await resend();
    const { token: second } = mailbox.last(newcomer.email);
    const verify = (token: string) => mailbox.call('POST', '/auth/verify-email', { token });
    await expectError(await verify(first), 400, 'VALIDATION_ERROR');
    vi.setSystemTime(now + 25 * 60 * MINUTE_MS);
    await expectError(await verify(second), 400, 'VALIDATION_ERROR');
  });

  it('is deleted after seven days, with the organization that it created [C-14.1]', async ({ mailbox }) => {
    const [email, organizationSlug] = [uniqueEmail(), uniqueSlug()];
    const body = { email, password: PASSWORD, name: 'New', organizationName: 'Acme', organizationSlug };
    await mailbox.read('POST', '/auth/register', body, 201);
    await keepHouse(env, Date.now() + 6 * 24 * 60 * MINUTE_MS);
    expect((await logIn(email)).status).toBe(200);
    await keepHouse(env, Date.now() + 8 * 24 * 60 * MINUTE_MS);
    await expectError(await logIn(email), 401, 'INVALID_CREDENTIALS');
    expect(await countOf('organizations', 'slug = ?', organizationSlug)).toBe(0);
  });
});

describe('a registration', () => {
  it.for([undefined, 'closed', 'Open', ''])(
    'gets 403 where REGISTRATION is %s [C-14.1]',
    async (REGISTRATION) => {
      const closed = new Mailbox({ REGISTRATION } as object);
      const body = { email: uniqueEmail(), password: PASSWORD, name: 'New' };
      await expectError(await closed.call('POST', '/auth/register', body), 403, 'FORBIDDEN');
      expect(closed.mails).toEqual([]);
    },
  );
});

describe('a password reset', () => {
  /** Requests the reset, and returns the token that the person gets. */
  async function requested(mailbox: Mailbox, { email }: Person): Promise<string> {
    await mailbox.read('POST', '/auth/password-reset', { email }, 202);
    return mailbox.last(email).token;
  }

  function confirm(mailbox: Mailbox, token: string): Promise<Response> {
    return mailbox.call('POST', '/auth/password-reset/confirm', { token, newPassword: NEXT });
  }

  it('sets the password, ends all sessions, lifts a lock and proves the address [C-11.4]', async ({
    mailbox,
    newcomer,
  }) => {
    for (let time = 0; time <= 10; time++) await logIn(newcomer.email, 'not my password');
    await expectError(await logIn(newcomer.email), 423, 'ACCOUNT_LOCKED');
    await mailbox.read('POST', '/auth/password-reset', { email: newcomer.email }, 202);
    const { token } = mailbox.last(newcomer.email);
    await mailbox.read('POST', '/auth/password-reset/confirm', { token, newPassword: NEXT }, 200);
    await expectError(await newcomer.call('/auth/me'), 401, 'TOKEN_VERSION_MISMATCH');
    await expectError(await refresh(newcomer.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
    const again = await Person.logIn(newcomer.email, NEXT);
    expect((await again.call('/organizations')).status).toBe(200);
    const used = await mailbox.call('POST', '/auth/password-reset/confirm', { token, newPassword: PASSWORD });
    await expectError(used, 400, 'VALIDATION_ERROR');
  });

  it('gets the same answer for an unknown address as for a known one, but sends no mail [C-11.4]', async ({
    mailbox,
    person,
  }) => {
    const answers = [];
    for (const email of [person.email, uniqueEmail()]) {
      const response = await mailbox.call('POST', '/auth/password-reset', { email });
      const headers = [...response.headers].filter(([name]) => name !== 'x-request-id');
      answers.push([response.status, headers, await response.text()]);
    }
    expect(answers[0]).toEqual(answers[1]);
    expect(mailbox.mails.map(({ to }) => to)).toEqual([person.email]);
  });

  it('gets 400 with an expired, unknown or malformed token, and the old password still works [C-11.4]', async ({
    mailbox,
    person,
  }) => {
    const now = stopClock();
    const token = await requested(mailbox, person);
    vi.setSystemTime(now + 30 * MINUTE_MS);
    for (const wrong of [token, UNKNOWN_TOKEN, 'x', ''])
      await expectError(await confirm(mailbox, wrong), 400, 'VALIDATION_ERROR');
    expect((await logIn(person.email)).status).toBe(200);
  });

  it('is valid for 30 minutes [C-11.4]', async ({ mailbox, person }) => {
    const now = stopClock();
    const token = await requested(mailbox, person);
    vi.setSystemTime(now + 30 * MINUTE_MS - 1);
    expect((await confirm(mailbox, token)).status).toBe(200);
    expect((await logIn(person.email, NEXT)).status).toBe(200);
  });

  it('gets 400 with an older token once a newer one is mailed, and the newer one works [C-11.4]', async ({
    mailbox,
    person,
  }) => {
    const now = stopClock();
    const older = await requested(mailbox, person);
    vi.setSystemTime(now + 2 * MINUTE_MS);
    const newer = await requested(mailbox, person);
    expect(newer).not.toBe(older);
    await expectError(await confirm(mailbox, older), 400, 'VALIDATION_ERROR');
    expect((await logIn(person.email)).status).toBe(200);
    expect((await confirm(mailbox, newer)).status).toBe(200);
    expect((await logIn(person.email, NEXT)).status).toBe(200);
  });

  it('gets 503 while the deployment sends no mail, like every other request for a mailed token [C-11.1]', async ({
    person,
  }) => {
    const calls = [
      () => anonymous.post('/auth/password-reset', { email: person.email }),
      () => person.post('/auth/verify-email/resend'),
      () => person.post('/auth/email-change', { newEmail: uniqueEmail(), currentPassword: PASSWORD }),
    ];
    for (const call of calls) await expectError(await call(), 503, 'SERVICE_UNAVAILABLE');
  });
});

describe('an e-mail change', () => {
  /** Requests the change, and returns the token that the new address gets. */
  async function requested(mailbox: Mailbox, { accessToken }: Person, newEmail: string): Promise<string> {
    const body = { newEmail, currentPassword: PASSWORD };
    const pending = await mailbox.read('POST', '/auth/email-change', body, 202, accessToken);
    expect(pending).toMatchObject({ pendingEmail: newEmail });
    return mailbox.last(newEmail).token;
  }

  function confirm(mailbox: Mailbox, { accessToken }: Person, token: string): Promise<Response> {
    return mailbox.call('POST', '/auth/email-change/confirm', { token }, accessToken);
  }

  it('mails a token to the new address and a notice to the old one; the token confirms the change once [C-11.3]', async ({
    mailbox,
    person,
  }) => {
    const newEmail = uniqueEmail();
    const elsewhere = await person.newSession();
    const token = await requested(mailbox, person, newEmail);
    expect(mailbox.last(person.email).token).toBe('');
    expect((await confirm(mailbox, person, token)).status).toBe(200);
    expect(await person.read('/auth/me')).toMatchObject({ user: { email: newEmail } });
    await expectError(await elsewhere.call('/auth/me'), 401, 'UNAUTHORIZED');
    expect((await logIn(newEmail)).status).toBe(200);
    await expectError(await logIn(person.email), 401, 'INVALID_CREDENTIALS');
    await expectError(await confirm(mailbox, person, token), 400, 'EMAIL_CHANGE_TOKEN_INVALID');
  });

  it('to a taken address gets the same answer as to a free one, and 409 only when it is confirmed [C-11.3]', async ({
    mailbox,
    person,
  }) => {
    const other = await Person.register();
    const token = await requested(mailbox, person, other.email);
    await expectError(await confirm(mailbox, person, token), 409, 'EMAIL_ALREADY_REGISTERED');
    expect(await person.read('/auth/me')).toMatchObject({ user: { email: person.email } });
  });

  it('needs the password, the account’s session and a valid token [C-11.3]', async ({ mailbox, person }) => {
    const now = stopClock();
    const stranger = await Person.register();
    const wrong = { newEmail: uniqueEmail(), currentPassword: 'not my password' };
    const refused = await mailbox.call('POST', '/auth/email-change', wrong, person.accessToken);
    await expectError(refused, 400, 'INVALID_CURRENT_PASSWORD');
    expect(mailbox.mails).toEqual([]);
    const token = await requested(mailbox, person, wrong.newEmail);
    for (const given of [UNKNOWN_TOKEN, 'x'])
      await expectError(await confirm(mailbox, person, given), 400, 'EMAIL_CHANGE_TOKEN_INVALID');
    await expectError(await confirm(mailbox, stranger, token), 400, 'EMAIL_CHANGE_TOKEN_INVALID');
    vi.setSystemTime(now + 24 * 60 * MINUTE_MS);
    const late = await person.newSession();
    await expectError(await confirm(mailbox, late, token), 410, 'EMAIL_CHANGE_TOKEN_EXPIRED');
  });

  it('can be read by its account alone while it is pending, until it is cancelled [C-11.3]', async ({
    mailbox,
    person,
  }) => {
    const none = { pendingEmail: null, expiresAt: null };
    expect(await person.read('/auth/email-change')).toEqual(none);
    const address = uniqueEmail();
    await requested(mailbox, person, address);
    expect(await person.read('/auth/email-change')).toEqual({ pendingEmail: address, expiresAt: INSTANT });
    const stranger = await Person.register();
    expect(await stranger.read('/auth/email-change')).toEqual(none);
    await person.remove('/auth/email-change');
    expect(await person.read('/auth/email-change')).toEqual(none);
  });

  it('can be cancelled once: its token becomes invalid, and a second cancellation gets 409 [C-11.3]', async ({
    mailbox,
    person,
  }) => {
    const token = await requested(mailbox, person, uniqueEmail());
    await person.remove('/auth/email-change');
    await expectError(await person.delete('/auth/email-change'), 409, 'EMAIL_CHANGE_NOT_PENDING');
    await expectError(await confirm(mailbox, person, token), 400, 'EMAIL_CHANGE_TOKEN_INVALID');
  });
});

describe('the sessions of a person', () => {
  it('are listed with address and user agent; each can be ended except the current one (409) [C-11.5]', async ({
    person,
  }) => {
    const elsewhere = await person.newSession();
    const { data } = await person.read<{ data: SessionRecord[] }>('/auth/sessions');
    expect(data).toHaveLength(2);
    const other = data.find(({ current }) => !current);
    expect(other).toEqual({
      id: UUID,
      createdAt: expect.any(String),
      lastUsedAt: expect.any(String),
      address: null,
      userAgent: null,
      current: false,
    });
    await person.remove(`/auth/sessions/${other?.id}`);
    await expectError(await elsewhere.call('/auth/me'), 401, 'UNAUTHORIZED');
    await expectError(await person.delete(`/auth/sessions/${other?.id}`), 404, 'NOT_FOUND');
    const own = data.find(({ current }) => current)?.id;
    await expectError(await person.delete(`/auth/sessions/${own}`), 409, 'CANNOT_REVOKE_CURRENT_SESSION');
    expect((await person.call('/auth/me')).status).toBe(200);
  });

  it('get the 404 of an absent one from another person, and do not end [C-11.5]', async ({ person }) => {
    const other = await Person.register();
    const { data } = await other.read<{ data: SessionRecord[] }>('/auth/sessions');
    await expectError(await person.delete(`/auth/sessions/${data[0]?.id}`), 404, 'NOT_FOUND');
    expect((await other.call('/auth/me')).status).toBe(200);
  });

  it('all end with DELETE /auth/sessions, with their refresh tokens, except the current one [C-11.5]', async ({
    person,
  }) => {
    const others = [await person.newSession(), await person.newSession()];
    expect(await person.remove('/auth/sessions')).toEqual({ success: true, revoked: 2 });
    for (const one of others) {
      await expectError(await one.call('/auth/me'), 401, 'UNAUTHORIZED');
      await expectError(await refresh(one.refreshToken), 401, 'REFRESH_TOKEN_REVOKED');
    }
    expect((await person.call('/auth/me')).status).toBe(200);
  });

  it('end after 90 days, however often they are refreshed [C-14.7]', async ({ person }) => {
    const now = stopClock();
    let { refreshToken } = person;
    for (let day = 25; day < 90; day += 25) {
      vi.setSystemTime(now + day * 24 * 60 * MINUTE_MS);
      refreshToken = ((await (await refresh(refreshToken)).json()) as LoginAnswer).refreshToken;
    }
    vi.setSystemTime(now + 91 * 24 * 60 * MINUTE_MS);
    await expectError(await refresh(refreshToken), 401, 'REFRESH_TOKEN_EXPIRED');
  });
});

describe('what an organization sees of its members', () => {
  it('logins, failed logins, reused refresh tokens and password changes are audited with their count [C-14.3]', async ({
    ownTeam,
  }) => {
    const { viewer } = ownTeam;
    // Equal events of a minute are one row, so no minute may end in between.
    stopClock();
    for (let time = 0; time < 3; time++) await logIn(viewer.email, 'not my password');
    const thief = await Person.logIn(viewer.email);
    await refresh(thief.refreshToken);
    await refresh(thief.refreshToken);
    const person = await Person.logIn(viewer.email);
    await person.post('/auth/change-password', { currentPassword: PASSWORD, newPassword: NEXT });
    const read = 'SELECT event, outcome, count FROM audit_events WHERE organization_id = ? AND actor = ?';
    const rows = await rowsFrom<AuditRow>(read, ownTeam.id, viewer.id);
    const seen = Object.fromEntries(rows.map((row) => [row.event, [row.outcome, row.count]]));
    expect(seen).toMatchObject({
      'user.login_failed': ['FAILURE', 3],
      'user.logged_in': ['SUCCESS', 2],
      'session.reuse_detected': ['FAILURE', 1],
      'user.password_changed': ['SUCCESS', 1],
    });
  });
});

describe('mail that cannot be sent', () => {
  it('does not delay the request, is retried five times, and is then reported as an audit event [C-11.1]', async ({
    mailbox,
    ownTeam,
  }) => {
    vi.spyOn(console, 'warn').mockReturnValue();
    vi.spyOn(console, 'error').mockReturnValue();
    const now = stopClock();
    const bindings = { ...env, ...mailbox.bindings };
    const email = uniqueEmail();
    mailbox.failure = 'the mail server is down';
    const path = `/organizations/${ownTeam.id}/invitations`;
    const body = { email, role: 'VIEWER' };
    const invited = await mailbox.read<object>('POST', path, body, 201, ownTeam.admin.accessToken);
    expect(invited).not.toHaveProperty('token');
    let at = now;
    for (const minutes of [1, 5, 30, 120, 360]) {
      at += minutes * MINUTE_MS;
      await deliverMails(bindings, at - 1);
      expect(await countOf('mails', 'true')).toBe(1);
      await deliverMails(bindings, at);
    }
    expect(await countOf('mails', 'true')).toBe(0);
    const rows = await auditRows(ownTeam.id);
    expect(rows.filter(({ event }) => event === 'mail.undeliverable')).toMatchObject([
      {
        outcome: 'FAILURE',
        details: JSON.stringify({ kind: 'invitation', reason: 'the mail server is down' }),
      },
    ]);
  });

  it('is sent when the mail server works again [C-11.1]', async ({ mailbox, person }) => {
    vi.spyOn(console, 'warn').mockReturnValue();
    mailbox.failure = 'the mail server is down';
    await mailbox.read('POST', '/auth/password-reset', { email: person.email }, 202);
    mailbox.failure = undefined;
    const bindings = { ...env, ...mailbox.bindings };
    await deliverMails(bindings, Date.now() + 2 * MINUTE_MS);
    await deliverMails(bindings, Date.now() + 10 * MINUTE_MS);
    expect(mailbox.mails).toHaveLength(1);
  });
});

describe('the headers of a mail', () => {
  it('the name of an organization cannot add a header or a recipient to a mail [C-11.1]', async ({
    mailbox,
  }) => {
    const orgAdmin = await Person.register();
    const name = 'Acme" <x@example.com>, =?utf-8?q?B?=';
    const made = await orgAdmin.create<{ id: string }>('/organizations', { name, slug: uniqueSlug() });
    const email = uniqueEmail();
    const path = `/organizations/${made.id}/invitations`;
    await mailbox.read('POST', path, { email, role: 'VIEWER' }, 201, orgAdmin.accessToken);
    const { raw } = mailbox.last(email);
    const [head = ''] = raw.split('\r\n\r\n');
    const names = head.split('\r\n').map((line) => line.split(':')[0]);
    expect(names.sort()).toEqual([
      'Content-Transfer-Encoding',
      'Content-Type',
      'Date',
      'From',
      'MIME-Version',
      'Message-ID',
      'Subject',
      'To',
    ]);
  });
});
