/** Requests for another e-mail address that are refused: too soon after the last one, or locked [C-11.3], [C-14.4]. */
import { vi } from 'vitest';
import { bodyOf } from '#workerd/client.ts';
import { rowsFrom } from '#workerd/d1.ts';
import { logIn, PASSWORD, refresh, uniqueEmail } from '#workerd/people.ts';
import { stopClock } from '#workerd/site-clock.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import type { LoginAnswer } from '../../../protocol/user.ts';

const PATH = '/auth/email-change';
const WRONG = 'not my password';
const MINUTE_MS = 60_000;
/** Wrong passwords before a session is locked, and how long the lock lasts. */
const MOST = 10;
const LOCK_MS = 15 * MINUTE_MS;

const it = test
  // A request of `person` for another address; the default password is the right one.
  .extend('request', ({ mailbox, person }) => (newEmail: string, currentPassword = PASSWORD) => {
    return mailbox.call('POST', PATH, { newEmail, currentPassword }, person.accessToken);
  });

describe('a right password in a check of the current one', () => {
  it('counts toward no lock: of many checks at once none gets 423, and what was wrong before is forgotten [C-14.4]', async ({
    person,
    request,
  }) => {
    for (let wrong = 0; wrong < MOST - 1; wrong++)
      await expectError(await request(uniqueEmail(), WRONG), 400, 'INVALID_CURRENT_PASSWORD');
    const answers = await Promise.all(Array.from({ length: MOST - 1 }, () => request(uniqueEmail())));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status !== 202 && status !== 409)).toEqual([]);
    const counts = await rowsFrom<{ network: string }>(
      'SELECT network FROM login_failures WHERE email = ?',
      person.email,
    );
    expect(counts).toEqual([]);
    await expectError(await request(uniqueEmail(), WRONG), 400, 'INVALID_CURRENT_PASSWORD');
    expect((await logIn(person.email, PASSWORD)).status).toBe(200);
  });
});

describe('a second request for an e-mail change', () => {
  it('gets 409 CONFLICT and sends no mail within a minute of the first, even for another address [C-11.3]', async ({
    mailbox,
    person,
    request,
  }) => {
    const now = stopClock();
    const first = uniqueEmail();
    expect((await request(first)).status).toBe(202);
    const sent = mailbox.mails.length;
    for (const laterMs of [0, MINUTE_MS - 1]) {
      vi.setSystemTime(now + laterMs);
      for (const address of [first, uniqueEmail()])
        await expectError(await request(address), 409, 'CONFLICT');
    }
    expect(mailbox.mails).toHaveLength(sent);
    const body = { token: mailbox.last(first).token };
    await mailbox.read('POST', `${PATH}/confirm`, body, 200, person.accessToken);
    expect(await person.read('/auth/me')).toMatchObject({ user: { email: first } });
  });

  it('gets 409 if it comes at the same time: one of eight sends mails, to the old and the new address [C-11.3]', async ({
    mailbox,
    request,
  }) => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => request(uniqueEmail())));
    expect(answers.map(({ status }) => status).sort()).toEqual([
      202,
      ...Array.from({ length: 7 }, () => 409),
    ]);
    expect(mailbox.mails).toHaveLength(2);
  });

  it('is accepted after a minute, and replaces the first one [C-11.3]', async ({
    mailbox,
    person,
    request,
  }) => {
    const now = stopClock();
    const [first, second] = [uniqueEmail(), uniqueEmail()];
    expect((await request(first)).status).toBe(202);
    vi.setSystemTime(now + MINUTE_MS);
    expect((await request(second)).status).toBe(202);
    const replaced = { token: mailbox.last(first).token };
    const refused = await mailbox.call('POST', `${PATH}/confirm`, replaced, person.accessToken);
    await expectError(refused, 400, 'EMAIL_CHANGE_TOKEN_INVALID');
  });

  it('is accepted immediately if the first change is cancelled [C-11.3]', async ({ person, request }) => {
    stopClock();
    expect((await request(uniqueEmail())).status).toBe(202);
    await person.remove(PATH);
    expect((await request(uniqueEmail())).status).toBe(202);
  });
});

describe('requests for an e-mail change with a wrong password', () => {
  it('do not count toward the lock of all logins to the address [C-14.4]', async ({ person, request }) => {
    await expectError(await request(uniqueEmail(), WRONG), 400, 'INVALID_CURRENT_PASSWORD');
    const counted = 'SELECT network, failures FROM login_failures WHERE email = ?';
    const [row, ...others] = await rowsFrom<{ network: string; failures: number }>(counted, person.email);
    expect([row?.failures, row?.network.startsWith('session '), others]).toEqual([1, true, []]);
  });

  it('lock their session after ten: it gets 423 ACCOUNT_LOCKED for 15 minutes, and its user can log in [C-14.4]', async ({
    mailbox,
    person,
    request,
  }) => {
    const now = stopClock();
    for (let time = 0; time < MOST; time++)
      await expectError(await request(uniqueEmail(), WRONG), 400, 'INVALID_CURRENT_PASSWORD');
    for (const password of [WRONG, PASSWORD]) {
      const response = await request(uniqueEmail(), password);
      expect(response.headers.get('retry-after')).toBe(String(LOCK_MS / 1_000));
      await expectError(response, 423, 'ACCOUNT_LOCKED');
    }
    expect(mailbox.mails).toEqual([]);
    expect((await logIn(person.email)).status).toBe(200);
    vi.setSystemTime(now + LOCK_MS);
    person.accessToken = (await bodyOf<LoginAnswer>(await refresh(person.refreshToken), 200)).accessToken;
    expect((await request(uniqueEmail())).status).toBe(202);
  });

  it('lock the changes of the password in the same session, too, and no other session [C-14.4]', async ({
    mailbox,
    person,
    request,
  }) => {
    const elsewhere = await person.newSession();
    for (let time = 0; time < MOST; time++) await request(uniqueEmail(), WRONG);
    const change = { currentPassword: PASSWORD, newPassword: 'another horse battery' };
    await expectError(await person.post('/auth/change-password', change), 423, 'ACCOUNT_LOCKED');
    const body = { newEmail: uniqueEmail(), currentPassword: PASSWORD };
    await mailbox.read('POST', PATH, body, 202, elsewhere.accessToken);
  });
});
