/**
 * How many mails strangers can cause to one address, how the queue divides its room, and which settings can send mail
 * at all [C-15.5].
 */
import { env } from 'cloudflare:workers';
import { beforeEach, vi } from 'vitest';
import { fireAlert } from '#workerd/alerts.ts';
import { countOf, rowsFrom, runSql, valueFrom } from '#workerd/d1.ts';
import { Mailbox } from '#workerd/mailbox.ts';
import { logIn, PASSWORD, Person, uniqueEmail } from '#workerd/people.ts';
import { restRequest, sendRequest } from '#workerd/rest.ts';
import { MINUTE, stopClock } from '#workerd/site-clock.ts';
import { Team, uniqueSlug } from '#workerd/team.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import type { AlertRuleRecord } from '../../protocol/alert.ts';
import type { Env } from '../../worker/env.ts';
import { keepHouse } from '../../worker/lifecycle/housekeeping.ts';
import { deliverMails } from '../../worker/mail/outbox.ts';

const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const PER_HOUR = 3;
const PER_DAY = 10;
/** The queue has room for this many mails, and each domain for a quarter of it. */
const MOST_WAITING = 10_000;
const NEXT = 'another horse battery';

function bindingsOf(mailbox: Mailbox): Env {
  return { ...env, ...mailbox.bindings } as Env;
}

function requestReset(mailbox: Mailbox, email: string): Promise<Response> {
  return mailbox.call('POST', '/auth/password-reset', { email });
}

function confirmReset(mailbox: Mailbox, token: string): Promise<Response> {
  return mailbox.call('POST', '/auth/password-reset/confirm', { token, newPassword: NEXT });
}

function invite(mailbox: Mailbox, team: Team, email: string): Promise<Response> {
  const path = `/organizations/${team.id}/invitations`;
  return mailbox.call('POST', path, { email, role: 'VIEWER' }, team.orgAdmin.accessToken);
}

/** How many mails the audit says were not sent because the address had its share. */
async function limitedOf(condition: string, value: string): Promise<number> {
  const sum = `SELECT coalesce(sum(count), 0) FROM audit_events WHERE event = 'mail.limited' AND ${condition}`;
  return (await valueFrom<number>(sum, value)) ?? 0;
}

describe('the share of a network', () => {
  it('is thirty registrations and resets a minute; the next is 429, and another network has its own [C-15.5]', async ({
    mailbox,
  }) => {
    const now = stopClock();
    const from = (address: string, path: string, body: object) => {
      const headers = { 'content-type': 'application/json', 'cf-connecting-ip': address };
      const init = { method: 'POST', headers, body: JSON.stringify(body) };
      const bindings = { ...bindingsOf(mailbox), CLIENT_ADDRESS: 'platform' };
      return sendRequest(restRequest(`/api/v1${path}`, init), bindings);
    };
    const reset = (address: string) => from(address, '/auth/password-reset', { email: uniqueEmail() });
    for (let count = 0; count < 30; count++) expect((await reset('192.0.2.30')).status).toBe(202);
    const refused = await reset('192.0.2.30');
    expect(refused.headers.get('retry-after')).toBe('60');
    await expectError(refused, 429, 'TOO_MANY_REQUESTS');
    const account = { email: uniqueEmail(), password: PASSWORD, name: 'New' };
    await expectError(await from('192.0.2.30', '/auth/register', account), 429, 'TOO_MANY_REQUESTS');
    expect((await reset('192.0.2.31')).status).toBe(202);
    vi.setSystemTime(now + MINUTE);
    expect((await reset('192.0.2.30')).status).toBe(202);
  });
});

