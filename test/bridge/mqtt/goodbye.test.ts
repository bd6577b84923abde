/**
 * A Site that ends a session says goodbye first: the device's connection closes at once, idle or busy, and the link's
 * socket goes with it. In these tests the object's own close never arrives.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import { TestEdge } from '../../support/bridge-edge.ts';
import { COMMANDS, type OpenMqttClient, TELEMETRY, TestBroker } from '../../support/bridge-mqtt.ts';
import { PACKET, publishPacket, subscribePacket } from '../../support/bridge-mqtt-peer.ts';
import { turns } from '../../support/bridge-signal.ts';

const REVOKED = { kind: 'goodbye', code: CLOSE_CODES.revoked, reason: 'revoked' } as const;

let edge: TestEdge;
let mqtt: TestBroker;

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(async () => {
  mqtt = await TestBroker.start(edge);
});
afterEach(async () => {
  await mqtt.engine.stop();
  edge.reset();
});
afterAll(() => edge.stop());

function sayGoodbye({ link }: OpenMqttClient, code: number = CLOSE_CODES.revoked, reason = 'revoked'): void {
  link.send({ kind: 'goodbye', code, reason });
  link.socket.pause();
}

async function expectLinkGone({ link }: OpenMqttClient): Promise<void> {
  link.socket.resume();
  expect((await link.untilClosed()).code).toBe(1006);
}

describe('a bridge that goes', () => {
  it('ends a client that has not come as far as its CONNECT, too [rule 7]', async () => {
    const { stream } = mqtt.connect();
    await mqtt.engine.stop();
    expect(stream.destroyed).toBe(true);
  });
});

describe('a goodbye', () => {
  it.each([
    [CLOSE_CODES.revoked, 'revoked'],
    [CLOSE_CODES.expired, 'token expired'],
    [CLOSE_CODES.takenOver, 'taken over'],
    [1012, 'restarted'],
  ])('with %d closes an idle device at once, and the link is gone [C-5.6]', async (code, reason) => {
    const client = await mqtt.open();
    sayGoodbye(client, code, reason);
    await client.peer.untilEnded();
    expect(client.stream.destroyed).toBe(true);
    await expectLinkGone(client);
    expect(await mqtt.events.untilClosed()).toBe(`link ${code} ${reason}`);
    // Nothing but its CONNACK was said to it.
    expect(client.peer.packets.length).toBe(1);
  });

  it.each([0, 1, 2])(
    'closes a device with publishes under way at QoS %d, and acknowledges none',
    async (qos) => {
      const client = await mqtt.open();
      for (let id = 1; id <= 5; id++) client.peer.write(publishPacket(TELEMETRY, `${id}`, { qos, id }));
      for (let id = 1; id <= 5; id++) await client.link.take('publish');
      sayGoodbye(client);
      await client.peer.untilEnded();
      await expectLinkGone(client);
      expect(client.peer.packets.length).toBe(1);
      expect(mqtt.events.closedWhy).toEqual(['link 4003 revoked']);
    },
  );

  it('closes a device whose publishes wait', async () => {
    const client = await mqtt.open();
    client.peer.write(publishPacket(TELEMETRY, 'a'));
    client.link.send({ kind: 'wait', seqs: [(await client.link.take('publish')).seq], ms: 60_000, count: 1 });
    sayGoodbye(client);
    await client.peer.untilEnded();
    await expectLinkGone(client);
  });

  it('comes after what the object said before it, and before all that follows', async () => {
    const client = await mqtt.open();
    client.peer.write(subscribePacket(1, COMMANDS), publishPacket(TELEMETRY, 'a', { id: 7 }));
    await client.peer.take(PACKET.suback);
    const { seq } = await client.link.take('publish');
    client.link.send({ kind: 'stored', seqs: [seq] });
    expect(await client.peer.takeId(PACKET.puback)).toBe(7);
    client.link.send(REVOKED);
    client.link.send({ kind: 'command', payload: '{"late":true}' });
    await client.peer.untilEnded();
    await turns();
    expect(client.peer.packets.map(({ type }) => type)).not.toContain(PACKET.publish);
    expect(mqtt.events.commandedCount).toBe(0);
  });
});

describe('sessions that take each other over forty times', () => {
  it('leave one connection behind, of the client and of the link', async () => {
    const clients: OpenMqttClient[] = [];
    for (let count = 0; count < 40; count++) {
      const before = clients.at(-1);
      clients.push(await mqtt.open());
      if (before) sayGoodbye(before, CLOSE_CODES.takenOver, 'taken over');
    }
    for (const client of clients.slice(0, -1)) {
      await client.peer.untilEnded();
      await expectLinkGone(client);
    }
    expect(clients.filter(({ stream }) => !stream.destroyed)).toEqual([clients.at(-1)]);
    expect(clients.filter(({ link }) => !link.closedWith)).toEqual([clients.at(-1)]);
    expect(mqtt.events.openedIds.length - mqtt.events.closedWhy.length).toBe(1);
    await clients.at(-1)?.peer.ping();
  });
});
