/**
 * Waiting for the password hash is fair by network [C-15.6]: who floods the login waits behind everybody else. The
 * clock of the turns moves only when a test moves it, except in the flood at the end, which runs in real time.
 */
import { env } from 'cloudflare:workers';
import { afterEach, beforeAll, beforeEach, describe, expect, vi } from 'vitest';
import { anonymous } from '#workerd/client.ts';
import { done } from '#workerd/commits.ts';
import { PASSWORD, uniqueEmail } from '#workerd/people.ts';
import { expectError, it } from '#workerd/worker-test.ts';
import { registerUser } from '../../../registry/users.ts';
import { hashPassword } from '../../../worker/auth/password.ts';

/** Hashes that may follow each other before one has to wait [C-14.2]. */
const FREE = 5;
const MOST_PER_ADDRESS = 2;
const MOST_WAITING = 64;
const PLATFORM = { CLIENT_ADDRESS: 'platform', ADDRESS_RATE_PER_MINUTE: '60000' };

/** The hash of a person whose login costs as much as any, and makes no new hash after it. */
let passwordHash = '';

beforeAll(() => {
  passwordHash = hashPassword(PASSWORD);
});

async function newEmail(): Promise<string> {
  const [email, now] = [uniqueEmail(), Date.now()];
  done(
    await registerUser(env.DB, { email, name: 'Test Person', passwordHash, provedAtMs: now }, undefined, {
      address: null,
      now,
    }),
  );
  return email;
}

/** A login from an address. The address of a request is what the platform reports. */
function logInFrom(address: string, email = uniqueEmail(), cookie = ''): Promise<Response> {
  const headers = { 'cf-connecting-ip': address, cookie };
  return anonymous.call(
    '/auth/login',
    { method: 'POST', body: { email, password: PASSWORD }, headers },
    PLATFORM,
  );
}

const addressOf = (index: number) => `198.51.${100 + Math.floor(index / 200)}.${index % 200}`;

