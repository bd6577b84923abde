/** Many pending messages of one device, as stock clients send them: limited in number, and none is lost. */
import { describe, expect } from 'vitest';
import { mqttTest as it, type OpenMqttClient, TELEMETRY } from '#support/bridge-mqtt.ts';
import { acknowledgement, PACKET, publishPacket } from '#support/bridge-mqtt-peer.ts';

async function store({ link }: OpenMqttClient, count: number): Promise<void> {
  for (let taken = 0; taken < count; taken++) await link.store();
}

describe('pending messages at QoS 2', () => {
  it.for([16, 20])(
    '%d messages may wait for PUBREL together: paho’s window is 20',
    async (count, { mqtt, device }) => {
      const ids = Array.from({ length: count }, (_, index) => index + 1);
      device.peer.write(...ids.map((id) => publishPacket(TELEMETRY, `${id}`, { qos: 2, id })));
      await store(device, count);
      const received: number[] = [];
      for (const _id of ids) received.push(await device.peer.takeId(PACKET.pubrec));
      expect(received.sort((left, right) => left - right)).toEqual(ids);
      device.peer.write(...ids.map((id) => acknowledgement(PACKET.pubrel, id)));
      for (const _id of ids) await device.peer.takeId(PACKET.pubcomp);
      expect(mqtt.events.closedWhy).toEqual([]);
    },
  );

  it('a device that never sends PUBREL is closed when too many wait for it', async ({ mqtt, device }) => {
    const count = 2_000;
    const storing = store(device, count).catch(() => {});
    for (let id = 1; id <= count; id++) device.peer.write(publishPacket(TELEMETRY, `${id}`, { qos: 2, id }));
    expect(await mqtt.events.untilClosed()).toMatch(/maxInflightInbound/);
    await device.link.untilClosed();
    await storing;
  });
});
