/**
 * Rejected logins of one address. Above thirty a minute the bridge rejects a partner without a dial. After
 * three rejected devices the rejections of further devices count against no device.
 */
import { describe, expect } from 'vitest';
import { LOGIN_REFUSED } from '#support/bridge-amqp-peer.ts';
import { envelope, type TestEdge, UNDECIDED, VHOST } from '#support/bridge-edge.ts';
import { DEVICE_ID } from '#support/bridge-link.ts';
import type { ConnectOptions } from '#support/bridge-mqtt-peer.ts';
import { bridgeTest, OTHER_ADDRESS, type WholeBridge } from '#support/bridge-whole.ts';

const PER_MINUTE = 30;
const CONCURRENT_DIALS = 8;
const MINUTE_MS = 60_000;
const CONNACK_REFUSED = 5;

const GUESSED = [1, 2, 3].map((digit) => DEVICE_ID.replace(/.$/, String(digit)));

async function times(count: number, act: () => Promise<unknown>): Promise<void> {
  for (let index = 0; index < count; index++) await act();
}

class Logins {
  readonly #edge: TestEdge;
  readonly #bridge: WholeBridge;

  constructor(edge: TestEdge, bridge: WholeBridge) {
    this.#edge = edge;
    this.#bridge = bridge;
  }

  /** The connection close of a partner's login. */
  partner(address?: string): Promise<string> {
    return this.#bridge.rejectedPartner({}, address);
  }

  /** The CONNACK of a device's login. */
  async device(options: ConnectOptions = {}, address?: string): Promise<number> {
    const peer = await this.#bridge.device(options, address);
    const code = await peer.takeConnack();
    peer.stream.destroy();
    return code;
  }

  /** Has the edge reject this number of logins of one address. */
  async reject(count: number, logIn: () => Promise<unknown> = () => this.partner()): Promise<void> {
    this.#edge.answer = () => envelope('UNAUTHORIZED');
    await times(count, logIn);
  }

  /** The paths of all dials. */
  get paths(): string[] {
    return this.#edge.dialed.map(({ path }) => path);
  }
}

/** `guessed` are logins of an address with three rejected devices. */
const it = bridgeTest
  .extend('logins', ({ edge, bridge }) => new Logins(edge, bridge))
  .extend('guessed', async ({ edge, logins }) => {
    edge.answer = () => envelope('UNAUTHORIZED');
    for (const username of GUESSED) expect(await logins.device({ username })).toBe(CONNACK_REFUSED);
    expect(logins.paths).toEqual(Array(3).fill('/link/mqtt'));
    edge.dialed.length = 0;
    return logins;
  });

describe('thirty rejected logins of one credential in a minute [C-3.11]', () => {
  it('the partner is then rejected without a dial; a device is dialed', async ({ edge, logins }) => {
    await logins.reject(PER_MINUTE);
    expect(await logins.partner()).toBe(LOGIN_REFUSED);
    expect(edge.dialed.length).toBe(PER_MINUTE);
    // Another credential of the same address is dialed.
    expect(await logins.device()).toBe(CONNACK_REFUSED);
    expect(edge.dialed.length).toBe(PER_MINUTE + 1);
  });

  it('the device is then rejected without a dial [C-3.11]', async ({ edge, logins }) => {
    await logins.reject(PER_MINUTE, () => logins.device());
    expect(await logins.device()).toBe(CONNACK_REFUSED);
    expect(edge.dialed.length).toBe(PER_MINUTE);
    expect(await logins.partner()).toBe(LOGIN_REFUSED);
    expect(edge.dialed.length).toBe(PER_MINUTE + 1);
  });

  it('a client without authentication_failure_close gets no 403: its socket closes after 3 s [C-6.3]', async ({
    clock,
    edge,
    bridge,
    logins,
  }) => {
    await logins.reject(PER_MINUTE);
    const peer = await bridge.partner({ capabilities: {} });
    // The bridge answers this login after it has read the other one.
    expect(await logins.partner()).toBe(LOGIN_REFUSED);
    await clock.pass(3_000);
    await peer.untilEnded();
    expect(peer.frames.length).toBe(1);
    expect(edge.dialed.length).toBe(PER_MINUTE);
  });

  it('logins that wait for their dial are rejected without one, too', async ({ edge, logins }) => {
    edge.answer = () => envelope('UNAUTHORIZED');
    const closes = await Promise.all(Array.from({ length: PER_MINUTE + 20 }, () => logins.partner()));
    expect(new Set(closes)).toEqual(new Set([LOGIN_REFUSED]));
    expect(edge.dialed.length).toBeGreaterThanOrEqual(PER_MINUTE);
    expect(edge.dialed.length).toBeLessThan(PER_MINUTE + CONCURRENT_DIALS);
  });

  it('the credential is still dialed from another address', async ({ edge, logins }) => {
    await logins.reject(PER_MINUTE);
    await logins.partner(OTHER_ADDRESS);
    expect(edge.dialed.at(-1)?.proof.address).toBe(OTHER_ADDRESS);
    expect(edge.dialed.length).toBe(PER_MINUTE + 1);
  });

  it('open connections stay open', async ({ edge, bridge, logins }) => {
    const { peer, link } = await bridge.openDevice();
    edge.reset();
    await logins.reject(PER_MINUTE);
    await logins.partner();
    await peer.ping();
    expect(link.closedWith).toBeUndefined();
  });

  it('the throttle ends after a minute despite further logins', async ({ clock, edge, bridge, logins }) => {
    await logins.reject(PER_MINUTE);
    for (let second = 0; second < 50; second += 10) {
      await logins.partner();
      await clock.pass(10_000);
    }
    expect(edge.dialed.length).toBe(PER_MINUTE);
    await clock.pass(MINUTE_MS - 50_000 + 1_000);
    edge.reset();
    const { link } = await bridge.openDevice();
    expect(link.closedWith).toBeUndefined();
  });

  it('the next minute allows thirty rejections again', async ({ clock, edge, logins }) => {
    await logins.reject(PER_MINUTE);
    await clock.pass(MINUTE_MS + 1_000);
    edge.reset();
    await logins.reject(PER_MINUTE);
    await logins.partner();
    expect(edge.dialed.length).toBe(PER_MINUTE);
  });
});

