/** Limits of a client address: concurrent dials, waiting dials, rejected logins a minute [C-3.11, C-6.5]. */
import { describe, expect } from 'vitest';
import { turns } from '#support/bridge-signal.ts';
import { edgeTest } from '#support/bridge-test.ts';
import { Addresses } from '../../bridge/addresses.ts';
import type { DialResult } from '../../bridge/link-dial.ts';
import { LIMIT } from '../../protocol/limits.ts';

const AT_ONCE = 8;
const WAITING = 512;
const MINUTE_MS = 60_000;
const HERE = '192.0.2.7';
const THERE = '192.0.2.8';

type Result = DialResult<never, never>;

const ACCEPTED = { outcome: 'accepted' } as unknown as Result;
const REFUSED: Result = { outcome: 'refused', status: 401, code: 'UNAUTHORIZED', message: '' };
const TROUBLE: Result = { outcome: 'trouble', reason: 'no answer' };

/** Dials that the test answers in the order in which they were made. */
class Dials {
  readonly made: string[] = [];
  /** For each dial, whether its rejection counts against no device. */
  readonly uncounted: boolean[] = [];
  readonly #answers: ((result: Result) => void)[] = [];
  readonly #addresses = new Addresses();

  /** A dial that says that it is the connection test of a key. */
  async probe(result: Result): Promise<boolean> {
    const before = this.made.length;
    const dialed = this.#addresses.dial<never, never>(
      HERE,
      () => {
        this.made.push('probe');
        return Promise.resolve(result);
      },
      { credential: 'probe', isProbe: true },
    );
    await dialed;
    return this.made.length > before;
  }

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

  /** A complete dial. */
  async complete(result: Result, address = HERE, credential = 'one'): Promise<Result> {
    const dialed = this.start('', address, credential);
    await turns(1);
    this.answer(result);
    return dialed;
  }

  /** A complete dial of a device: `counted`, `uncounted`, or `none` if it was answered without a dial. */
  async device(result: Result, device: string, token = 'token', address = HERE): Promise<string> {
    const before = this.made.length;
    const dialed = this.start(device, address, `${device} ${token}`, device);
    await turns(1);
    this.answer(result);
    expect((await dialed).outcome).toBe(this.made.length > before ? result.outcome : 'refused');
    return this.made.length === before ? 'none' : this.uncounted.at(-1) ? 'uncounted' : 'counted';
  }

  async refuse(count: number): Promise<void> {
    for (let index = 0; index < count; index++) await this.complete(REFUSED);
  }

  answer(result: Result): void {
    this.#answers.shift()?.(result);
  }
}

/** `guessed` has dials of three devices, each rejected once. */
const it = edgeTest
  .extend('dials', ({ clock: _clock }) => new Dials())
  .extend('guessed', async ({ dials }) => {
    for (const device of ['a', 'b', 'c']) expect(await dials.device(REFUSED, device)).toBe('counted');
    return dials;
  });

