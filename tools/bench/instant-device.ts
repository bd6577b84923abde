/**
 * A device that acknowledges every command with COMPLETED at once: the benchmark measures the path, not the
 * plant.
 */
import { createHmac } from 'node:crypto';
import { connectAsync, type MqttClient } from 'mqtt';
import { ackSigningString } from '../../protocol/signing.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import type { SeededPlant } from '../seed.ts';
import type { BenchStack } from './bench-stack.ts';

export type DeviceSide = Pick<BenchStack, 'ca' | 'token'> & { ports: { mqtts: number } };

export async function connectInstantDevice(stack: DeviceSide, plant: SeededPlant): Promise<MqttClient> {
  const { id, hmacSecret } = plant.gateway;
  const client = await connectAsync({
    protocol: 'mqtts',
    host: 'localhost',
    port: stack.ports.mqtts,
    ca: stack.ca,
    clientId: id,
    username: id,
    password: await stack.token(id),
    clean: true,
  });
  client.on('message', (_topic, payload) => {
    const { cmdId } = JSON.parse(payload.toString('utf8')) as { cmdId: string };
    const ts = Date.now();
    const sig = createHmac('sha256', hmacSecret)
      .update(ackSigningString(id, cmdId, ts, 'COMPLETED'))
      .digest('hex');
    client.publish(deviceTopic(id, 'ack'), JSON.stringify({ cmdId, status: 'COMPLETED', ts, sig }), {
      qos: 1,
    });
  });
  await client.subscribeAsync(deviceTopic(id, 'commands'), { qos: 1 });
  return client;
}