describe('the share of an address', () => {
  it('is three mails an hour: a fourth request gets the same answer, no mail, and an audit event [C-15.5]', async ({
    mailbox,
    person,
  }) => {
    const now = stopClock();
    const answers: unknown[][] = [];
    for (let time = 0; time <= PER_HOUR; time++) {
      vi.setSystemTime(now + time * 2 * MINUTE);
      const response = await requestReset(mailbox, person.email);
      answers.push([response.status, await response.text()]);
    }
    expect(answers).toEqual(answers.map(() => [202, answers[0]?.[1]]));
    expect(mailbox.mails).toHaveLength(PER_HOUR);
    expect(await limitedOf('target = ?', person.id)).toBe(1);
    vi.setSystemTime(now + HOUR + MINUTE);
    await requestReset(mailbox, person.email);
    expect(mailbox.mails).toHaveLength(PER_HOUR + 1);
  });

  it('leaves the token of the last mail valid after a request over the share [C-15.5]', async ({
    mailbox,
    person,
  }) => {
    const now = stopClock();
    for (let time = 0; time <= PER_HOUR; time++) {
      vi.setSystemTime(now + time * 2 * MINUTE);
      await requestReset(mailbox, person.email);
    }
    expect(mailbox.mails).toHaveLength(PER_HOUR);
    expect((await confirmReset(mailbox, mailbox.last(person.email).token)).status).toBe(200);
  });

  it('is ten mails a day, and is free again a day later [C-15.5]', async ({ mailbox, person }) => {
    const now = stopClock();
    for (let time = 0; time < PER_DAY + 2; time++) {
      vi.setSystemTime(now + time * 21 * MINUTE);
      await requestReset(mailbox, person.email);
    }
    expect(mailbox.mails).toHaveLength(PER_DAY);
    vi.setSystemTime(now + DAY + MINUTE);
    await requestReset(mailbox, person.email);
    expect(mailbox.mails).toHaveLength(PER_DAY + 1);
  });

  it('counts the mails of every organization and every route together [C-15.5]', async ({
    mailbox,
    team,
    other,
    person,
  }) => {
    const third = await Team.create();
    for (const one of [team, other, third])
      expect((await invite(mailbox, one, person.email)).status).toBe(201);
    expect((await requestReset(mailbox, person.email)).status).toBe(202);
    expect(mailbox.mails.map(({ subject }) => subject)).toEqual(
      Array(PER_HOUR).fill('Invitation to an organization on Sitewire'),
    );
  });

  it('answers an invitation over the share like any other, and audits it in its organization [C-15.5]', async ({
    mailbox,
    ownTeam,
  }) => {
    const email = uniqueEmail();
    const answers: unknown[][] = [];
    for (let time = 0; time <= PER_HOUR; time++) {
      const response = await invite(mailbox, ownTeam, email);
      answers.push([response.status, Object.keys((await response.json()) as object)]);
    }
    expect(answers).toEqual(answers.map(() => [201, answers[0]?.[1]]));
    expect(mailbox.mails).toHaveLength(PER_HOUR);
    expect(await limitedOf('organization_id = ?', ownTeam.id)).toBe(1);
  });

  it('leaves the mailed invitation valid when it is sent again over the share [C-15.5]', async ({
    mailbox,
    ownTeam,
  }) => {
    const email = uniqueEmail();
    const made = (await (await invite(mailbox, ownTeam, email)).json()) as { id: string };
    const path = `/organizations/${ownTeam.id}/invitations/${made.id}/resend`;
    for (let time = 0; time < PER_HOUR; time++)
      await mailbox.read('POST', path, undefined, 200, ownTeam.orgAdmin.accessToken);
    expect(mailbox.mails).toHaveLength(PER_HOUR);
    const { token } = mailbox.last(email);
    expect((await mailbox.call('POST', '/invitations/verify', { token })).status).toBe(200);
  });

  it('counts the mails that an unproved account has sent to its own address and to others [C-15.5]', async ({
    mailbox,
    newcomer,
  }) => {
    const now = stopClock();
    for (let time = 1; time <= PER_HOUR + 1; time++) {
      vi.setSystemTime(now + time * 2 * MINUTE);
      await mailbox.read('POST', '/auth/verify-email/resend', undefined, 202, newcomer.accessToken);
    }
    expect(mailbox.mails).toHaveLength(PER_HOUR);
    // The notice to its own address, which may be a stranger's, counts, too.
    const change = { newEmail: uniqueEmail(), currentPassword: PASSWORD };
    await mailbox.read('POST', '/auth/email-change', change, 202, newcomer.accessToken);
    expect(mailbox.mails.filter(({ to }) => to === newcomer.email)).toHaveLength(PER_HOUR);
  });

  it('counts the tokens of e-mail changes to an address that others request [C-15.5]', async ({
    mailbox,
  }) => {
    const newEmail = uniqueEmail();
    for (let time = 0; time <= PER_HOUR; time++) {
      const { accessToken } = await Person.register();
      const body = { newEmail, currentPassword: PASSWORD };
      await mailbox.read('POST', '/auth/email-change', body, 202, accessToken);
    }
    expect(mailbox.mails.filter(({ to }) => to === newEmail)).toHaveLength(PER_HOUR);
  });

  it('is one for all spellings of an address [C-15.5]', async ({ mailbox, person }) => {
    const now = stopClock();
    for (const [time, email] of [
      person.email,
      person.email.toUpperCase(),
      person.email,
      person.email,
    ].entries()) {
      vi.setSystemTime(now + time * 2 * MINUTE);
      await requestReset(mailbox, email);
    }
    expect(mailbox.mails).toHaveLength(PER_HOUR);
  });

  it('does not count the notices that a proved owner causes [C-15.5]', async ({ mailbox, person }) => {
    const now = stopClock();
    for (let time = 0; time <= PER_HOUR; time++) {
      vi.setSystemTime(now + time * 2 * MINUTE);
      const body = { newEmail: uniqueEmail(), currentPassword: PASSWORD };
      await mailbox.read('POST', '/auth/email-change', body, 202, person.accessToken);
    }
    expect(mailbox.mails.filter(({ to }) => to === person.email)).toHaveLength(PER_HOUR + 1);
    await requestReset(mailbox, person.email);
    expect(mailbox.last(person.email).token).toMatch(/^[\w-]{43}$/);
  });

  it('holds for requests at the same moment [C-15.5]', async ({ mailbox, person }) => {
    const teams = await Promise.all(Array.from({ length: 6 }, () => Team.create()));
    await Promise.all(teams.map((team) => invite(mailbox, team, person.email)));
    expect(mailbox.mails).toHaveLength(PER_HOUR);
  });
});

