/**
 * Compares signatures with MACs that another implementation computed, which fixes both the signed text and
 * the form of the key.
 */
import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { parseDeviceMessage } from '../../protocol/device-message.ts';
import { parseEnvelope } from '../../protocol/envelope.ts';
import {
  ackSigningString,
  commandSigningString,
  envelopeSigningString,
  SIGNATURE,
  statusSigningString,
  telemetrySigningString,
} from '../../protocol/signing.ts';

const KEY = '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff';
const DEVICE = '3f2b8c1e-7a44-4d0e-9b61-5c1f0e2d3a4b';

const ENVELOPE = {
  version: '1.1',
  messageId: '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11',
  correlationId: 'corr-42',
  timestamp: '2026-01-15T10:00:00.000Z',
  source: 'acme-trader',
  siteId: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10',
};
const PAYLOAD =
  '{"commands":[{"deviceId":"BESS-1","assetType":"BESS","command":"BESS_CHARGE","params":{"powerKw":5.0}}]}';
const SPACED_PAYLOAD = `{ "commands": [
  { "deviceId": "BESS-1", "assetType": "BESS", "command": "BESS_CHARGE", "params": { "powerKw": 5.0 } }
] }`;

function mac(text: string | undefined, key: string | Buffer = KEY): string {
  return createHmac('sha256', key)
    .update(text ?? '')
    .digest('hex');
}

describe('envelope signatures', () => {
  it('cover the seven fields and the compact payload of the published vector [C-7.2]', () => {
    const text = envelopeSigningString(ENVELOPE, 'acme.command.device', PAYLOAD);
    expect(text).toBe(
      '1.1|6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11|corr-42|2026-01-15T10:00:00.000Z|acme-trader|0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10|acme.command.device|{"commands":[{"deviceId":"BESS-1","assetType":"BESS","command":"BESS_CHARGE","params":{"powerKw":5.0}}]}',
    );
    expect(mac(text)).toBe('adf5675a67e7c1996ab535ff42f305034aff782e9526b5ed20d4b5a67abacf5c');
  });

  it('match the published vector when the payload was sent with whitespace [C-7.2]', () => {
    const { messageId, ...rest } = ENVELOPE;
    const body = `{ "messageId": "${messageId}", "payload": ${SPACED_PAYLOAD} , ${JSON.stringify(rest).slice(1)}`;
    const envelope = parseEnvelope(body);
    if (!envelope.ok) throw new Error(envelope.refusal);
    const text = envelopeSigningString(envelope.value, 'acme.command.device', envelope.value.payloadText);
    expect(mac(text)).toBe('adf5675a67e7c1996ab535ff42f305034aff782e9526b5ed20d4b5a67abacf5c');
  });

  it('cover an empty field where the correlationId is absent [C-7.2]', () => {
    const { correlationId: _absent, ...rest } = ENVELOPE;
    const text = envelopeSigningString(rest, 'acme.command.mode', '{}');
    expect(text?.split('|').slice(1, 4)).toEqual([ENVELOPE.messageId, '', ENVELOPE.timestamp]);
    expect(envelopeSigningString({ ...rest, correlationId: undefined }, 'acme.command.mode', '{}')).toBe(
      text,
    );
  });

  it.each(['version', 'messageId', 'correlationId', 'timestamp', 'source', 'siteId'] as const)(
    'do not exist if %s contains the separator | [C-7.2]',
    (field) => {
      const forged = { ...ENVELOPE, [field]: `${ENVELOPE[field]}|x` };
      expect(envelopeSigningString(forged, 'acme.command.mode', '{}')).toBeUndefined();
    },
  );

  it('do not exist if the routing key contains the separator | [C-7.2]', () => {
    expect(envelopeSigningString(ENVELOPE, 'acme.command|mode', '{}')).toBeUndefined();
  });

  it('cover a payload that contains the separator | [C-7.2]', () => {
    expect(envelopeSigningString(ENVELOPE, 'acme.command.mode', '{"reason":"a|b"}')).toMatch(
      /\|\{"reason":"a\|b"\}$/,
    );
  });

  it.each([
    ['messageId', { messageId: '7f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11' }],
    ['correlationId', { correlationId: '' }],
    ['timestamp', { timestamp: '2026-01-15T10:00:00Z' }],
    ['source', { source: 'ACME-trader' }],
    ['siteId', { siteId: 'plant-1' }],
  ])('change with %s [C-7.2]', (_field, change) => {
    const routingKey = 'acme.command.device';
    expect(envelopeSigningString({ ...ENVELOPE, ...change }, routingKey, PAYLOAD)).not.toBe(
      envelopeSigningString(ENVELOPE, routingKey, PAYLOAD),
    );
  });
});

