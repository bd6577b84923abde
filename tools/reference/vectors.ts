/**
 * Signature vectors for device makers and partners, as JSON: each message as it is sent, the text that is
 * signed, and the signature (for devices with both forms of the key). Difficult cases of JSON are included.
 * `npm run docs` writes docs/signature-vectors.json.
 */
import { createHmac } from 'node:crypto';
import {
  ackSigningString,
  commandSigningString,
  envelopeSigningString,
  renewalSigningString,
  type SignedEnvelopeFields,
  statusSigningString,
  telemetrySigningString,
} from '../../protocol/signing.ts';

const DEVICE = '3f2b8c1e-5d47-4a90-9b1a-6c0f2d7e4a11';
const SECRET = '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff';
const TS = 1_767_225_600_000;
const NONCE = '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11';
const CMD = '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10';

/** `data` of telemetry as it is sent. The signed text is the same without the whitespace outside strings. */
const DATA: Record<string, string> = {
  'one signal': '{"powerKw":5}',
  'a float as Python prints it': '{"powerKw":5.0}',
  'an exponent': '{"socPercent":1e-05}',
  'minus zero': '{"powerKw":-0}',
  'more digits than a double has': '{"importRegisterKwh":123456789.123456789012345678}',
  'keys that look like integers, in the order sent': '{"10":1,"9":2,"a":3}',
  'an escaped letter stays escaped': '{"\\u010derpadlo/powerKw":1}',
  'the same letter, not escaped': '{"čerpadlo/powerKw":1}',
  'whitespace outside strings is removed': '{ "BESS-1/powerKw": -2.5,\n  "BESS-1/socPercent": 61 }',
  'whitespace inside strings is kept': '{"hall 2/powerKw": 1}',
  nothing: '{}',
};
/** Payloads of commands. */
const PAYLOADS: Record<string, string> = {
  empty: '{}',
  'an escape': '{"note":"\\u010dek | \\"5\\""}',
  nested:
    '{"targets":[{"deviceId":"BESS-1","assetType":"BESS","params":{"powerKw":12.5}}],"validUntil":null}',
};

const ROUTING_KEY = 'acme.command.device';
const ENVELOPE: SignedEnvelopeFields = {
  version: '1.1',
  messageId: NONCE,
  correlationId: 'corr-42',
  timestamp: '2026-01-15T10:00:00.000Z',
  source: 'acme-trader',
  siteId: CMD,
};
/** Envelopes of partners: the fields that differ from `ENVELOPE`, and the payload as it is sent. */
const ENVELOPES: Record<string, [changes: Partial<SignedEnvelopeFields>, payload: string]> = {
  'a float as Python prints it': [{}, charge('5.0')],
  'a whole number': [{}, charge('5')],
  'whitespace outside strings is removed': [{}, charge('5.0').replaceAll(':', ': ').replaceAll(',', ',\n  ')],
  'without correlationId its field is empty': [{ correlationId: undefined }, charge('5.0')],
  'a messageId in upper case is signed as sent': [{ messageId: NONCE.toUpperCase() }, charge('5.0')],
  'a time zone offset is signed as sent': [{ timestamp: '2026-01-15T11:00:00.123456+01:00' }, charge('5.0')],
  'an escaped letter stays escaped': [{}, '{"type":"STOP","reason":"\\u010dek"}'],
  'the same letter, not escaped': [{}, '{"type":"STOP","reason":"ček"}'],
};

function charge(powerKw: string): string {
  return `{"commands":[{"deviceId":"BESS-1","assetType":"BESS","command":"BESS_CHARGE","params":{"powerKw":${powerKw}}}]}`;
}

export interface Vector {
  name: string;
  topic: string;
  /** The message as it is sent, signed with the text form of the key. */
  message: string;
  signed: string;
  /** The UTF-8 bytes of `signed`, in hex. */
  signedHex: string;
  /** Signature whose key is the secret's 64 hex characters. */
  sigByText: string;
  /** Signature whose key is the 32 bytes that they encode. */
  sigByBytes: string;
}

export function vectors() {
  return {
    deviceId: DEVICE,
    hmacSecret: SECRET,
    algorithm: 'HMAC-SHA256',
    vectors: [...all()],
    envelopes: {
      signingKey: SECRET,
      routingKey: ROUTING_KEY,
      vectors: Object.entries(ENVELOPES).map(envelope),
    },
  };
}

function envelope([name, [changes, payload]]: [string, (typeof ENVELOPES)[string]]) {
  const fields = { ...ENVELOPE, ...changes };
  const signed = envelopeSigningString(fields, ROUTING_KEY, payload) ?? '';
  const signature = createHmac('sha256', SECRET).update(signed).digest('hex');
  const message = `${JSON.stringify({ ...fields, signature }).slice(0, -1)},"payload":${payload}}`;
  return { name, message, signed, signedHex: Buffer.from(signed).toString('hex'), signature };
}

function* all(): Generator<Vector> {
  for (const [name, data] of Object.entries(DATA)) {
    const signed = telemetrySigningString(DEVICE, TS, NONCE, data);
    const message = (sig: string) => `{"ts":${TS},"nonce":"${NONCE}","data":${data},"sig":"${sig}"}`;
    yield vector(`telemetry: ${name}`, `cpi/${DEVICE}/telemetry`, signed, message);
  }
  for (const status of ['ONLINE', 'MAINTENANCE'] as const) {
    const message = (sig: string) => `{"ts":${TS},"nonce":"${NONCE}","status":"${status}","sig":"${sig}"}`;
    const signed = statusSigningString(DEVICE, TS, NONCE, status);
    yield vector(`status: ${status}`, `cpi/${DEVICE}/status`, signed, message);
  }
  for (const [name, payload] of Object.entries(PAYLOADS)) {
    const signed = commandSigningString(DEVICE, CMD, TS, 'REBOOT', payload);
    const message = (sig: string) =>
      `{"cmdId":"${CMD}","ts":${TS},"action":"REBOOT","payload":${payload},"sig":"${sig}"}`;
    yield vector(`command: ${name}`, `cpi/${DEVICE}/commands`, signed, message);
  }
  for (const status of ['RECEIVED', 'COMPLETED'] as const) {
    const message = (sig: string) => `{"cmdId":"${CMD}","status":"${status}","ts":${TS},"sig":"${sig}"}`;
    yield vector(`ack: ${status}`, `cpi/${DEVICE}/ack`, ackSigningString(DEVICE, CMD, TS, status), message);
  }
  const renewal = (sig: string) => `{"ts":${TS},"nonce":"${NONCE}","sig":"${sig}"}`;
  const path = `POST /api/v1/devices/${DEVICE}/mqtt-token/renew`;
  yield vector('renewal of a token', path, renewalSigningString(DEVICE, TS, NONCE), renewal);
}

function vector(name: string, topic: string, signed: string, message: (sig: string) => string): Vector {
  const sign = (key: string | Buffer) => createHmac('sha256', key).update(signed).digest('hex');
  const sigByText = sign(SECRET);
  return {
    name,
    topic,
    message: message(sigByText),
    signed,
    signedHex: Buffer.from(signed).toString('hex'),
    sigByText,
    sigByBytes: sign(Buffer.from(SECRET, 'hex')),
  };
}
