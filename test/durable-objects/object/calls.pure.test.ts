/**
 * Calls in progress: the object waits for each until its deadline, which is on the agenda, and no longer. Stubs are
 * reused from call to call until a call fails.
 */
import { describe, expect, it } from 'vitest';
import { Calls, Stubs } from '../../../durable-objects/object/calls.ts';
import type { Turn } from '../../../durable-objects/object/turn.ts';

/**
 * Calls of an object whose clock is `at.ms`, and the deadlines of which it was notified.
 */
function newCalls() {
  const at = { ms: 1_000 };
  const deadlines: number[] = [];
  const calls = new Calls({ now: () => at.ms }, (deadlineMs) => deadlines.push(deadlineMs));
  const run = () => {
    const sends: (() => void)[] = [];
    calls.run({ now: at.ms, send: (send: () => void) => sends.push(send) } as unknown as Turn);
    for (const send of sends) send();
  };
  return { calls, at, deadlines, run };
}

describe('a call that is answered', () => {
  it('returns its answer or its error, and its deadline is removed from the agenda (rule 9)', async () => {
    const { calls, deadlines } = newCalls();
    const [good, bad] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
    const answers = Promise.allSettled([calls.until(9_000, good.promise), calls.until(8_000, bad.promise)]);
    expect(calls.dueMs()).toBe(8_000);
    expect(deadlines).toEqual([9_000, 8_000]);
    good.resolve('taken');
    bad.reject(new Error('away'));
    expect(await answers).toEqual([
      { status: 'fulfilled', value: 'taken' },
      { status: 'rejected', reason: new Error('away') },
    ]);
    expect(calls.dueMs()).toBeUndefined();
  });
});

describe('a call that hangs', () => {
  it('fails when the agenda runs at its deadline, not before, and no other call fails with it (rule 9)', async () => {
    const { calls, at, run } = newCalls();
    const late = Promise.withResolvers<string>();
    const other = Promise.withResolvers<string>();
    const outcomes: string[] = [];
    const first = calls.until(9_000, late.promise).catch((error: Error) => outcomes.push(error.message));
    const second = calls.until(9_001, other.promise).then((answer) => outcomes.push(answer));
    at.ms = 8_999;
    run();
    await Promise.resolve();
    expect(outcomes).toEqual([]);
    at.ms = 9_000;
    run();
    expect(calls.dueMs()).toBe(9_001);
    await first;
    other.resolve('taken');
    await second;
    expect(outcomes).toEqual(['no answer within 8000 ms from another object or D1', 'taken']);
  });

  it.each<[string, (late: PromiseWithResolvers<string>) => void]>([
    ['an answer', (late) => late.resolve('too late')],
    ['an error', (late) => late.reject(new Error('too late'))],
  ])('fails at its deadline, and %s that arrives later changes nothing (rule 9)', async (_, end) => {
    const { calls, at, run, deadlines } = newCalls();
    const late = Promise.withResolvers<string>();
    const given = calls.until(2_000, late.promise);
    at.ms = 2_000;
    run();
    end(late);
    await expect(given).rejects.toThrow('no answer within 1000 ms from another object or D1');
    expect(calls.dueMs()).toBeUndefined();
    // Only the start of the call was reported as a change of due times.
    expect(deadlines).toHaveLength(1);
  });

  it('fails at the next run of the agenda if its deadline had passed before the call began (rule 9)', async () => {
    const { calls, run } = newCalls();
    const given = calls.until(500, new Promise(() => {}));
    run();
    await expect(given).rejects.toThrow('no answer within 0 ms from another object or D1');
  });
});

function countedStubs() {
  const made: string[] = [];
  const stubs = new Stubs((name) => {
    made.push(name);
    return { name, of: made.length };
  });
  return { made, stubs };
}

it('the stub cache creates one stub for each name', async () => {
  const { made, stubs } = countedStubs();
  for (let call = 0; call < 3; call++) {
    expect(await stubs.call('one', async ({ name }) => name)).toBe('one');
    expect(await stubs.call('other', async ({ of }) => of)).toBe(2);
  }
  expect(made).toEqual(['one', 'other']);
});

it("the stub cache creates a new stub after a failed call, and passes the call's error on", async () => {
  const { made, stubs } = countedStubs();
  await stubs.call('one', async () => {});
  await expect(stubs.call('one', () => Promise.reject(new Error('reset')))).rejects.toThrow('reset');
  expect(await stubs.call('one', async ({ of }) => of)).toBe(2);
  expect(made).toEqual(['one', 'one']);
});

it('the stub cache keeps at most a thousand stubs', async () => {
  const { made, stubs } = countedStubs();
  for (let name = 0; name < 1_001; name++) await stubs.call(String(name), async () => {});
  await stubs.call('1000', async () => {});
  expect(made.length).toBe(1_001);
  await stubs.call('0', async () => {});
  expect(made.length).toBe(1_002);
});