/** Copies the only waiting mail to an address that many times. The copies are due in a year. */
async function fillWith(mailbox: Mailbox, email: string, times: number): Promise<void> {
  vi.spyOn(console, 'warn').mockReturnValue();
  mailbox.failure = 'the mail server is down';
  await mailbox.read('POST', '/auth/register', { email, password: PASSWORD, name: 'New' }, 201);
  mailbox.failure = undefined;
  const [row] = await rowsFrom<Record<string, unknown>>(
    'SELECT * FROM mails ORDER BY created_at_ms DESC LIMIT 1',
  );
  const columns = Object.keys(row ?? {});
  const copied = columns.map((name) =>
    name === 'id' ? `'copy-' || n` : name === 'due_at_ms' ? `${Date.now() + 365 * DAY}` : name,
  );
  await runSql(
    `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${times})
     INSERT INTO mails (${columns.join(', ')}) SELECT ${copied.join(', ')} FROM mails, numbers WHERE id = ?`,
    row?.id,
  );
}

function emailAt(domain: string): string {
  return `${crypto.randomUUID()}@${domain}`;
}

beforeEach(async () => {
  await runSql('DELETE FROM mails');
});

describe('a full queue of mails', () => {
  it('answers every request for a mail with 503 and Retry-After, and changes nothing [C-15.5]', async ({
    mailbox,
    ownTeam,
    person,
    newcomer,
  }) => {
    vi.setSystemTime(stopClock() + 2 * MINUTE);
    // Of many domains, so that only the whole queue is full.
    for (let lane = 0; lane < 5; lane++) {
      await fillWith(mailbox, emailAt(`lane-${lane}.example`), MOST_WAITING / 5);
      await runSql(`UPDATE mails SET id = 'lane-${lane}-' || id WHERE id LIKE 'copy-%'`);
    }
    const [unknown, invited] = [uniqueEmail(), uniqueEmail()];
    const register = { email: unknown, password: PASSWORD, name: 'New' };
    const change = { newEmail: uniqueEmail(), currentPassword: PASSWORD };
    const requests = {
      register: () => mailbox.call('POST', '/auth/register', register),
      'reset of a known address': () => requestReset(mailbox, person.email),
      'reset of an unknown address': () => requestReset(mailbox, uniqueEmail()),
      'verification again': () =>
        mailbox.call('POST', '/auth/verify-email/resend', undefined, newcomer.accessToken),
      invitation: () => invite(mailbox, ownTeam, invited),
      'e-mail change': () => mailbox.call('POST', '/auth/email-change', change, person.accessToken),
    };
    const statuses: Record<string, [number, boolean]> = {};
    for (const [name, request] of Object.entries(requests)) {
      const response = await request();
      statuses[name] = [response.status, Number(response.headers.get('retry-after')) > 0];
      await response.text();
    }
    expect(statuses).toEqual(Object.fromEntries(Object.keys(requests).map((name) => [name, [503, true]])));
    await expectError(await logIn(unknown), 401, 'INVALID_CREDENTIALS');
    expect(await countOf('invitations', 'email = ?', invited)).toBe(0);
    expect(await person.read('/auth/email-change')).toEqual({ pendingEmail: null, expiresAt: null });
  }, 60_000);

  it('keeps an alert until its mail can be queued [C-15.5]', async ({ mailbox, ownTeam }) => {
    const { id: plantId } = await ownTeam.newPlant({ name: 'Dairy' });
    const rule = await ownTeam.operator.create<AlertRuleRecord>('/alerts', {
      ...{ name: 'Battery nearly empty', severity: 'WARNING', metric: 'BESS-1/socPercent', operator: 'LT' },
      ...{ threshold: 10, plantId, mailTo: [ownTeam.viewer.id] },
    });
    await fillWith(mailbox, emailAt('lane.example'), MOST_WAITING);
    await fireAlert(ownTeam.id, { plantId, ruleId: rule.id, message: 'BESS-1/socPercent is 9, under 10' });
    await keepHouse(bindingsOf(mailbox), Date.now());
    await runSql('DELETE FROM mails');
    await keepHouse(bindingsOf(mailbox), Date.now());
    expect(mailbox.mails.filter(({ to }) => to === ownTeam.viewer.email)).toMatchObject([
      { subject: 'Alerts on Sitewire' },
    ]);
  }, 60_000);
});

