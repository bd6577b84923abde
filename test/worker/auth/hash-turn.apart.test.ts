/** Password hashes block the isolate, so they are spread over time, and a limited number may wait [C-14.2]. */
import { afterEach, beforeEach, describe, expect, vi } from 'vitest';
import { anonymous } from '#workerd/client.ts';
import { Mailbox } from '#workerd/mailbox.ts';
import { logIn, PASSWORD, uniqueEmail } from '#workerd/people.ts';
import { expectError, it } from '#workerd/worker-test.ts';
import { type HashWaiter, measureHash, turnToHash } from '../../../worker/auth/hash-turn.ts';

const TURN_MS = 480;

const STRANGER = { network: null, account: null };
/** How many may wait. */
const MOST = 64;

let nowMs = 0;
const timers: { atMs: number; end: () => void }[] = [];

/** Asks for turns, and waits for none of them; each says how long it waited. */
function ask(count: number, share = 1): Promise<number>[] {
  const fromMs = nowMs;
  return Array.from({ length: count }, async () => {
    await turnToHash(STRANGER, share);
    return nowMs - fromMs;
  });
}

/** Lets time pass until no timer is left. */
async function passAll(): Promise<void> {
  for (let idle = 0; idle < 10; idle++) {
    const next = timers.toSorted((one, other) => one.atMs - other.atMs)[0];
    if (next) {
      idle = 0;
      timers.splice(timers.indexOf(next), 1);
      nowMs = Math.max(nowMs, next.atMs);
      next.end();
    }
    await Promise.resolve();
  }
}

beforeEach(() => {
  // Later than every turn that an earlier test took.
  nowMs += 1_000_000;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const wait = (ms: number) => new Promise<void>((end) => void timers.push({ atMs: nowMs + ms, end }));
  vi.spyOn(scheduler, 'wait').mockImplementation(wait);
});

afterEach(async () => {
  await passAll();
  vi.restoreAllMocks();
});

describe('the wait before a password is hashed', () => {
  it('is zero for the first five passwords; each next one starts 480 ms after the one before it [C-14.2]', async () => {
    const turns = ask(8);
    expect(await Promise.all(turns.slice(0, 5))).toEqual([0, 0, 0, 0, 0]);
    await passAll();
    // Each looks every 40 ms whether it is next.
    expect(await Promise.all(turns.slice(5))).toEqual([1, 2, 3].map((turns) => turns * TURN_MS));
  });

  it('is refused with 503 and Retry-After while 64 passwords already wait [C-15.6]', async () => {
    const turns = ask(5 + MOST);
    await expect(turnToHash(STRANGER)).rejects.toMatchObject({
      code: 'SERVICE_UNAVAILABLE',
      headers: { 'retry-after': '5' },
    });
    await passAll();
    expect(Math.max(...(await Promise.all(turns)))).toBe(MOST * TURN_MS);
    nowMs += 15 * TURN_MS;
    await turnToHash(STRANGER);
  });

  it('grows with the time that a hash takes on this machine, up to a bound [C-14.2]', async () => {
    // Each hash takes 400 ms: the clock stands still until the timer after it.
    const hash = async () => {
      await turnToHash(STRANGER);
      void measureHash(1);
      nowMs += 400;
      await passAll();
      nowMs += 100_000;
    };
    for (let count = 0; count < 8; count++) await hash();
    const turns = ask(7);
    expect(await Promise.all(turns.slice(0, 5))).toEqual([0, 0, 0, 0, 0]);
    await passAll();
    expect((await turns[6]) ?? 0).toBeGreaterThanOrEqual(2 * 3 * 400);
    nowMs += 100_000;
    // Fast ones bring it back.
    for (let count = 0; count < 8; count++) {
      await turnToHash(STRANGER);
      void measureHash(1);
      await passAll();
      nowMs += 100_000;
    }
  });

  it('is longer for a network that has hashed many, and no other network or known browser waits for it [C-14.2]', async () => {
    const office = { network: '192.0.2.0/24', account: null };
    const waited = async (waiter: HashWaiter) => {
      const fromMs = nowMs;
      await turnToHash(waiter);
      return nowMs - fromMs;
    };
    // Six may follow each other, and meanwhile there is time for two more.
    for (let count = 0; count < 8; count++) {
      nowMs += TURN_MS;
      expect(await waited(office)).toBe(0);
    }
    nowMs += TURN_MS;
    const next = waited(office);
    const others = [
      waited({ ...office, account: 'jana@example.com' }),
      waited({ network: '198.51.100.0/24', account: null }),
    ];
    await passAll();
    expect(Math.max(...(await Promise.all(others)))).toBeLessThanOrEqual(TURN_MS);
    expect(await next).toBeGreaterThan(3 * TURN_MS);
  });

  it('is no longer for many of the own machine, where the clients of a development stack are [C-14.2]', async () => {
    for (const network of ['127.0.0.1', '0:0:0:0::/64'])
      for (let count = 0; count < 20; count++) {
        nowMs += TURN_MS;
        const fromMs = nowMs;
        await turnToHash({ network, account: null });
        expect(nowMs).toBe(fromMs);
      }
  });

  it('is zero again for five passwords after a pause [C-14.2]', async () => {
    const turns = ask(15);
    await passAll();
    await Promise.all(turns);
    nowMs += 15 * TURN_MS;
    expect(await Promise.all(ask(5))).toEqual([0, 0, 0, 0, 0]);
  });

  it('makes every request with a password get 503 SERVICE_UNAVAILABLE while 64 already wait, and no account is made [C-15.6]', async ({
    person,
  }) => {
    const turns = ask(5 + MOST);
    const newcomer = { email: uniqueEmail(), password: PASSWORD, name: 'New' };
    const change = { currentPassword: PASSWORD, newPassword: 'another horse battery' };
    const another = { newEmail: uniqueEmail(), currentPassword: PASSWORD };
    const requests = [
      () => logIn(person.email),
      () => logIn(uniqueEmail()),
      () => anonymous.post('/auth/register', newcomer),
      () => person.post('/auth/change-password', change),
      () => new Mailbox().call('POST', '/auth/email-change', another, person.accessToken),
    ];
    for (const request of requests) {
      const response = await request();
      expect(response.headers.get('retry-after')).toBe('5');
      await expectError(response, 503, 'SERVICE_UNAVAILABLE');
    }
    await passAll();
    await Promise.all(turns);
    nowMs += 15 * TURN_MS;
    expect((await logIn(person.email)).status).toBe(200);
    await expectError(await logIn(newcomer.email), 401, 'INVALID_CREDENTIALS');
  });

  it('is zero for a hundred hashes that each cost a hundredth of a normal one [C-14.7]', async () => {
    expect(Math.max(...(await Promise.all(ask(100, 0.01))))).toBe(0);
  });
});
