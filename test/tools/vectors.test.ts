/** The signature vectors that device makers test against: what the platform itself reads and signs (spec: Device MQTT; [C-3.7]). */
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { verifyHmac } from '../../durable-objects/secrets/hmac.ts';
import { compact, sliceMembers } from '../../protocol/compact-json.ts';
import { parseDeviceMessage } from '../../protocol/device.ts';
import { commandSigningString } from '../../protocol/signing.ts';
import { devicePublishTopic } from '../../protocol/topics.ts';
import { vectors } from '../../tools/vectors.ts';

const FILE = join(import.meta.dirname, '..', '..', 'docs', 'signature-vectors.json');
const {
  deviceId,
  hmacSecret,
  vectors: all,
} = JSON.parse(readFileSync(FILE, 'utf8')) as ReturnType<typeof vectors>;
const sent = all.filter(({ topic }) => devicePublishTopic(deviceId, topic));
const told = all.filter(({ topic }) => topic.endsWith('/commands'));

describe('docs/signature-vectors.json', () => {
  it('is what `npm run vectors` writes', () => {
    expect({ deviceId, hmacSecret, algorithm: 'HMAC-SHA256', vectors: all }).toEqual(vectors());
  });

  it('has every kind of message', () => {
    const kinds = new Set(all.map(({ name }) => name.split(':')[0]));
    expect([...kinds]).toEqual(['telemetry', 'status', 'command', 'ack', 'renewal of a token']);
  });

  it.each(all)(
    '$name: both signatures are of the bytes that it says are signed',
    ({ signed, signedHex, sigByText, sigByBytes }) => {
      const sign = (key: string | Buffer) =>
        createHmac('sha256', key).update(Buffer.from(signedHex, 'hex')).digest('hex');
      expect(Buffer.from(signedHex, 'hex').toString('utf8')).toBe(signed);
      expect([sigByText, sigByBytes]).toEqual([sign(hmacSecret), sign(Buffer.from(hmacSecret, 'hex'))]);
    },
  );

  it.each(sent)(
    '$name: the platform reads it so, and takes either signature [C-3.7]',
    ({ topic, message, signed, sigByText, sigByBytes }) => {
      const name = devicePublishTopic(deviceId, topic) ?? 'ack';
      const parsed = parseDeviceMessage(deviceId, name, message);
      expect(parsed).toMatchObject({ ok: true, value: { signingString: signed, sig: sigByText } });
      expect(verifyHmac(hmacSecret, signed, sigByText)).toBe(true);
      expect(verifyHmac(Buffer.from(hmacSecret, 'hex'), signed, sigByBytes)).toBe(true);
    },
  );

  it.each(told)('$name: what is signed is the payload as it travels', ({ message, signed }) => {
    const members = sliceMembers(message);
    const payload = members.ok ? compact(members.value.get('payload') ?? '') : '';
    const { cmdId, ts, action } = JSON.parse(message) as { cmdId: string; ts: number; action: string };
    expect(commandSigningString(deviceId, cmdId, ts, action, payload)).toBe(signed);
  });
});