describe('the lane of a domain', () => {
  it('has a quarter of the queue: over it its own domain gets 503, and another domain gets its mail [C-15.5]', async ({
    mailbox,
  }) => {
    await fillWith(mailbox, emailAt('flooded.example'), MOST_WAITING / 4);
    for (const domain of ['flooded.example', 'FLOODED.example'])
      await expectError(await requestReset(mailbox, emailAt(domain)), 503, 'SERVICE_UNAVAILABLE');
    const other = emailAt('quiet.example');
    await mailbox.read('POST', '/auth/register', { email: other, password: PASSWORD, name: 'New' }, 201);
    expect(mailbox.mails.map(({ to }) => to)).toEqual([other]);
  }, 60_000);

  it('does not delay the mails of others: a round sends a late mail of another domain [C-15.5]', async ({
    mailbox,
    ownTeam,
  }) => {
    const now = stopClock();
    vi.spyOn(console, 'warn').mockReturnValue();
    mailbox.failure = 'the mail server is down';
    const late = emailAt('quiet.example');
    for (let index = 0; index < 60; index++) {
      vi.setSystemTime(now + index);
      expect((await invite(mailbox, ownTeam, emailAt('flooded.example'))).status).toBe(201);
    }
    vi.setSystemTime(now + 61);
    expect((await invite(mailbox, ownTeam, late)).status).toBe(201);
    mailbox.failure = undefined;
    await deliverMails(bindingsOf(mailbox), now + 10 * MINUTE);
    expect(mailbox.mails.map(({ to }) => to)).toContain(late);
  }, 60_000);
});

