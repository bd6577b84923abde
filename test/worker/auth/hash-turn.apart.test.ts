/** Password hashes block the isolate, so they are spread over time, and a limited number may wait [C-14.2]. */
import { afterEach, beforeEach, describe, expect, vi } from 'vitest';
import { anonymous } from '#workerd/client.ts';
import { Mailbox } from '#workerd/mailbox.ts';
import { logIn, PASSWORD, uniqueEmail } from '#workerd/people.ts';
import { expectError, it } from '#workerd/worker-test.ts';
import { turnToHash } from '../../../worker/auth/hash-turn.ts';

const TURN_MS = 480;

let nowMs = 0;
const waits: number[] = [];

beforeEach(() => {
  // Later than every turn that an earlier test took.
  nowMs += 1_000_000;
  waits.length = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  vi.spyOn(scheduler, 'wait').mockImplementation(async (ms) => void waits.push(ms));
});

afterEach(() => vi.restoreAllMocks());

describe('the wait before a password is hashed', () => {
  it('is zero for the first five passwords; each next one starts 480 ms after the one before it [C-14.2]', async () => {
    for (let turn = 0; turn < 8; turn++) await turnToHash();
    expect(waits).toEqual([1, 2, 3].map((turns) => turns * TURN_MS));
  });

  it('is refused with 503 and Retry-After while ten passwords already wait [C-14.2]', async () => {
    for (let turn = 0; turn < 15; turn++) await turnToHash();
    expect(waits).toHaveLength(10);
    await expect(turnToHash()).rejects.toMatchObject({
      code: 'SERVICE_UNAVAILABLE',
      headers: { 'retry-after': '5' },
    });
    nowMs += TURN_MS;
    await turnToHash();
    await expect(turnToHash()).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  });

  it('is zero again for five passwords after a pause [C-14.2]', async () => {
    for (let turn = 0; turn < 15; turn++) await turnToHash();
    nowMs += 15 * TURN_MS;
    waits.length = 0;
    for (let turn = 0; turn < 5; turn++) await turnToHash();
    expect(waits).toEqual([]);
  });

  it('makes every request with a password get 503 SERVICE_UNAVAILABLE while ten already wait, and no account is made [C-14.2]', async ({
    person,
  }) => {
    for (let turn = 0; turn < 15; turn++) await turnToHash();
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
    nowMs += 15 * TURN_MS;
    expect((await logIn(person.email)).status).toBe(200);
    await expectError(await logIn(newcomer.email), 401, 'INVALID_CREDENTIALS');
  });

  it('is zero for a hundred hashes that each cost a hundredth of a normal one [C-14.7]', async () => {
    for (let turn = 0; turn < 100; turn++) await turnToHash(0.01);
    expect(waits).toEqual([]);
  });
});
