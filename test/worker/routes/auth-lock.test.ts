/** ACCOUNT_LOCKED: ten wrong logins of an e-mail within 15 minutes, whether a user has it or not [C-1.4]. */
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { anonymous } from '#workerd/client.ts';
import { logIn, PASSWORD, Person, refresh, uniqueEmail } from '#workerd/people.ts';
import { stopClock } from '#workerd/site-clock.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import { countAttempt } from '../../../registry/login-failures.ts';

const WRONG = 'not my password';
const MOST = 10;
const WINDOW_MS = 15 * 60_000;
/** How long a browser is known after a login. */
const KNOWN_MS = 90 * 86_400_000;

/** The network of requests whose address the Worker does not know. */
const UNKNOWN = 'unknown';

/** Counts failed logins without checking a password: at most ten since the last right login. */
async function failed(email: string, times: number, network = UNKNOWN): Promise<void> {
  for (let time = 0; time < times; time++) await countAttempt(env.DB, { email, network }, Date.now());
}

/** A login from an address, in a browser with these cookies. */
async function logInFrom(address: string, email: string, password: string, cookie = ''): Promise<Response> {
  const headers = { 'cf-connecting-ip': address, cookie };
  const options = { method: 'POST', body: { email, password }, headers } as const;
  return await anonymous.call('/auth/login', options, { CLIENT_ADDRESS: 'platform' });
}

/** The cookie by which the browser of this login proves later that it is known. */
function knownBrowserOf(login: Response): string {
  const cookie = /known_browser=[^;]+/.exec(login.headers.getSetCookie().join('; '))?.[0] ?? '';
  expect(cookie).not.toBe('');
  return cookie;
}

async function expectLocked(email: string): Promise<void> {
  for (const password of [WRONG, PASSWORD]) {
    const response = await logIn(email, password);
    const { headers } = response;
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    expect(headers.get('set-cookie')).toBeNull();
    await expectError(response, 423, 'ACCOUNT_LOCKED');
  }
}

describe('an e-mail with ten failed logins', () => {
  it('gets 423 even with the right password [C-1.4]', async ({ person }) => {
    const { email } = person;
    await failed(email, MOST);
    await expectLocked(email);
  });

  it('gets the same answers whether it belongs to a user or not [C-1.4]', async ({ person }) => {
    stopClock();
    const answers = async (email: string) => {
      await failed(email, MOST - 2);
      const seen: string[] = [];
      for (let time = 0; time < 4; time++) {
        const response = await logIn(email, WRONG);
        seen.push(`${response.status} ${response.headers.get('retry-after')} ${await response.text()}`);
      }
      return seen;
    };
    const { email } = person;
    const known = await answers(email);
    expect(await answers(uniqueEmail())).toEqual(known);
    expect(known.map((one) => one.slice(0, 3))).toEqual(['401', '401', '423', '423']);
  });

  it('is counted and locked regardless of upper and lower case [C-1.4]', async ({ person }) => {
    const { email } = person;
    await failed(email, MOST - 2);
    for (const spelled of [email.toUpperCase(), `${email.slice(0, -3)}ORG`]) {
      await expectError(await logIn(spelled, WRONG), 401, 'INVALID_CREDENTIALS');
    }
    await expectLocked(email);
    await expectLocked(email.toUpperCase());
  });

  it('locks out no other user and ends no session [C-1.4]', async ({ person }) => {
    const second = await Person.register();
    await failed(person.email, MOST);
    await expectLocked(person.email);
    expect((await logIn(second.email, PASSWORD)).status).toBe(200);
    expect((await person.call('/auth/me')).status).toBe(200);
    expect((await refresh(person.refreshToken)).status).toBe(200);
  });
});

describe('concurrent guesses', () => {
  it('are checked for a known e-mail ten of twenty times, and the others get 423 [C-1.4]', async ({
    person: { email },
  }) => {
    const answers = await Promise.all(Array.from({ length: 2 * MOST }, () => logIn(email, WRONG)));
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(MOST);
    expect(answers.filter(({ status }) => status === 423)).toHaveLength(MOST);
    await expectLocked(email);
  });

  it('are checked for an unknown e-mail at most ten of twenty times; the others get 423 or 503 [C-1.4] [C-14.2]', async () => {
    const email = uniqueEmail();
    const answers = await Promise.all(Array.from({ length: 2 * MOST }, () => logIn(email, WRONG)));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 401).length).toBeLessThanOrEqual(MOST);
    // A check costs as much as that of a real password, so some have no turn.
    expect(statuses.filter((status) => ![401, 423, 503].includes(status))).toEqual([]);
    expect(statuses).toContain(401);
  }, 90_000);
});

