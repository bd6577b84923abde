/** Messages that are not UTF-8, on every way in: refused by name, and never read as other text [C-15.8]. */
import { createHmac, randomUUID } from 'node:crypto';
import { connectAsync, type MqttClient } from 'mqtt';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import type { DeviceDiagnostics } from '../../protocol/device-record.ts';
import { telemetrySigningString } from '../../protocol/signing.ts';
import { deviceTopic } from '../../protocol/topics.ts';

const stack = suiteStack();
const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

async function connected(): Promise<MqttClient> {
  const { id, token } = stack.credentials.gateway;
  const client = await connectAsync({
    ...{ protocol: 'mqtts', host: 'localhost', port: stack.bridge.ports.mqtts, ca: stack.ca },
    ...{ clientId: id, username: id, password: token, reconnectPeriod: 0 },
  });
  onTestFinished(() => client.endAsync(true));
  return client;
}

/** A signed reading; `name`: the bytes of its signal's name, signed as the text that a lenient reader makes of them. */
function reading(name: Buffer): Buffer {
  const { id, hmacSecret } = stack.credentials.gateway;
  const [ts, nonce] = [Date.now(), randomUUID()];
  const dataText = `{"${name.toString('utf8')}":1}`;
  const sig = createHmac('sha256', hmacSecret)
    .update(telemetrySigningString(id, ts, nonce, dataText))
    .digest('hex');
  const [before, after] = [`{"ts":${ts},"nonce":"${nonce}","data":{"`, `":1},"sig":"${sig}"}`];
  return Buffer.concat([Buffer.from(before), name, Buffer.from(after)]);
}

async function diagnostics(): Promise<DeviceDiagnostics> {
  return await stack.admin.call<DeviceDiagnostics>(
    'GET',
    `/devices/${stack.credentials.gateway.id}/diagnostics`,
  );
}

/** Publishes; the acknowledgement says that the Site has judged it. */
async function publish(client: MqttClient, payload: Buffer): Promise<void> {
  const topic = deviceTopic(stack.credentials.gateway.id, 'telemetry');
  await client.publishAsync(topic, payload, { qos: 1 });
}

describe('a message of a device', () => {
  it('is dropped as ENCODING with the offset of its first wrong byte if it is not UTF-8 [C-15.8]', async () => {
    const client = await connected();
    const { drops: before } = await diagnostics();
    // Read leniently, its name is U+FFFD, its signature fits, and it would be stored under a name that nobody sent.
    const payload = reading(Buffer.from([0x61, 0xff]));
    await publish(client, payload);
    const { drops, recent } = await eventually(async () => {
      const found = await diagnostics();
      return Object.values(found.drops).length > 0 ? found : undefined;
    });
    expect(drops).toEqual({ ...before, ENCODING: 1 });
    expect(recent[0]).toMatchObject({ reason: 'ENCODING', topic: expect.stringContaining('telemetry') });
    expect(recent[0]?.detail).toMatch(new RegExp(`UTF-8.*\\b${payload.indexOf(0xff)}\\b`));
    expect(client.connected).toBe(true);
  });

  it('is stored if it begins with a byte order mark, or has U+FFFD itself [C-15.8]', async () => {
    const client = await connected();
    const { drops: before } = await diagnostics();
    await publish(client, Buffer.concat([MARK, reading(Buffer.from('marked'))]));
    await publish(client, reading(Buffer.from('replaced\ufffd')));
    expect((await diagnostics()).drops).toEqual(before);
  });
});
