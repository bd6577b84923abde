/** Clients whose end a test waits for: a partner's connection and a device's session, idle or busy. */
import { createHmac, randomUUID } from 'node:crypto';
import type { ChannelModel } from 'amqplib';
import type { MqttClient } from 'mqtt';
import { EXCHANGE } from '../../protocol/routing-keys.ts';
import { telemetrySigningString } from '../../protocol/signing.ts';
import { deviceTopic } from '../../protocol/topics.ts';
import type { PartnerOptions } from '../../tools/partner.ts';
import { envelopeOf, openConnection, setpointOrder } from './returning-partner.ts';
import type { TestStack } from './stack.ts';

export interface Closable {
  /** The received close reason, or 'closed' when the protocol has none; undefined while the client lives. */
  readonly end: number | string | undefined;
  /** The number of accepted messages so far. */
  readonly taken: number;
  stop(): void;
}

/** Idle, or publishing one message after another. */
export type Pace = 'idle' | 'busy';

export async function openPartner(options: PartnerOptions, siteId: string, pace: Pace): Promise<Closable> {
  const connection = await openConnection(options);
  const partner = {
    end: undefined as number | string | undefined,
    taken: 0,
    stop: () => destroy(connection),
  };
  connection.on('close', (error?: Error & { code?: number }) => {
    partner.end ??= error?.code ?? 'closed';
  });
  if (pace === 'busy') void publishOn(connection, options, siteId, partner);
  return partner;
}

async function publishOn(
  connection: ChannelModel,
  options: PartnerOptions,
  siteId: string,
  partner: { end: unknown; taken: number },
): Promise<void> {
  try {
    const channel = await connection.createConfirmChannel();
    channel.on('error', () => {});
    while (partner.end === undefined) {
      const { routingKey, body } = envelopeOf(options, setpointOrder(siteId, { targetValueKw: 500 }));
      channel.publish(EXCHANGE, routingKey, body);
      await channel.waitForConfirms();
      partner.taken += 1;
    }
  } catch {
    // The connection closed during the publish.
  }
}

function destroy(connection: ChannelModel): void {
  (connection.connection as unknown as { stream: { destroy(): void } }).stream.destroy();
}

export async function openDevice(
  stack: TestStack,
  device: { id: string; hmacSecret: string },
  pace: Pace,
  options: { lifetimeSeconds?: number; port?: number } = {},
): Promise<Closable> {
  const { lifetimeSeconds, port } = options;
  const token = await stack.deviceToken(device.id, lifetimeSeconds);
  const client = await stack.mqtt(device.id, token, `${device.id}-${randomUUID()}`, port);
  const session = {
    end: undefined as number | string | undefined,
    taken: 0,
    stop: () => client.stream.destroy(),
  };
  client.on('error', () => {});
  client.on('close', () => {
    session.end ??= 'closed';
  });
  if (pace === 'busy') void publishFrom(client, device, session);
  return session;
}

async function publishFrom(
  client: MqttClient,
  device: { id: string; hmacSecret: string },
  session: { end: unknown; taken: number },
): Promise<void> {
  const data = '{"gridPowerKw":1}';
  try {
    while (session.end === undefined) {
      const ts = Date.now();
      const nonce = randomUUID();
      const text = telemetrySigningString(device.id, ts, nonce, data);
      const sig = createHmac('sha256', device.hmacSecret).update(text).digest('hex');
      const message = `{"ts":${ts},"nonce":"${nonce}","data":${data},"sig":"${sig}"}`;
      await client.publishAsync(deviceTopic(device.id, 'telemetry'), message, { qos: 1 });
      session.taken += 1;
    }
  } catch {
    // The session closed during the publish.
  }
}