describe('an address with three rejected devices [C-3.11]', () => {
  it('further dials use the path that counts against no device', async ({ edge, guessed }) => {
    expect(await guessed.device({ password: 'a guess' })).toBe(CONNACK_REFUSED);
    expect(edge.dialed).toMatchObject([{ path: '/link/mqtt/uncounted', username: DEVICE_ID }]);
  });

  it('a device that repeats a rejected credential is rejected without a dial', async ({ guessed }) => {
    await times(3, () => guessed.device({ password: 'a guess' }));
    for (const username of GUESSED) expect(await guessed.device({ username })).toBe(CONNACK_REFUSED);
    expect(guessed.paths).toEqual(['/link/mqtt/uncounted']);
  });

  it('a valid token still opens a session, also for a guessed device', async ({ edge, bridge, guessed }) => {
    edge.reset();
    for (const username of [DEVICE_ID, GUESSED[0]]) {
      const { peer, link } = await bridge.openDevice({ username, password: 'the right one' });
      await peer.ping();
      expect(link.closedWith).toBeUndefined();
    }
    expect(guessed.paths).toEqual(Array(2).fill('/link/mqtt/uncounted'));
  });

  it('partners are dialed as usual [C-6.5]', async ({ guessed }) => {
    await guessed.reject(PER_MINUTE - 3);
    expect(guessed.paths).toEqual(Array(PER_MINUTE - 3).fill('/link/amqp'));
  });

  it('a rejection at another address counts against its device', async ({ guessed }) => {
    expect(await guessed.device({}, OTHER_ADDRESS)).toBe(CONNACK_REFUSED);
    expect(guessed.paths).toEqual(['/link/mqtt']);
  });

  it('a minute later, rejections count against their devices again', async ({ clock, guessed }) => {
    expect(await guessed.device({ password: 'a guess' })).toBe(CONNACK_REFUSED);
    await clock.pass(MINUTE_MS + 1_000);
    expect(await guessed.device({ password: 'a guess' })).toBe(CONNACK_REFUSED);
    expect(guessed.paths).toEqual(['/link/mqtt/uncounted', '/link/mqtt']);
  });
});

describe('thirty rejected logins, and what counts as one', () => {
  it('a login over the connection limit counts [C-6.3]', async ({ edge, bridge, logins }) => {
    edge.answer = () => envelope('CONFLICT', 'too many connections');
    const logIn = () => bridge.rejectedPartner({ vhost: VHOST });
    await times(PER_MINUTE, async () => expect(await logIn()).toMatch(/^530 /));
    expect(await logins.partner()).toBe(LOGIN_REFUSED);
    expect(edge.dialed.length).toBe(PER_MINUTE);
  });

  it.for(UNDECIDED)('%s of the edge does not count (rule 7)', async ([_, answer], { edge, logins }) => {
    edge.answer = () => answer;
    await times(PER_MINUTE + 5, async () => expect(await logins.partner()).toMatch(/^320 /));
    expect(edge.dialed.length).toBe(PER_MINUTE + 5);
  });

  it('an accepted login does not count', async ({ edge, logins }) => {
    await times(PER_MINUTE + 5, async () => expect(await logins.device()).toBe(0));
    edge.dialed.length = 0;
    await logins.reject(PER_MINUTE + 1);
    expect(edge.dialed.length).toBe(PER_MINUTE);
  });

  it('the thirtieth rejection is still dialed', async ({ edge, logins }) => {
    await logins.reject(PER_MINUTE - 1);
    await logins.reject(1);
    expect(edge.dialed.length).toBe(PER_MINUTE);
  });
});
