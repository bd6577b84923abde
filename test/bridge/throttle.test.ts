/**
 * Refused logins of one address. A partner's: beyond thirty a minute the bridge answers them by itself, and asks nobody.
 * A device's: they are asked for as such that count against none.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../bridge/amqp/wire/codec.ts';
import { type Answer, envelope, TestEdge } from '../support/bridge-edge.ts';
import { DEVICE_ID } from '../support/bridge-link.ts';
import type { ConnectOptions } from '../support/bridge-mqtt-peer.ts';
import { CLOCK } from '../support/bridge-signal.ts';
import { OTHER_ADDRESS, TestCertificates, WholeBridge } from '../support/bridge-whole.ts';

const REFUSED =
  '403 ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile. [0/0]';
const PER_MINUTE = 30;
const DIALS_UNDER_WAY = 8;
const MINUTE_MS = 60_000;
const CONNACK_REFUSED = 5;

let certificates: TestCertificates;
let edge: TestEdge;
let bridge: WholeBridge;

beforeAll(async () => {
  certificates = await TestCertificates.create();
  edge = await TestEdge.start();
});
beforeEach(async () => {
  edge.reset();
  bridge = await WholeBridge.start(edge, certificates);
});
afterEach(async () => {
  vi.useRealTimers();
  await bridge.stop();
});
afterAll(async () => {
  await edge.stop();
  certificates.remove();
});

/** A partner's login that is not accepted: what it is told. */
async function partnerTold(address?: string): Promise<string> {
  const peer = await bridge.partner({}, address);
  const told = await peer.takeConnectionClose();
  peer.stream.destroy();
  return told;
}

/** A device's login: its CONNACK. */
async function deviceTold(options: ConnectOptions = {}, address?: string): Promise<number> {
  const peer = await bridge.device(options, address);
  const told = await peer.takeConnack();
  peer.stream.destroy();
  return told;
}

/** The paths that the edge was asked for at, in order. */
function pathsDialed(): string[] {
  return edge.dialed.map(({ path }) => path);
}

async function times(count: number, act: () => Promise<unknown>): Promise<void> {
  for (let index = 0; index < count; index++) await act();
}

/** So many logins of one address are refused by the edge. */
async function refuse(count: number, logIn: () => Promise<unknown> = () => partnerTold()): Promise<void> {
  edge.answer = () => envelope('UNAUTHORIZED');
  await times(count, logIn);
}

/** A partner's login that ends at connection.open, where a limit is told. */
async function refusedAtOpen(): Promise<string> {
  const peer = await bridge.partner();
  peer.send(METHOD.connectionTuneOk, await peer.takeMethod(METHOD.connectionTune));
  peer.send(METHOD.connectionOpen, { virtualHost: 'partner-k1' });
  const told = await peer.takeConnectionClose();
  peer.stream.destroy();
  return told;
}

describe('an address with thirty refused logins of one credential in a minute [C-3.11]', () => {
  it('is refused like any other, and the edge is not asked', async () => {
    await refuse(PER_MINUTE);
    expect(await partnerTold()).toBe(REFUSED);
    expect(edge.dialed.length).toBe(PER_MINUTE);
    // With another credential the edge is asked: whoever shares the address is not kept out.
    expect(await deviceTold()).toBe(CONNACK_REFUSED);
    expect(edge.dialed.length).toBe(PER_MINUTE + 1);
  });

  it('is refused as a device likewise [C-3.11]', async () => {
    await refuse(PER_MINUTE, () => deviceTold());
    expect(await deviceTold()).toBe(CONNACK_REFUSED);
    expect(edge.dialed.length).toBe(PER_MINUTE);
    expect(await partnerTold()).toBe(REFUSED);
    expect(edge.dialed.length).toBe(PER_MINUTE + 1);
  });

  it('closes without a word on a client that cannot hear a refusal [C-6.3]', async () => {
    await refuse(PER_MINUTE);
    vi.useFakeTimers(CLOCK);
    const peer = await bridge.partner({ capabilities: {} });
    // Its neighbour is answered after it was read.
    expect(await partnerTold()).toBe(REFUSED);
    await vi.advanceTimersByTimeAsync(3_000);
    await peer.untilEnded();
    expect(peer.frames.length).toBe(1);
    expect(edge.dialed.length).toBe(PER_MINUTE);
  });

  it('is refused in the line of its dials too: no more than were under way are asked for', async () => {
    edge.answer = () => envelope('UNAUTHORIZED');
    const told = await Promise.all(Array.from({ length: PER_MINUTE + 20 }, () => partnerTold()));
    expect(new Set(told)).toEqual(new Set([REFUSED]));
    expect(edge.dialed.length).toBeGreaterThanOrEqual(PER_MINUTE);
    expect(edge.dialed.length).toBeLessThan(PER_MINUTE + DIALS_UNDER_WAY);
  });

  it('holds nobody up at another address', async () => {
    await refuse(PER_MINUTE);
    await partnerTold(OTHER_ADDRESS);
    expect(edge.dialed.at(-1)?.proof.address).toBe(OTHER_ADDRESS);
    expect(edge.dialed.length).toBe(PER_MINUTE + 1);
  });

  it('keeps the connections that it has', async () => {
    const [device, link] = await Promise.all([bridge.device(), edge.deviceLink()]);
    expect(await device.takeConnack()).toBe(0);
    edge.reset();
    await refuse(PER_MINUTE);
    await partnerTold();
    await device.ping();
    expect(link.closedWith).toBeUndefined();
  });

  it('is asked for again when the minute is over, however often it tried meanwhile', async () => {
    vi.useFakeTimers(CLOCK);
    await refuse(PER_MINUTE);
    for (let second = 0; second < 50; second += 10) {
      await partnerTold();
      await vi.advanceTimersByTimeAsync(10_000);
    }
    expect(edge.dialed.length).toBe(PER_MINUTE);
    await vi.advanceTimersByTimeAsync(MINUTE_MS - 50_000 + 1_000);
    edge.reset();
    const [device, link] = await Promise.all([bridge.device(), edge.deviceLink()]);
    expect(await device.takeConnack()).toBe(0);
    expect(link.closedWith).toBeUndefined();
  });

  it('may be refused thirty times in the next minute too', async () => {
    vi.useFakeTimers(CLOCK);
    await refuse(PER_MINUTE);
    await vi.advanceTimersByTimeAsync(MINUTE_MS + 1_000);
    edge.reset();
    await refuse(PER_MINUTE);
    await partnerTold();
    expect(edge.dialed.length).toBe(PER_MINUTE);
  });
});

