/**
 * A device that acknowledges every command with COMPLETED at once: the benchmark measures the path, not the
 * plant.
 */
import { createHmac } from 'node:crypto';
import { connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import { ackSigningString } from '../../protocol/signing.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import type { SeededPlant } from '../seed.ts';
import type { BenchStack } from './bench-stack.ts';

export type DeviceSide = Pick<BenchStack, 'ca' | 'token'> & { ports: { mqtts: number } };

export async function connectInstantDevice(stack: DeviceSide, plant: SeededPlant): Promise<MqttClient> {
  const { id, hmacSecret } = plant.gateway;
  // The library hands all options to the socket, but its types have only some of them.
  const options: IClientOptions & { localAddress: string } = {
    protocol: 'mqtts',
    ...{ host: '127.0.0.1', servername: 'localhost', port: stack.ports.mqtts },
    localAddress: ownAddress(id),
    ca: stack.ca,
    clientId: id,
    username: id,
    password: await stack.token(id),
    clean: true,
  };
  const client = await connectAsync(options);
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

/**
 * A loopback address that no other device has: a bridge keeps 64 connections of one address that have not logged in
 * yet, and real devices rarely share one.
 */
function ownAddress(id: string): string {
  const bytes = [0, 2, 4].map((at) => Number.parseInt(id.slice(at, at + 2), 16));
  return `127.${bytes.join('.')}`;
}