describe('the pauses before a mail is sent again', () => {
  it('begin when the try has failed, however long it took [C-11.1] [C-15.5]', async ({ mailbox, person }) => {
    vi.spyOn(console, 'warn').mockReturnValue();
    const now = stopClock();
    // The server takes 29 s, and then refuses the mail for the moment.
    const slow = new Mailbox({
      MAIL_FOLDER: {
        fetch: async () => {
          vi.setSystemTime(Date.now() + 29_000);
          return new Response('450 try again later', { status: 450 });
        },
      } as unknown as Fetcher,
    });
    await requestReset(slow, person.email);
    expect(await rowsFrom('SELECT failures, due_at_ms FROM mails')).toEqual([
      { failures: 1, due_at_ms: now + 29_000 + MINUTE },
    ]);
    await deliverMails(bindingsOf(mailbox), now + 28_000 + MINUTE);
    expect(mailbox.mails).toEqual([]);
    await deliverMails(bindingsOf(mailbox), now + 29_000 + MINUTE);
    expect(mailbox.mails.map(({ to }) => to)).toEqual([person.email]);
  });

  it('are kept while a round takes longer than a mail is reserved: no mail is tried twice at once [C-11.1] [C-15.5]', async ({
    mailbox,
    ownTeam,
  }) => {
    vi.spyOn(console, 'warn').mockReturnValue();
    const now = stopClock();
    mailbox.failure = 'the mail server is down';
    for (let index = 0; index < 8; index++)
      await invite(mailbox, ownTeam, emailAt(`domain-${index}.example`));
    vi.setSystemTime(now + 2 * MINUTE);
    const tries: string[] = [];
    const rounds: Promise<void>[] = [];
    const bindings = bindingsOf(
      new Mailbox({
        MAIL_FOLDER: {
          fetch: async (_url: unknown, init: { body: Uint8Array }) => {
            tries.push(/^To: (.*)$/m.exec(new TextDecoder().decode(init.body))?.[1] ?? '');
            // Each try takes 29 s, and the scheduled task of each minute begins its own round meanwhile.
            if (tries.length <= 8) {
              vi.setSystemTime(Date.now() + 29_000);
              rounds.push(deliverMails(bindings, Date.now()));
            }
            return new Response(null, { status: 450 });
          },
        } as unknown as Fetcher,
      }),
    );
    await deliverMails(bindings, Date.now());
    await Promise.all(rounds);
    expect(new Set(tries).size).toBe(8);
    expect(
      (await rowsFrom<{ failures: number }>('SELECT failures FROM mails')).map(({ failures }) => failures),
    ).toEqual(Array(8).fill(2));
  }, 60_000);
});

describe('MAIL_FROM', () => {
  it.for([
    ['no-reply@acme.example', 'Sitewire <no-reply@acme.example>'],
    ['Acme Power <no-reply@acme.example>', 'Acme Power <no-reply@acme.example>'],
    ['"Acme, Inc." <no-reply@acme.example>', '"Acme, Inc." <no-reply@acme.example>'],
    ['<no-reply@acme.example>', 'Sitewire <no-reply@acme.example>'],
  ] as const)('%s is the sender %s [C-15.5]', async ([MAIL_FROM, sender]) => {
    const mailbox = new Mailbox({ MAIL_FROM });
    const email = uniqueEmail();
    await mailbox.read('POST', '/auth/register', { email, password: PASSWORD, name: 'New' }, 201);
    expect(/^From: (.*)$/m.exec(mailbox.last(email).raw)?.[1]?.trim()).toBe(sender);
  });

  it('encodes a display name that is not ASCII [C-15.5]', async () => {
    const mailbox = new Mailbox({ MAIL_FROM: 'Žlutá energie <no-reply@acme.example>' });
    const email = uniqueEmail();
    await mailbox.read('POST', '/auth/register', { email, password: PASSWORD, name: 'New' }, 201);
    expect(/^From: (.*)$/m.exec(mailbox.last(email).raw)?.[1]).toMatch(
      /^=\?UTF-8\?[BQ]\?\S+\?= <no-reply@acme\.example>\s*$/i,
    );
  });
});