describe('the wait for the hash', () => {
  let nowMs = 0;
  let waits: { dueMs: number; end: () => void }[] = [];
  const answers: { name: string; status: number }[] = [];
  const asked: Promise<unknown>[] = [];

  beforeEach(() => {
    // Later than every turn that an earlier test took.
    nowMs += 10_000_000;
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
    vi.spyOn(scheduler, 'wait').mockImplementation(
      (ms) => new Promise((resolve) => waits.push({ dueMs: nowMs + ms, end: () => resolve() })),
    );
  });

  afterEach(async () => {
    // The hashes of 64 logins take a while.
    await endAllWaits();
    vi.restoreAllMocks();
  }, 90_000);

  /** Moves the clock to the end of the wait that ends first. */
  function endNextWait(): void {
    const [next] = waits.sort((one, other) => one.dueMs - other.dueMs);
    if (!next) throw new Error('nothing waits');
    waits = waits.filter((wait) => wait !== next);
    nowMs = Math.max(nowMs, next.dueMs);
    next.end();
  }

  async function endAllWaits(): Promise<void> {
    let isOver = false;
    const all = Promise.allSettled(asked.splice(0)).then(() => {
      isOver = true;
    });
    while (!isOver) {
      if (waits.length > 0) endNextWait();
      await Promise.race([all, new Promise((resolve) => setTimeout(resolve, 0))]);
    }
    answers.length = 0;
  }

  /** Sends a login, whose answer is noted when it comes. */
  function ask(name: string, login: () => Promise<Response>): void {
    asked.push(
      login().then(async (response) => {
        await response.text();
        answers.push({ name, status: response.status });
      }),
    );
  }

  /** Ends one wait after the other until that many logins are answered. */
  async function passUntilAnswered(count: number): Promise<void> {
    while (answers.length < count) {
      if (waits.length > 0) endNextWait();
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
  }

  /** Waits until that many logins are answered. */
  async function answered(count: number): Promise<void> {
    await vi.waitFor(() => expect(answers.length).toBeGreaterThanOrEqual(count), { timeout: 20_000 });
  }

  /** Takes the turns that need no wait, from an address that no test uses. */
  async function takeFreeTurns(): Promise<void> {
    for (let turn = 0; turn < FREE; turn++) ask('free', () => logInFrom(`203.0.113.${turn}`));
    await answered(FREE);
    expect(answers.map(({ status }) => status)).toEqual(Array(FREE).fill(401));
  }

  const refused = () => answers.filter(({ status }) => status === 503).length;

  it('lets two of an address wait, answers its third with 503 and Retry-After, and lets another address wait [C-15.6]', async () => {
    await takeFreeTurns();
    const flooding = MOST_PER_ADDRESS + 4;
    for (let index = 0; index < flooding; index++) ask('flood', () => logInFrom('192.0.2.1'));
    await answered(FREE + 4);
    expect(refused()).toBe(4);
    const third = await logInFrom('192.0.2.1');
    expect(Number(third.headers.get('retry-after'))).toBeGreaterThan(0);
    await expectError(third, 503, 'SERVICE_UNAVAILABLE');
    ask('other', () => logInFrom('192.0.2.2'));
    await endAllWaits();
    expect(refused()).toBe(0);
  }, 60_000);

  it('counts the addresses of one IPv6 network together [C-15.6]', async () => {
    await takeFreeTurns();
    for (let index = 1; index <= 5; index++) ask('flood', () => logInFrom(`2001:db8:0:1::${index}`));
    await answered(FREE + 3);
    expect(refused()).toBe(3);
  }, 60_000);

  it('has room for 64 logins of different addresses, and answers the next one with 503 [C-15.6]', async () => {
    await takeFreeTurns();
    for (let index = 0; index < MOST_WAITING; index++) ask('waiting', () => logInFrom(addressOf(index)));
    ask('one too many', () => logInFrom('192.0.2.3'));
    await answered(FREE + 1);
    expect(answers.slice(FREE)).toEqual([{ name: expect.any(String), status: 503 }]);
    expect(waits.length).toBeGreaterThan(0);
  }, 120_000);

  it('gives the next turn to a browser with the cookie of an earlier login, and not to those who came before it [C-15.6]', async () => {
    const email = await newEmail();
    const first = await logInFrom('192.0.2.9', email);
    expect(first.status).toBe(200);
    await first.text();
    const cookie = /known_browser=[^;]+/.exec(first.headers.getSetCookie().join('; '))?.[0] ?? '';
    expect(cookie).not.toBe('');
    nowMs += 10_000_000;
    await takeFreeTurns();
    const strangers = 8;
    for (let index = 0; index < strangers; index++) ask('stranger', () => logInFrom(addressOf(index)));
    await vi.waitFor(() => expect(waits.length).toBeGreaterThan(0));
    // A cookie that is not signed, or for another account, changes nothing.
    ask('forged', () =>
      logInFrom(
        '192.0.2.10',
        email,
        cookie.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
      ),
    );
    ask('of another account', () => logInFrom('192.0.2.11', uniqueEmail(), cookie));
    ask('known', () => logInFrom('192.0.2.12', email, cookie));
    await everybodyWaits();
    for (let turn = 1; turn <= 2; turn++) {
      await passUntilAnswered(FREE + turn);
    }
    const names = answers.slice(FREE).map(({ name }) => name);
    expect(answers.find(({ name }) => name === 'known')?.status).toBe(200);
    // A turn that was already assigned when the browser came may end first.
    expect(names.slice(0, 2)).toContain('known');
    expect(names).not.toContain('forged');
    expect(names).not.toContain('of another account');
  }, 60_000);

  it('gives an address its second turn after the first turns of all others [C-15.6]', async () => {
    await takeFreeTurns();
    for (let index = 0; index < MOST_PER_ADDRESS; index++) ask('flood', () => logInFrom('192.0.2.20'));
    await vi.waitFor(() => expect(waits.length).toBeGreaterThan(0));
    for (let index = 0; index < 4; index++) ask('other', () => logInFrom(addressOf(index)));
    await everybodyWaits();
    for (let turn = 1; turn <= 5; turn++) {
      await passUntilAnswered(FREE + turn);
    }
    const names = answers.slice(FREE).map(({ name }) => name);
    expect(names.filter((name) => name === 'other')).toHaveLength(4);
  }, 60_000);

  /** Waits until no login is on its way to the queue: all reads of the database have ended. */
  async function everybodyWaits(): Promise<void> {
    for (let read = 0; read < 20; read++) await env.DB.prepare('SELECT 1').run();
  }
});

describe('a flood of logins from two addresses', () => {
  it('keeps nobody else out: eight others log in while the flood gets at most six turns [C-15.6]', async () => {
    const emails = [];
    for (let index = 0; index < 8; index++) emails.push(await newEmail());
    let isOver = false;
    let floodAnswers = 0;
    /** How often a password of the flood was checked. */
    let floodTurns = 0;
    const flood = ['192.0.2.31', '192.0.2.32'].flatMap((address) =>
      Array.from({ length: 12 }, async () => {
        while (!isOver) {
          const answer = await logInFrom(address);
          await answer.text();
          floodAnswers += 1;
          if (answer.status !== 503) floodTurns += 1;
        }
      }),
    );
    await vi.waitFor(() => expect(floodAnswers).toBeGreaterThan(20), { timeout: 20_000 });
    const turnsBefore = floodTurns;
    const others = await Promise.all(
      emails.map(async (email, index) => (await logInFrom(addressOf(index), email)).status),
    );
    const turns = floodTurns - turnsBefore;
    isOver = true;
    await Promise.all(flood);
    expect(others).toEqual(emails.map(() => 200));
    expect(turns).toBeLessThanOrEqual(6);
  }, 90_000);
});