describe('an address that is refused as three devices [C-3.11]', () => {
  const GUESSED = [1, 2, 3].map((digit) => DEVICE_ID.replace(/.$/, String(digit)));

  beforeEach(async () => {
    edge.answer = () => envelope('UNAUTHORIZED');
    for (const username of GUESSED) expect(await deviceTold({ username })).toBe(CONNACK_REFUSED);
    expect(pathsDialed()).toEqual(Array(3).fill('/link/mqtt'));
    edge.dialed.length = 0;
  });

  it('has the edge asked for a refusal that counts against no device', async () => {
    expect(await deviceTold({ password: 'a guess' })).toBe(CONNACK_REFUSED);
    expect(edge.dialed).toMatchObject([{ path: '/link/mqtt/uncounted', username: DEVICE_ID }]);
  });

  it('is answered by the bridge where it was refused with the same credential', async () => {
    await times(3, () => deviceTold({ password: 'a guess' }));
    for (const username of GUESSED) expect(await deviceTold({ username })).toBe(CONNACK_REFUSED);
    expect(pathsDialed()).toEqual(['/link/mqtt/uncounted']);
  });

  it('still opens a session for a good token, also of a device that was guessed at', async () => {
    edge.reset();
    const [guessed] = GUESSED;
    for (const username of [DEVICE_ID, guessed]) {
      const [peer, link] = await Promise.all([
        bridge.device({ username, password: 'the right one' }),
        edge.deviceLink(),
      ]);
      expect(await peer.takeConnack()).toBe(0);
      await peer.ping();
      expect(link.closedWith).toBeUndefined();
    }
    expect(pathsDialed()).toEqual(Array(2).fill('/link/mqtt/uncounted'));
  });

  it('is none for its partners: theirs is a rule of their own [C-6.5]', async () => {
    await refuse(PER_MINUTE - 3);
    expect(pathsDialed()).toEqual(Array(PER_MINUTE - 3).fill('/link/amqp'));
  });

  it('says nothing of another address', async () => {
    expect(await deviceTold({}, OTHER_ADDRESS)).toBe(CONNACK_REFUSED);
    expect(pathsDialed()).toEqual(['/link/mqtt']);
  });

  it('counts again a minute later', async () => {
    vi.useFakeTimers(CLOCK);
    expect(await deviceTold({ password: 'a guess' })).toBe(CONNACK_REFUSED);
    await vi.advanceTimersByTimeAsync(MINUTE_MS + 1_000);
    expect(await deviceTold({ password: 'a guess' })).toBe(CONNACK_REFUSED);
    expect(pathsDialed()).toEqual(['/link/mqtt/uncounted', '/link/mqtt']);
  });
});

describe('a login counts as refused', () => {
  it('when it is one connection too many [C-6.3]', async () => {
    edge.answer = () => envelope('CONFLICT', 'too many connections');
    await times(PER_MINUTE, async () => expect(await refusedAtOpen()).toMatch(/^530 /));
    expect(await partnerTold()).toBe(REFUSED);
    expect(edge.dialed.length).toBe(PER_MINUTE);
  });

  it.each<[string, Answer]>([
    ['trouble of the edge', envelope('SERVICE_UNAVAILABLE')],
    ['a firewall’s HTML 403', { status: 403, body: '<html>blocked</html>', contentType: 'text/html' }],
  ])('but not for %s (rule 7)', async (_title, answer) => {
    edge.answer = () => answer;
    await times(PER_MINUTE + 5, async () => expect(await partnerTold()).toMatch(/^320 /));
    expect(edge.dialed.length).toBe(PER_MINUTE + 5);
  });

  it('but not when it is accepted', async () => {
    await times(PER_MINUTE + 5, async () => expect(await deviceTold()).toBe(0));
    edge.dialed.length = 0;
    await refuse(PER_MINUTE + 1);
    expect(edge.dialed.length).toBe(PER_MINUTE);
  });

  it('but not below thirty: the thirtieth is still asked for', async () => {
    await refuse(PER_MINUTE - 1);
    await refuse(1);
    expect(edge.dialed.length).toBe(PER_MINUTE);
  });
});