describe('a right login', () => {
  it('resets the count of failures: after nine more a right login still succeeds [C-1.4]', async ({
    person,
  }) => {
    const { email } = person;
    for (let round = 0; round < 2; round++) {
      await failed(email, MOST - 1);
      expect((await logIn(email, PASSWORD)).status).toBe(200);
    }
  });
});

describe('a lock', () => {
  it('lasts 15 minutes, also if the user keeps trying [C-1.4]', async ({ person }) => {
    const { email } = person;
    const now = stopClock();
    await failed(email, MOST);
    for (const laterMs of [0, 60_000, WINDOW_MS / 2, WINDOW_MS - 1]) {
      vi.setSystemTime(now + laterMs);
      await expectLocked(email);
    }
    vi.setSystemTime(now + WINDOW_MS);
    expect((await logIn(email, PASSWORD)).status).toBe(200);
  });

  it('lasts 15 minutes from the tenth failure, and Retry-After shows the rest [C-1.4]', async () => {
    const email = uniqueEmail();
    const now = stopClock();
    await failed(email, MOST - 1);
    const lockedAt = now + WINDOW_MS - 1_000;
    vi.setSystemTime(lockedAt);
    await failed(email, 1);
    vi.setSystemTime(lockedAt + WINDOW_MS - 60_000);
    expect((await logIn(email, WRONG)).headers.get('retry-after')).toBe('60');
    vi.setSystemTime(lockedAt + WINDOW_MS);
    expect((await logIn(email, WRONG)).status).toBe(401);
  });

  it('begins again after ten more failures once it has ended [C-1.4]', async () => {
    const email = uniqueEmail();
    const now = stopClock();
    await failed(email, MOST);
    vi.setSystemTime(now + WINDOW_MS);
    await failed(email, MOST);
    await expectLocked(email);
  });

  it('does not begin when nine failures follow nine others after 15 minutes [C-1.4]', async ({ person }) => {
    const { email } = person;
    const now = stopClock();
    await failed(email, MOST - 1);
    vi.setSystemTime(now + WINDOW_MS);
    await failed(email, MOST - 1);
    expect((await logIn(email, PASSWORD)).status).toBe(200);
  });
});

describe('guesses from other networks', () => {
  it.for([
    ['an IPv4 address', () => '192.0.2.1', '198.51.100.1'],
    ['all addresses of an IPv6 /64', (host: number) => `2001:db8::${host}`, '2001:db8:1::1'],
  ] as const)(
    'ten failures lock only their network: %s [C-14.4]',
    async ([, of, other], { person: { email } }) => {
      for (let host = 1; host <= MOST; host++) await logInFrom(of(host), email, WRONG);
      await expectError(await logInFrom(of(9_999), email, PASSWORD), 423, 'ACCOUNT_LOCKED');
      expect((await logInFrom(other, email, PASSWORD)).status).toBe(200);
    },
  );

  it('100 failures lock all clients except browsers that logged in earlier [C-14.4]', async ({ person }) => {
    const { email } = person;
    const cookie = knownBrowserOf(await logInFrom('192.0.2.1', email, PASSWORD));
    for (let network = 0; network < 100; network++) await failed(email, 1, `198.51.100.${network}`);
    await expectError(await logInFrom('203.0.113.1', email, PASSWORD), 423, 'ACCOUNT_LOCKED');
    expect((await logInFrom('203.0.113.1', email, PASSWORD, cookie)).status).toBe(200);
  });

  it('a browser whose known_browser cookie is foreign, forged or malformed stays locked: 423 [C-14.4]', async ({
    person,
  }) => {
    const other = await Person.register();
    const cookie = knownBrowserOf(await logInFrom('192.0.2.1', other.email, PASSWORD));
    for (let network = 0; network < 100; network++) await failed(person.email, 1, `198.51.100.${network}`);
    const mine = `known_browser=${Date.now() + 1_000}.${'0'.repeat(64)}`;
    for (const shown of [cookie, mine, 'known_browser=x', 'known_browser=1.'])
      await expectError(await logInFrom('203.0.113.1', person.email, PASSWORD, shown), 423, 'ACCOUNT_LOCKED');
  });

  it('a browser stays known for 90 days after a login, and then its known_browser cookie has expired [C-14.4]', async ({
    person: { email },
  }) => {
    const now = stopClock();
    const cookie = knownBrowserOf(await logInFrom('192.0.2.1', email, PASSWORD));
    for (const [laterMs, status] of [
      [KNOWN_MS - 1, 200],
      [KNOWN_MS, 423],
    ] as const) {
      vi.setSystemTime(now + laterMs);
      for (let network = 0; network < 100; network++) await failed(email, 1, `198.51.100.${network}`);
      expect((await logInFrom('203.0.113.1', email, PASSWORD, cookie)).status).toBe(status);
    }
  });
});
