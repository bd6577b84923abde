/**
 * The signature vectors that device makers and partners test against are those that the platform reads and
 * signs (spec: Device MQTT; [C-3.7], [C-7.2]).
 */
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { verifyHmac } from '../../durable-objects/secrets/hmac.ts';
import { compact, sliceMembers } from '../../protocol/compact-json.ts';
import { parseDeviceMessage } from '../../protocol/device-message.ts';
import { parseEnvelope } from '../../protocol/envelope.ts';
import { commandSigningString, envelopeSigningString } from '../../protocol/signing.ts';
import { devicePublishTopic } from '../../protocol/topics.ts';
import { vectors } from '../../tools/reference/vectors.ts';

const FILE = join(import.meta.dirname, '..', '..', 'docs', 'signature-vectors.json');
const {
  deviceId,
  hmacSecret,
  vectors: all,
  envelopes,
} = JSON.parse(readFileSync(FILE, 'utf8')) as ReturnType<typeof vectors>;
const sent = all.filter(({ topic }) => devicePublishTopic(deviceId, topic));
const commands = all.filter(({ topic }) => topic.endsWith('/commands'));

describe('docs/signature-vectors.json', () => {
  it('equals the output of `npm run docs`', () => {
    expect({ deviceId, hmacSecret, algorithm: 'HMAC-SHA256', vectors: all, envelopes }).toEqual(vectors());
  });

  it('has every kind of message', () => {
    const kinds = new Set(all.map(({ name }) => name.split(':')[0]));
    expect([...kinds]).toEqual(['telemetry', 'status', 'command', 'ack', 'renewal of a token']);
  });

  it.each(all)(
    '$name: both signatures match the listed signed bytes',
    ({ signed, signedHex, sigByText, sigByBytes }) => {
      const sign = (key: string | Buffer) =>
        createHmac('sha256', key).update(Buffer.from(signedHex, 'hex')).digest('hex');
      expect(Buffer.from(signedHex, 'hex').toString('utf8')).toBe(signed);
      expect([sigByText, sigByBytes]).toEqual([sign(hmacSecret), sign(Buffer.from(hmacSecret, 'hex'))]);
    },
  );

  it.each(sent)(
    '$name: the platform reads the message, and accepts either signature [C-3.7]',
    ({ topic, message, signed, sigByText, sigByBytes }) => {
      const name = devicePublishTopic(deviceId, topic) ?? 'ack';
      const parsed = parseDeviceMessage(deviceId, name, message);
      expect(parsed).toMatchObject({ ok: true, value: { signingString: signed, sig: sigByText } });
      expect(verifyHmac(hmacSecret, signed, sigByText)).toBe(true);
      expect(verifyHmac(Buffer.from(hmacSecret, 'hex'), signed, sigByBytes)).toBe(true);
    },
  );

  it.each(commands)('$name: the signed payload is the payload as sent', ({ message, signed }) => {
    const members = sliceMembers(message);
    const payload = members.ok ? compact(members.value.get('payload') ?? '') : '';
    const { cmdId, ts, action } = JSON.parse(message) as { cmdId: string; ts: number; action: string };
    expect(commandSigningString(deviceId, cmdId, ts, action, payload)).toBe(signed);
  });

  it.each(envelopes.vectors)(
    'envelope: $name: the platform reads it, and accepts its signature [C-7.2]',
    ({ message, signed, signedHex, signature }) => {
      const envelope = parseEnvelope(message);
      if (!envelope.ok) throw new Error(envelope.refusal);
      const { value } = envelope;
      const fields = { ...value, messageId: value.messageIdText };
      expect(envelopeSigningString(fields, envelopes.routingKey, value.payloadText)).toBe(signed);
      expect([value.signature, Buffer.from(signedHex, 'hex').toString('utf8')]).toEqual([signature, signed]);
      expect(verifyHmac(envelopes.signingKey, signed, signature)).toBe(true);
    },
  );

  it('has the vector that the documentation spells out [C-7.2]', () => {
    const known = 'adf5675a67e7c1996ab535ff42f305034aff782e9526b5ed20d4b5a67abacf5c';
    expect(envelopes.vectors.find(({ signature }) => signature === known)?.name).toBe(
      'a float as Python prints it',
    );
    const amqp = readFileSync(join(dirname(FILE), 'amqp.md'), 'utf8');
    expect(amqp).toContain(envelopes.vectors[0]?.signed);
    expect(amqp).toContain(known);
  });
});
