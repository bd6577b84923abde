/** A client that no byte comes from: its site is told after 90 s, and told again when something comes [C-3.10]. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { LULL_MS } from '../../../protocol/link/live.ts';
import { LINK_VERSION_HEADER } from '../../../protocol/link/proof.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { type OpenMqttClient, OTHER_ID, TELEMETRY, TestBroker } from '../../support/bridge-mqtt.ts';
import { PACKET, packet, publishPacket } from '../../support/bridge-mqtt-peer.ts';
import { CLOCK, turns } from '../../support/bridge-signal.ts';

const QUIET_MS = 90_000;
/** The longest: Aedes itself closes after one and a half of it. */
const KEEPALIVE_SECONDS = 300;
/** How much later than 90 s it may be told. */
const LATE_MS = 5_000;
const PINGREQ = packet(PACKET.pingreq, 0);

let edge: TestEdge;
let mqtt: TestBroker;

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(async () => {
  vi.useFakeTimers(CLOCK);
  mqtt = await TestBroker.start(edge);
});
afterEach(async () => {
  await mqtt.engine.stop();
  vi.useRealTimers();
  edge.reset();
});
afterAll(() => edge.stop());

async function pass(ms: number): Promise<void> {
  await turns();
  await vi.advanceTimersByTimeAsync(ms);
  await turns(50);
}

/** What the site was told of quiet, in order. */
function told({ link }: OpenMqttClient): boolean[] {
  return link.received.flatMap((one) => (one.kind === 'quiet' ? [one.quiet] : []));
}

describe('a device that publishes nothing', () => {
  const lulls = ({ link }: OpenMqttClient) => link.received.filter(({ kind }) => kind === 'lull').length;

  it('is told of every 25 s, whether it pings or not, until it publishes [C-8.2]', async () => {
    const client = await mqtt.open({ keepalive: KEEPALIVE_SECONDS });
    await pass(LULL_MS - 100);
    expect(lulls(client)).toBe(0);
    await pass(100 + LATE_MS);
    expect(lulls(client)).toBe(1);
    client.peer.write(PINGREQ);
    await pass(LULL_MS + LATE_MS);
    expect(lulls(client)).toBe(2);
    for (let round = 0; round < 6; round++) {
      client.peer.write(publishPacket(TELEMETRY, 'a', { qos: 0 }));
      await pass(20_000);
    }
    expect(lulls(client)).toBe(2);
  });

  it('is not told of to a site that does not know the word', async () => {
    edge.answer = () => ({ accept: { [LINK_VERSION_HEADER]: '3' } });
    const client = await mqtt.open({ keepalive: KEEPALIVE_SECONDS });
    await pass(3 * LULL_MS);
    expect(lulls(client)).toBe(0);
  });
});

describe('a device that no byte comes from', () => {
  it('is told to its site as quiet after 90 s, not before, and once', async () => {
    const client = await mqtt.open({ keepalive: KEEPALIVE_SECONDS });
    await pass(QUIET_MS - 100);
    expect(told(client)).toEqual([]);
    await pass(100 + LATE_MS);
    expect(told(client)).toEqual([true]);
    await pass(3 * QUIET_MS);
    expect(told(client)).toEqual([true]);
    expect(client.link.closedWith).toBeUndefined();
  });

  it.each([
    ['a ping', PINGREQ],
    ['half a packet', PINGREQ.subarray(0, 1)],
  ])('is told as not quiet any more with %s, at once, and as quiet again later', async (_title, bytes) => {
    const client = await mqtt.open({ keepalive: KEEPALIVE_SECONDS });
    await pass(QUIET_MS + LATE_MS);
    client.peer.write(bytes);
    await turns(50);
    expect(told(client)).toEqual([true, false]);
    await pass(QUIET_MS - 100);
    expect(told(client)).toEqual([true, false]);
    await pass(100 + LATE_MS);
    expect(told(client)).toEqual([true, false, true]);
  });

  it('is told as not quiet before the message with which it ends its silence', async () => {
    const client = await mqtt.open({ keepalive: KEEPALIVE_SECONDS });
    await pass(QUIET_MS + LATE_MS);
    client.peer.write(publishPacket(TELEMETRY, 'a', { qos: 0 }));
    await client.link.take('publish');
    const kinds = client.link.received.map(({ kind }) => kind).filter((kind) => kind !== 'lull');
    expect(kinds).toEqual(['quiet', 'quiet', 'publish']);
    expect(told(client)).toEqual([true, false]);
  });

  it('is not quiet while it pings or sends within 90 s', async () => {
    const client = await mqtt.open({ keepalive: KEEPALIVE_SECONDS });
    for (let round = 0; round < 6; round++) {
      await pass(80_000);
      client.peer.write(round % 2 ? PINGREQ : publishPacket(TELEMETRY, 'a', { qos: 0 }));
      await turns();
    }
    expect(told(client)).toEqual([]);
  });

  it('is quiet though commands go to it: the site’s words are no sign of the client’s life', async () => {
    const client = await mqtt.open({ keepalive: KEEPALIVE_SECONDS });
    for (let round = 0; round < 4; round++) {
      await pass(25_000);
      client.link.send({ kind: 'command', payload: '{}' });
    }
    await turns(50);
    expect(told(client)).toEqual([true]);
  });

  it('is the only one told of: each device has a clock of its own', async () => {
    const silent = await mqtt.open({ keepalive: KEEPALIVE_SECONDS });
    await pass(50_000);
    const lively = await mqtt.open({ keepalive: KEEPALIVE_SECONDS, username: OTHER_ID });
    await pass(40_000 + LATE_MS);
    expect([told(silent), told(lively)]).toEqual([[true], []]);
    await pass(50_000);
    expect([told(silent), told(lively)]).toEqual([[true], [true]]);
  });

  it('is not called quiet while it is we who do not read it', async () => {
    const client = await mqtt.open({ keepalive: KEEPALIVE_SECONDS });
    client.peer.write(publishPacket(TELEMETRY, 'a'));
    const { seq } = await client.link.take('publish');
    client.link.send({ kind: 'wait', seqs: [seq], ms: 120_000, count: 1 });
    await turns(50);
    for (let round = 0; round < 11; round++) {
      client.peer.write(PINGREQ);
      await pass(10_000);
    }
    expect(told(client)).toEqual([]);
  });

  it('and goes leaves no timer behind', async () => {
    const timers = vi.getTimerCount();
    const client = await mqtt.open({ keepalive: KEEPALIVE_SECONDS });
    client.peer.stream.destroy();
    await client.link.untilClosed();
    await turns();
    expect(vi.getTimerCount()).toBe(timers);
  });
});