function namesUpTo(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${index}`);
}

describe('the dials of a bridge that stops', () => {
  it('running ones end as usual; waiting and new ones fail without a request [rule 7]', async ({ dials }) => {
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
  it('eight run at the same time, and each that ends starts the next one in order', async ({ dials }) => {
    dials.startMany(AT_ONCE + 3);
    await turns(1);
    for (const count of [AT_ONCE, AT_ONCE + 1, AT_ONCE + 2, AT_ONCE + 3]) {
      expect(dials.made).toEqual(namesUpTo(count));
      dials.answer(count % 2 ? ACCEPTED : TROUBLE);
      await turns(1);
    }
  });

  it('while some wait, a dial of another address starts immediately', async ({ dials }) => {
    dials.startMany(AT_ONCE + 3);
    dials.start('other', THERE);
    await turns(1);
    expect(dials.made).toEqual([...namesUpTo(AT_ONCE), 'other']);
  });

  it('while eight run and 512 wait, one more fails immediately; the others complete', async ({ dials }) => {
    const started = dials.startMany(AT_ONCE + WAITING);
    expect((await dials.start('too many')).outcome).toBe('trouble');
    for (let count = 0; count < AT_ONCE + WAITING; count++) {
      dials.answer(ACCEPTED);
      await turns(1);
    }
    expect((await Promise.all(started)).every(({ outcome }) => outcome === 'accepted')).toBe(true);
    expect(dials.made).toEqual(namesUpTo(AT_ONCE + WAITING));
  });

  it('when a dial ends without an answer of the edge, the next one starts, too', async ({ dials }) => {
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

describe('an address with too many rejected logins', () => {
  it('its rejected credential gets 401 without a dial for a minute', async ({ clock, dials }) => {
    await dials.refuse(LIMIT.refusedLoginsPerMinute - AT_ONCE);
    const started = dials.startMany(AT_ONCE + 20);
    for (let count = 0; count < 2 * AT_ONCE; count++) {
      await turns(1);
      dials.answer(REFUSED);
    }
    expect((await Promise.all(started)).every(({ outcome }) => outcome === 'refused')).toBe(true);
    expect(dials.made.length).toBeLessThan(LIMIT.refusedLoginsPerMinute + AT_ONCE);
    const made = dials.made.length;
    expect(await dials.start('')).toMatchObject({ outcome: 'refused', status: 401 });
    expect(dials.made.length).toBe(made);
    await clock.pass(MINUTE_MS);
    expect(await dials.complete(ACCEPTED)).toBe(ACCEPTED);
  });

  it('accepted logins and dials without an answer do not count', async ({ dials }) => {
    for (let count = 0; count < 2 * LIMIT.refusedLoginsPerMinute; count++)
      expect(await dials.complete(count % 2 ? ACCEPTED : TROUBLE)).toBe(count % 2 ? ACCEPTED : TROUBLE);
    await dials.refuse(LIMIT.refusedLoginsPerMinute - 1);
    expect(await dials.complete(ACCEPTED)).toBe(ACCEPTED);
  });

  it('another credential is dialed until ten times as many logins are rejected', async ({ clock, dials }) => {
    await dials.refuse(LIMIT.refusedLoginsPerMinute);
    expect(await dials.complete(ACCEPTED, HERE, 'another')).toBe(ACCEPTED);
    for (let count = LIMIT.refusedLoginsPerMinute; count < 10 * LIMIT.refusedLoginsPerMinute; count++)
      await dials.complete(REFUSED, HERE, `guess-${count}`);
    const made = dials.made.length;
    expect(await dials.start('', HERE, 'another')).toMatchObject({ outcome: 'refused' });
    expect(dials.made.length).toBe(made);
    await clock.pass(MINUTE_MS);
    expect(await dials.complete(ACCEPTED, HERE, 'another')).toBe(ACCEPTED);
  });

  it('stays throttled while 5 000 other addresses dial', async ({ dials }) => {
    await dials.refuse(LIMIT.refusedLoginsPerMinute);
    for (let other = 0; other < 5_000; other++) await dials.complete(TROUBLE, `other-${other}`);
    const made = dials.made.length;
    expect((await dials.start('')).outcome).toBe('refused');
    expect(dials.made.length).toBe(made);
  });

  it('rejections older than a minute do not count', async ({ clock, dials }) => {
    await dials.refuse(LIMIT.refusedLoginsPerMinute - 1);
    await clock.pass(MINUTE_MS);
    await dials.refuse(LIMIT.refusedLoginsPerMinute - 1);
    expect(await dials.complete(ACCEPTED)).toBe(ACCEPTED);
  });
});

describe('rejected logins of devices at one address [C-3.11]', () => {
  it('for its status do not keep a good token out after the device was reactivated [C-3.11]', async ({
    guessed,
  }) => {
    const suspended: Result = { ...REFUSED, isState: true };
    expect(await guessed.device(suspended, 'd')).toBe('uncounted');
    expect(await guessed.device(suspended, 'd')).toBe('uncounted');
    expect(await guessed.device(ACCEPTED, 'd')).toBe('uncounted');
    expect(await guessed.device(REFUSED, 'e')).toBe('uncounted');
    expect(await guessed.device(ACCEPTED, 'e')).toBe('none');
  });

  it('count against their devices if these are at most two, even repeated', async ({ dials }) => {
    for (const device of ['a', 'b', 'a', 'a', 'b'])
      expect(await dials.device(REFUSED, device)).toBe('counted');
  });

  it('count against no device for a minute once a fourth device has one', async ({
    clock,
    guessed: dials,
  }) => {
    expect(await dials.device(REFUSED, 'd')).toBe('uncounted');
    await clock.pass(MINUTE_MS - 1);
    expect(await dials.device(REFUSED, 'e')).toBe('uncounted');
  });

  it('count against their devices again a minute after the last one', async ({ clock, guessed: dials }) => {
    await clock.pass(MINUTE_MS);
    expect(await dials.device(REFUSED, 'd')).toBe('counted');
  });

  it('still count against their devices if five devices have one each half minute', async ({
    clock,
    dials,
  }) => {
    for (const device of ['a', 'b', 'c', 'd', 'e']) {
      expect(await dials.device(REFUSED, device)).toBe('counted');
      await clock.pass(MINUTE_MS / 2);
    }
  });

  it('after thirty rejections of one device, the next one counts against no device', async ({ dials }) => {
    for (let count = 0; count < LIMIT.refusedLoginsPerMinute; count++)
      expect(await dials.device(REFUSED, 'a', `token-${count}`)).toBe('counted');
    expect(await dials.device(REFUSED, 'a', 'another')).toBe('uncounted');
  });

  it('make a repeated credential fail without a dial, from three devices on', async ({ guessed: dials }) => {
    expect(await dials.device(ACCEPTED, 'a')).toBe('none');
    expect(await dials.device(ACCEPTED, 'a', 'new token')).toBe('uncounted');
    expect(await dials.device(REFUSED, 'd')).toBe('uncounted');
    expect(await dials.device(REFUSED, 'd')).toBe('none');
  });

  it('do not keep out a device with a valid token, even if three devices have some', async ({
    guessed: dials,
  }) => {
    for (let count = 0; count < 2 * LIMIT.refusedLoginsPerMinute; count++)
      expect(await dials.device(ACCEPTED, 'good')).toBe('uncounted');
  });

  it('do not include accepted logins and dials without an answer', async ({ dials }) => {
    for (const device of ['a', 'b', 'c', 'd']) {
      expect(await dials.device(TROUBLE, device)).toBe('counted');
      expect(await dials.device(ACCEPTED, device)).toBe('counted');
    }
    expect(await dials.device(REFUSED, 'e')).toBe('counted');
  });

  it('do not change what counts at another address', async ({ guessed: dials }) => {
    expect(await dials.device(REFUSED, 'a', 'token', THERE)).toBe('counted');
    expect(await dials.device(REFUSED, 'd', 'token', THERE)).toBe('counted');
  });

  it('do not change how a partner at this address is dialed [C-6.5]', async ({ guessed: dials }) => {
    expect(await dials.complete(ACCEPTED)).toBe(ACCEPTED);
    expect(dials.uncounted.at(-1)).toBe(false);
  });
});

describe('connection tests of keys', () => {
  const KNOWN = { ...REFUSED, isProbe: true } as Result;

  it('are not counted if they fail with known nonces, and no failed login throttles them [C-14.6]', async ({
    dials,
  }) => {
    for (let count = 0; count < 20 * LIMIT.refusedLoginsPerMinute; count++)
      expect(await dials.probe(KNOWN)).toBe(true);
    expect((await dials.complete(ACCEPTED)).outcome).toBe('accepted');
    await dials.refuse(LIMIT.refusedLoginsPerMinute);
    expect(await dials.probe(KNOWN)).toBe(true);
    expect(await dials.probe(ACCEPTED)).toBe(true);
  });

  it('are rejected without a dial after 300 failures with unknown nonces; other logins are not [C-14.6]', async ({
    dials,
  }) => {
    for (let count = 0; count < 10 * LIMIT.refusedLoginsPerMinute; count++)
      expect(await dials.probe(REFUSED)).toBe(true);
    expect(await dials.probe(REFUSED)).toBe(false);
    expect((await dials.complete(ACCEPTED)).outcome).toBe('accepted');
  });
});