describe('a mail setting that cannot work', () => {
  const GOOD = { SMTP_URL: 'smtps://user:hidden-word@127.0.0.1:465', MAIL_FROM: 'no-reply@acme.example' };
  const WRONG: [name: string, setting: Partial<Env>][] = [
    ['MAIL_FROM', { ...GOOD, MAIL_FROM: '' }],
    ['MAIL_FROM', { ...GOOD, MAIL_FROM: 'nobody' }],
    ['MAIL_FROM', { ...GOOD, MAIL_FROM: 'one@a.example@b.example' }],
    ['MAIL_FROM', { ...GOOD, MAIL_FROM: 'Acme <>' }],
    ['MAIL_FROM', { ...GOOD, MAIL_FROM: 'Acme no-reply@acme.example' }],
    ['MAIL_FROM', { ...GOOD, MAIL_FROM: 'Acme <no-reply@acme.example' }],
    ['MAIL_FROM', { ...GOOD, MAIL_FROM: 'Acme\r\nBcc: x@y.example <no-reply@acme.example>' }],
    ['MAIL_FROM', { ...GOOD, MAIL_FROM: 'one@a.example, two@b.example' }],
    ['SMTP_URL', { ...GOOD, SMTP_URL: '' }],
    ['SMTP_URL', { ...GOOD, SMTP_URL: 'mail.acme.example' }],
    ['SMTP_URL', { ...GOOD, SMTP_URL: 'https://user:hidden-word@mail.acme.example' }],
    ['SMTP_URL', { ...GOOD, SMTP_URL: 'smtp://user:hidden-word%@mail.acme.example' }],
    ['PUBLIC_URL', { ...GOOD, PUBLIC_URL: 'api.acme.example' }],
  ];

  it.for(WRONG)(
    'makes /readyz answer 503 and name %s, without its secret: %j [C-15.5]',
    async ([name, setting]) => {
      vi.spyOn(console, 'error').mockReturnValue();
      const { call } = readyz(setting);
      const body = await expectError(await call(), 503, 'SERVICE_UNAVAILABLE');
      expect(body.message).toContain(name);
      expect(JSON.stringify(body)).not.toContain('hidden-word');
    },
  );

  it('gets a registration 503 and not 500, and no account is made [C-15.5]', async () => {
    vi.spyOn(console, 'error').mockReturnValue();
    const mailbox = new Mailbox({ ...GOOD, MAIL_FROM: 'nobody' });
    const body = { email: uniqueEmail(), password: PASSWORD, name: 'New', organizationName: 'Acme' };
    const response = await mailbox.call('POST', '/auth/register', {
      ...body,
      organizationSlug: uniqueSlug(),
    });
    await expectError(response, 503, 'SERVICE_UNAVAILABLE');
    await expectError(await logIn(body.email), 401, 'INVALID_CREDENTIALS');
  });

  it.for([
    {},
    GOOD,
    { ...GOOD, MAIL_FROM: 'Acme Power <no-reply@acme.example>' },
    { ...GOOD, SMTP_URL: 'smtp://mail.acme.example' },
  ])('is none of %j: /readyz answers 200 [C-15.5]', async (setting) => {
    expect((await readyz(setting).call()).status).toBe(200);
  });
});

/** `GET /readyz` of a deployment with these settings. */
function readyz(setting: Partial<Env>) {
  const request = new Request('https://sitewire.example/readyz');
  return { call: () => sendRequest(request, setting) };
}
