/** ACCOUNT_LOCKED: ten wrong logins of an e-mail in 15 minutes, whether somebody has it or not [C-1.4]. */
import { env } from 'cloudflare:workers';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { countAttempt } from '../../../worker/registry/login-failures.ts';
import { call, PASSWORD, Person } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';

const WRONG = 'not my password';
const MOST = 10;
const WINDOW_MS = 15 * 60_000;

const nobody = () => `${crypto.randomUUID()}@example.org`;

afterEach(() => {
  vi.useRealTimers();
});

/** The clock, from now on where the test puts it. */
function stopClock(): number {
  const now = Date.now();
  vi.useFakeTimers({ toFake: ['Date'] });
  vi.setSystemTime(now);
  return now;
}

function logIn(email: string, password: string): Promise<Response> {
  return call('/auth/login', { method: 'POST', body: { email, password } });
}

/** As so many wrong logins leave it: at most ten since the last right one, each of them judged. */
async function failed(email: string, times: number): Promise<void> {
  const counted = Array.from({ length: times }, () => countAttempt(env.DB, email, Date.now()));
  expect(await Promise.all(counted)).toEqual(counted.map(() => undefined));
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

describe('an e-mail with ten wrong logins', () => {
  it('is locked, for the right password too [C-1.4]', async () => {
    const { email } = await Person.register();
    await failed(email, MOST);
    await expectLocked(email);
  });

  it('is locked alike when nobody has it: the same answers in the same order [C-1.4]', async () => {
    const answers = async (email: string) => {
      await failed(email, MOST - 2);
      const told: string[] = [];
      for (let time = 0; time < 4; time++) {
        const response = await logIn(email, WRONG);
        told.push(`${response.status} ${response.headers.get('retry-after')} ${await response.text()}`);
      }
      return told;
    };
    const { email } = await Person.register();
    const known = await answers(email);
    expect(await answers(nobody())).toEqual(known);
    expect(known.map((one) => one.slice(0, 3))).toEqual(['401', '401', '423', '423']);
  });

  it('is one in whatever case the guesses come [C-1.4]', async () => {
    const { email } = await Person.register();
    await failed(email, MOST - 2);
    for (const spelled of [email.toUpperCase(), `${email.slice(0, -3)}ORG`]) {
      await expectError(await logIn(spelled, WRONG), 401, 'INVALID_CREDENTIALS');
    }
    await expectLocked(email);
    await expectLocked(email.toUpperCase());
  });

  it('locks no other, and ends no session of its own [C-1.4]', async () => {
    const [person, other] = [await Person.register(), await Person.register()];
    await failed(person.email, MOST);
    await expectLocked(person.email);
    expect((await logIn(other.email, PASSWORD)).status).toBe(200);
    expect((await person.call('/auth/me')).status).toBe(200);
    const refresh = { method: 'POST', body: { refreshToken: person.refreshToken } } as const;
    expect((await call('/auth/refresh', refresh)).status).toBe(200);
  });
});

describe('guesses at once', () => {
  it('are judged ten times of twenty, known or not [C-1.4]', async () => {
    const { email } = await Person.register();
    for (const one of [email, nobody()]) {
      const answers = await Promise.all(Array.from({ length: 2 * MOST }, () => logIn(one, WRONG)));
      const judged = answers.filter(({ status }) => status === 401);
      expect(judged).toHaveLength(MOST);
      expect(answers.filter(({ status }) => status === 423)).toHaveLength(MOST);
      await expectLocked(one);
    }
  });
});

describe('a right login', () => {
  it('among nine wrong ones is let in, and nothing stands against the user any more [C-1.4]', async () => {
    const { email } = await Person.register();
    for (let round = 0; round < 2; round++) {
      await failed(email, MOST - 1);
      expect((await logIn(email, PASSWORD)).status).toBe(200);
    }
  });
});

describe('a lock', () => {
  it('holds until 15 minutes are over, and not a moment more, however often somebody knocks [C-1.4]', async () => {
    const { email } = await Person.register();
    const now = stopClock();
    await failed(email, MOST);
    for (const laterMs of [0, 60_000, WINDOW_MS / 2, WINDOW_MS - 1]) {
      vi.setSystemTime(now + laterMs);
      await expectLocked(email);
    }
    vi.setSystemTime(now + WINDOW_MS);
    expect((await logIn(email, PASSWORD)).status).toBe(200);
  });

  it('lasts 15 minutes from the tenth wrong one, and says how much is left [C-1.4]', async () => {
    const email = nobody();
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

  it('comes anew with ten more [C-1.4]', async () => {
    const email = nobody();
    const now = stopClock();
    await failed(email, MOST);
    vi.setSystemTime(now + WINDOW_MS);
    await failed(email, MOST);
    await expectLocked(email);
  });

  it('does not come of ten wrong ones that are further apart than 15 minutes [C-1.4]', async () => {
    const { email } = await Person.register();
    const now = stopClock();
    await failed(email, MOST - 1);
    vi.setSystemTime(now + WINDOW_MS);
    await failed(email, MOST - 1);
    expect((await logIn(email, PASSWORD)).status).toBe(200);
  });
});