describe('device signatures', () => {
  const dataText = '{"10":5.0,"2":1e-05,"d\\u016fm \\u010d/powerKw":-3}';
  const nonce = '5f0c1a8e-9d2b-4c55-8a7e-1b2c3d4e5f60';
  const ts = 1768471200000;

  it('cover telemetry as Python prints it: floats, exponents, escapes and key order [C-3.7]', () => {
    const text = telemetrySigningString(DEVICE, ts, nonce, dataText);
    expect(text).toBe(`${DEVICE}|1768471200000|${nonce}|${dataText}`);
    expect(mac(text)).toBe('073a35fa60284d3cb030bf6cb6d2500d683363eb0617184ffb0ac735b3acef9f');
    expect(mac(text, Buffer.from(KEY, 'hex'))).toBe(
      '21d83d8942597e7572ed0989fa8fd6ad4d047e43d57194cc3959defd9cfb8bbc',
    );
  });

  it('match the same MAC if the whole message was sent with whitespace [C-3.7]', () => {
    const sent = dataText.replaceAll(',', ', ').replaceAll(':', ': ');
    const sig = '073a35fa60284d3cb030bf6cb6d2500d683363eb0617184ffb0ac735b3acef9f';
    const text = `{"ts": ${ts}, "nonce": "${nonce}", "data": ${sent}, "sig": "${sig}"}`;
    const message = parseDeviceMessage(DEVICE, 'telemetry', text);
    if (!message.ok) throw new Error(message.refusal);
    expect(mac(message.value.signingString)).toBe(message.value.sig);
  });

  it('cover the data without whitespace outside strings, even if the data was sent with it [C-3.7]', () => {
    const sent = dataText.replaceAll(',', ', ');
    expect(telemetrySigningString(DEVICE, ts, nonce, sent)).not.toContain(sent);
  });

  it('cover the status as a compact object [spec: Device MQTT]', () => {
    expect(statusSigningString(DEVICE, ts, 'n', 'MAINTENANCE')).toBe(
      `${DEVICE}|1768471200000|n|{"status":"MAINTENANCE"}`,
    );
  });

  it('cover a command with its compact payload [spec: Device MQTT]', () => {
    expect(commandSigningString(DEVICE, 'cmd-1', ts, 'REBOOT', '{ "delay": 5 }')).toBe(
      `${DEVICE}|cmd-1|1768471200000|REBOOT|{"delay":5}`,
    );
  });

  it('cover an acknowledgement without a nonce [spec: Device MQTT]', () => {
    expect(ackSigningString(DEVICE, 'cmd-1', ts, 'COMPLETED')).toBe(
      `${DEVICE}|cmd-1|1768471200000|COMPLETED`,
    );
  });
});

it('a signature is 64 lower-case hex characters and nothing else [C-7.2]', () => {
  expect(SIGNATURE.test('0123456789abcdef'.repeat(4))).toBe(true);
  for (const text of [
    'AB'.repeat(32),
    'a'.repeat(63),
    'a'.repeat(65),
    `${'a'.repeat(64)}\n`,
    'g'.repeat(64),
    '',
  ]) {
    expect(SIGNATURE.test(text)).toBe(false);
  }
});
