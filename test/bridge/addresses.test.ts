/** What one client address may cost: dials at once, a line behind them, refused logins a minute [C-3.11, C-6.5]. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Addresses } from '../../bridge/addresses.ts';
import type { DialResult } from '../../bridge/link.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { CLOCK, turns } from '../support/bridge-signal.ts';

const AT_ONCE = 8;
const IN_LINE = 512;
const MINUTE_MS = 60_000;
const HERE = '192.0.2.7';
const THERE = '192.0.2.8';

type Result = DialResult<never, never>;

const ACCEPTED = { outcome: 'accepted' } as unknown as Result;
const REFUSED: Result = { outcome: 'refused', status: 401, code: 'UNAUTHORIZED', message: '' };
const TROUBLE: Result = { outcome: 'trouble', reason: 'no answer' };

/** Dials that are answered by hand, in the order in which they were made. */
class Dials {
  readonly made: string[] = [];
  /** Of each, whether a refusal of it counts against no device. */
  readonly uncounted: boolean[] = [];
  readonly #answers: ((result: Result) => void)[] = [];
  readonly #addresses = new Addresses();

  start(name: string, address = HERE, credential = 'one', device?: string): Promise<Result> {
    const work = (uncounted: boolean) => {
      this.made.push(name);
      this.uncounted.push(uncounted);
      return new Promise<Result>((resolve) => this.#answers.push(resolve));
    };
    const dialing = { credential, ...(device === undefined ? {} : { device }) };
    return this.#addresses.dial<never, never>(address, work, dialing);
  }

  stop(): void {
    this.#addresses.stop();
  }

  startMany(count: number, address = HERE): Promise<Result>[] {
    return Array.from({ length: count }, (_, index) => this.start(`${index}`, address));
  }

  /** One dial from start to end. */
  async complete(result: Result, address = HERE, credential = 'one'): Promise<Result> {
    const dialed = this.start('', address, credential);
    await turns(1);
    this.answer(result);
    return dialed;
  }

  /** A device's dial from start to end: `counted` or `uncounted`, or `none` where the bridge answered by itself. */
  async device(result: Result, device: string, token = 'token', address = HERE): Promise<string> {
    const before = this.made.length;
    const dialed = this.start(device, address, `${device} ${token}`, device);
    await turns(1);
    this.answer(result);
    expect((await dialed).outcome).toBe(this.made.length > before ? result.outcome : 'refused');
    return this.made.length === before ? 'none' : this.uncounted.at(-1) ? 'uncounted' : 'counted';
  }

  answer(result: Result): void {
    this.#answers.shift()?.(result);
  }
}

let dials: Dials;

beforeEach(() => {
  vi.useFakeTimers(CLOCK);
  dials = new Dials();
});
afterEach(() => {
  vi.useRealTimers();
});

function namesUpTo(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${index}`);
}

async function refuse(count: number): Promise<void> {
  for (let index = 0; index < count; index++) await dials.complete(REFUSED);
}

describe('a bridge that goes', () => {
  it('dials nobody any more, and lets those in line go [rule 7]', async () => {
    const all = dials.startMany(AT_ONCE + 2);
    await turns(1);
    dials.stop();
    for (let count = 0; count < AT_ONCE; count++) dials.answer(ACCEPTED);
    const outcomes = (await Promise.all(all)).map(({ outcome }) => outcome);
    expect(outcomes).toEqual([...Array(AT_ONCE).fill('accepted'), 'trouble', 'trouble']);
    expect((await dials.start('late')).outcome).toBe('trouble');
    expect(dials.made).toEqual(namesUpTo(AT_ONCE));
  });
});

describe('dials of one address', () => {
  it('are so many at once, and the others come one by one in the order of their coming', async () => {
    dials.startMany(AT_ONCE + 3);
    await turns(1);
    for (const count of [AT_ONCE, AT_ONCE + 1, AT_ONCE + 2, AT_ONCE + 3]) {
      expect(dials.made).toEqual(namesUpTo(count));
      dials.answer(count % 2 ? ACCEPTED : TROUBLE);
      await turns(1);
    }
  });

  it('hold up none of another', async () => {
    dials.startMany(AT_ONCE + 3);
    dials.start('other', THERE);
    await turns(1);
    expect(dials.made).toEqual([...namesUpTo(AT_ONCE), 'other']);
  });

  it('beyond the line are trouble at once, and leave the line as it was', async () => {
    const started = dials.startMany(AT_ONCE + IN_LINE);
    expect((await dials.start('too many')).outcome).toBe('trouble');
    for (let count = 0; count < AT_ONCE + IN_LINE; count++) {
      dials.answer(ACCEPTED);
      await turns(1);
    }
    expect((await Promise.all(started)).every(({ outcome }) => outcome === 'accepted')).toBe(true);
    expect(dials.made).toEqual(namesUpTo(AT_ONCE + IN_LINE));
  });

  it('leave nothing behind: as many may be made again', async () => {
    for (let round = 0; round < 3; round++) {
      const started = dials.startMany(AT_ONCE + 5);
      for (let count = 0; count < AT_ONCE + 5; count++) {
        await turns(1);
        dials.answer(TROUBLE);
      }
      await Promise.all(started);
    }
    expect(dials.made.length).toBe(3 * (AT_ONCE + 5));
  });
});

describe('an address with too many refused logins', () => {
  it('is answered a refusal without a dial, in its line too, until its minute is over', async () => {
    await refuse(LIMIT.refusedLoginsPerMinute - AT_ONCE);
    const started = dials.startMany(AT_ONCE + 20);
    for (let count = 0; count < AT_ONCE; count++) {
      await turns(1);
      dials.answer(REFUSED);
    }
    for (let count = 0; count < AT_ONCE; count++) {
      await turns(1);
      dials.answer(REFUSED);
    }
    expect((await Promise.all(started)).every(({ outcome }) => outcome === 'refused')).toBe(true);
    expect(dials.made.length).toBeLessThan(LIMIT.refusedLoginsPerMinute + AT_ONCE);
    const made = dials.made.length;
    expect(await dials.start('')).toMatchObject({ outcome: 'refused', status: 401 });
    expect(dials.made.length).toBe(made);
    await vi.advanceTimersByTimeAsync(MINUTE_MS);
    expect(await dials.complete(ACCEPTED)).toBe(ACCEPTED);
  });

  it('is another matter than trouble and logins that were accepted', async () => {
    for (let count = 0; count < 2 * LIMIT.refusedLoginsPerMinute; count++)
      expect(await dials.complete(count % 2 ? ACCEPTED : TROUBLE)).toBe(count % 2 ? ACCEPTED : TROUBLE);
    await refuse(LIMIT.refusedLoginsPerMinute - 1);
    expect(await dials.complete(ACCEPTED)).toBe(ACCEPTED);
  });

  it('keeps nobody out who comes with another credential, until there are ten times as many of all', async () => {
    await refuse(LIMIT.refusedLoginsPerMinute);
    expect(await dials.complete(ACCEPTED, HERE, 'another')).toBe(ACCEPTED);
    for (let count = LIMIT.refusedLoginsPerMinute; count < 10 * LIMIT.refusedLoginsPerMinute; count++) {
      await dials.complete(REFUSED, HERE, `guess-${count}`);
    }
    const made = dials.made.length;
    expect(await dials.start('', HERE, 'another')).toMatchObject({ outcome: 'refused' });
    expect(dials.made.length).toBe(made);
    await vi.advanceTimersByTimeAsync(MINUTE_MS);
    expect(await dials.complete(ACCEPTED, HERE, 'another')).toBe(ACCEPTED);
  });

  it('says nothing of another address, and is remembered while many others come', async () => {
    await refuse(LIMIT.refusedLoginsPerMinute);
    for (let other = 0; other < 5_000; other++) await dials.complete(TROUBLE, `other-${other}`);
    const made = dials.made.length;
    expect((await dials.start('')).outcome).toBe('refused');
    expect(dials.made.length).toBe(made);
  });

  it('is forgotten after a minute, however little it did', async () => {
    await refuse(LIMIT.refusedLoginsPerMinute - 1);
    await vi.advanceTimersByTimeAsync(MINUTE_MS);
    await refuse(LIMIT.refusedLoginsPerMinute - 1);
    expect(await dials.complete(ACCEPTED)).toBe(ACCEPTED);
  });
});

describe('an address whose devices are refused [C-3.11]', () => {
  /** Three devices of it are refused, each once. */
  async function guess(): Promise<void> {
    for (const device of ['a', 'b', 'c']) expect(await dials.device(REFUSED, device)).toBe('counted');
  }

  it('as two, or one again and again, is asked for each time, and counted', async () => {
    for (const device of ['a', 'b', 'a', 'a', 'b'])
      expect(await dials.device(REFUSED, device)).toBe('counted');
  });

  it('as three is asked for, uncounted, for a minute from the last of them', async () => {
    await guess();
    expect(await dials.device(REFUSED, 'd')).toBe('uncounted');
    await vi.advanceTimersByTimeAsync(MINUTE_MS - 1);
    expect(await dials.device(REFUSED, 'e')).toBe('uncounted');
  });

  it('is counted again a minute after its last refusal', async () => {
    await guess();
    await vi.advanceTimersByTimeAsync(MINUTE_MS);
    expect(await dials.device(REFUSED, 'd')).toBe('counted');
  });

  it('three within a minute, not three ever', async () => {
    for (const device of ['a', 'b', 'c', 'd', 'e']) {
      expect(await dials.device(REFUSED, device)).toBe('counted');
      await vi.advanceTimersByTimeAsync(MINUTE_MS / 2);
    }
  });

  it('thirty times as one is uncounted from then on', async () => {
    for (let count = 0; count < LIMIT.refusedLoginsPerMinute; count++)
      expect(await dials.device(REFUSED, 'a', `token-${count}`)).toBe('counted');
    expect(await dials.device(REFUSED, 'a', 'another')).toBe('uncounted');
  });

  it('answers by itself whoever was refused with the same credential already', async () => {
    await guess();
    expect(await dials.device(ACCEPTED, 'a')).toBe('none');
    expect(await dials.device(ACCEPTED, 'a', 'new token')).toBe('uncounted');
    expect(await dials.device(REFUSED, 'd')).toBe('uncounted');
    expect(await dials.device(REFUSED, 'd')).toBe('none');
  });

  it('lets a good token in all the while, again and again', async () => {
    await guess();
    for (let count = 0; count < 2 * LIMIT.refusedLoginsPerMinute; count++)
      expect(await dials.device(ACCEPTED, 'good')).toBe('uncounted');
  });

  it('does not count trouble, nor logins that are accepted', async () => {
    for (const device of ['a', 'b', 'c', 'd']) {
      expect(await dials.device(TROUBLE, device)).toBe('counted');
      expect(await dials.device(ACCEPTED, device)).toBe('counted');
    }
    expect(await dials.device(REFUSED, 'e')).toBe('counted');
  });

  it('says nothing of another address', async () => {
    await guess();
    expect(await dials.device(REFUSED, 'a', 'token', THERE)).toBe('counted');
    expect(await dials.device(REFUSED, 'd', 'token', THERE)).toBe('counted');
  });

  it('keeps no partner out: a partner of it is asked for, and never uncounted [C-6.5]', async () => {
    await guess();
    expect(await dials.complete(ACCEPTED)).toBe(ACCEPTED);
    expect(dials.uncounted.at(-1)).toBe(false);
  });
});
