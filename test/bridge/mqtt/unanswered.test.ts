/** A device whose messages the site answers slowly: the bridge reads a bounded amount of them, and loses none. */
import { describe, expect } from 'vitest';
import { mqttTest as it, TELEMETRY } from '#support/bridge-mqtt.ts';
import { PACKET, publishPacket } from '#support/bridge-mqtt-peer.ts';
import { turns } from '#support/bridge-signal.ts';
import { LIMIT } from '../../../protocol/limits.ts';

const BYTES = 10_000;
const FITTING = Math.ceil(LIMIT.mqttUnansweredBytes / BYTES);
/** What streams between the client and the engine may hold. */
const BUFFERED = 20;
const SENT = 4 * FITTING;

describe('messages of a device that the site does not answer', () => {
  it.for([0, 1])(
    'at QoS %d stop the bridge from reading at 1 MiB, and all arrive in order',
    async (qos, { mqtt }) => {
      const { peer, link } = await mqtt.open({ keepalive: 300 });
      const payload = (id: number) => `${id}`.padStart(BYTES, '0');
      for (let id = 1; id <= SENT; id++) {
        peer.write(publishPacket(TELEMETRY, payload(id), { qos, id }));
        await turns(1);
      }
      await turns(100);
      expect(mqtt.events.publishedCount).toBeGreaterThanOrEqual(FITTING);
      expect(mqtt.events.publishedCount).toBeLessThanOrEqual(FITTING + BUFFERED);
      for (let id = 1; id <= SENT; id++) {
        expect((await link.store()).payload).toBe(payload(id));
        if (qos === 1) expect(await peer.takeId(PACKET.puback)).toBe(id);
      }
      expect(mqtt.events.publishedCount).toBe(SENT);
    },
  );

  it('do not delay an acknowledgement of a command by a round trip', async ({ mqtt }) => {
    const { peer, link } = await mqtt.open({ keepalive: 300 });
    peer.write(publishPacket(TELEMETRY, 'one', { qos: 1, id: 1 }));
    await link.take('publish');
    peer.write(publishPacket(TELEMETRY, 'two', { qos: 1, id: 2 }));
    peer.write(publishPacket(TELEMETRY.replace('telemetry', 'ack'), 'done', { qos: 1, id: 3 }));
    expect((await link.take('publish')).payload).toBe('two');
    expect(await link.take('publish')).toMatchObject({ topic: 'ack', payload: 'done' });
  });
});
