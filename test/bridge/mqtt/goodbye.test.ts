/**
 * A Site that ends a session sends a goodbye first. The bridge then closes the device's connection, idle or
 * busy, and drops the link's socket. In these tests the object's close of the WebSocket never arrives.
 */
import { describe, expect } from 'vitest';
import { COMMANDS, mqttTest as it, type OpenMqttClient, TELEMETRY } from '#support/bridge-mqtt.ts';
import { PACKET, publishPacket, subscribePacket } from '#support/bridge-mqtt-peer.ts';
import { turns } from '#support/bridge-signal.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';

const REVOKED = { kind: 'goodbye', code: CLOSE_CODES.revoked, reason: 'revoked' } as const;

describe('a bridge that stops', () => {
  it('closes a client that has not sent its CONNECT yet [rule 7]', async ({ mqtt }) => {
    const { stream } = mqtt.connect();
    await mqtt.engine.stop();
    expect(stream.destroyed).toBe(true);
  });
});

describe('the goodbye of an object', () => {
  it.for([
    [CLOSE_CODES.revoked, 'revoked'],
    [CLOSE_CODES.expired, 'credential expired'],
    [CLOSE_CODES.takenOver, 'taken over'],
    [1012, 'restarted'],
  ] as const)(
    'closes an idle device if its code is %d, and drops the link [C-5.6]',
    async ([code, reason], { mqtt, device }) => {
      device.link.sayGoodbye(code, reason);
      await device.peer.untilEnded();
      expect(device.stream.destroyed).toBe(true);
      expect(await device.link.closeCode()).toBe(1006);
      expect(await mqtt.events.untilClosed()).toBe(`link ${code} ${reason}`);
      // The client received only its CONNACK.
      expect(device.peer.packets.length).toBe(1);
    },
  );

  it.for([0, 1, 2])(
    'closes a device, and the bridge acknowledges none of its unanswered publishes at QoS %d',
    async (qos, { mqtt, device }) => {
      for (let id = 1; id <= 5; id++) device.peer.write(publishPacket(TELEMETRY, `${id}`, { qos, id }));
      for (let id = 1; id <= 5; id++) await device.link.take('publish');
      device.link.sayGoodbye();
      await device.peer.untilEnded();
      expect(await device.link.closeCode()).toBe(1006);
      expect(device.peer.packets.length).toBe(1);
      expect(mqtt.events.closedWhy).toEqual(['link 4003 revoked']);
    },
  );

  it('closes a device with a held publish', async ({ device }) => {
    device.peer.write(publishPacket(TELEMETRY, 'a'));
    device.link.send({ kind: 'wait', seqs: [(await device.link.take('publish')).seq], ms: 60_000, count: 1 });
    device.link.sayGoodbye();
    await device.peer.untilEnded();
    expect(await device.link.closeCode()).toBe(1006);
  });

  it('takes effect after earlier answers; later commands are dropped', async ({ mqtt, device }) => {
    device.peer.write(subscribePacket(1, COMMANDS), publishPacket(TELEMETRY, 'a', { id: 7 }));
    await device.peer.take(PACKET.suback);
    await device.link.store();
    expect(await device.peer.takeId(PACKET.puback)).toBe(7);
    device.link.send(REVOKED);
    device.link.send({ kind: 'command', payload: '{"late":true}' });
    await device.peer.untilEnded();
    await turns();
    expect(device.peer.packets.map(({ type }) => type)).not.toContain(PACKET.publish);
    expect(mqtt.events.deliveredCount).toBe(0);
  });
});

describe('forty takeovers of a session', () => {
  it('leave only the last client connection and its link open', async ({ mqtt }) => {
    const clients: OpenMqttClient[] = [];
    for (let count = 0; count < 40; count++) {
      const earlier = clients.at(-1);
      clients.push(await mqtt.open());
      if (earlier) earlier.link.sayGoodbye(CLOSE_CODES.takenOver, 'taken over');
    }
    for (const client of clients.slice(0, -1)) {
      await client.peer.untilEnded();
      expect(await client.link.closeCode()).toBe(1006);
    }
    expect(clients.filter(({ stream }) => !stream.destroyed)).toEqual([clients.at(-1)]);
    expect(clients.filter(({ link }) => !link.closedWith)).toEqual([clients.at(-1)]);
    expect(mqtt.events.openedNames.length - mqtt.events.closedWhy.length).toBe(1);
    await clients.at(-1)?.peer.ping();
  });
});
