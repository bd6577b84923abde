/**
 * Device messages: a malformed one is dropped without an answer; an unusual one is kept and signed as sent.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import { commandMessage, parseDeviceMessage } from '../../protocol/device-message.ts';
import { DEVICE_ACK_STATUSES, DEVICE_REPORTED_STATUSES } from '../../protocol/enums.ts';
import { commandSigningString } from '../../protocol/signing.ts';
import { DEVICE_PUBLISH_TOPICS, type DevicePublishTopic } from '../../protocol/topics.ts';

const DEVICE = '3f2b8c1e-7a44-4d0e-9b61-5c1f0e2d3a4b';
const SIG = 'ab'.repeat(32);
const TS = '1768471200000';

function telemetry(fields: { ts?: string; nonce?: string; data?: string; sig?: string }) {
  const { ts = TS, nonce = '"n"', data = '{"powerKw":5.0}', sig = `"${SIG}"` } = fields;
  return parseDeviceMessage(DEVICE, 'telemetry', `{"ts":${ts},"nonce":${nonce},"data":${data},"sig":${sig}}`);
}

function accepted(topic: DevicePublishTopic, text: string) {
  const message = parseDeviceMessage(DEVICE, topic, text);
  if (!message.ok) throw new Error(message.refusal);
  return message.value;
}

const refusedFor = (field: string) => ({
  ok: false,
  refusal: expect.stringMatching(new RegExp(`^${field}`)),
});

describe('telemetry', () => {
  it.each([
    ['a float as Python prints it', '{"a":5.0}', { a: 5 }],
    ['an exponent as Python prints it', '{"a":1e-05}', { a: 1e-5 }],
    ['an escaped name', '{"\\u010d":1}', { č: 1 }],
    ['-0', '{"a":-0}', { a: -0 }],
    ['more digits than a number holds', '{"a":123456789012.12345678}', { a: 123456789012.12346 }],
    ['integer-like names', '{"10":1,"2":2}', { '2': 2, '10': 1 }],
    ['a sub-device signal', '{"BESS-1/socPercent":50}', { 'BESS-1/socPercent': 50 }],
    [
      'a name of 128 characters outside the basic plane',
      `{"${'🔋'.repeat(128)}":1}`,
      { ['🔋'.repeat(128)]: 1 },
    ],
    ['values at the bounds', '{"a":1e12,"b":-1e12}', { a: 1e12, b: -1e12 }],
    ['no signals', '{}', {}],
  ])(
    'keeps its values with %s, and the signed text contains the data as it was sent [C-3.7]',
    (_title, data, expected) => {
      const message = telemetry({ data });
      expect(message).toMatchObject({
        ok: true,
        value: { dataText: data, data: expected, signingString: `${DEVICE}|${TS}|n|${data}` },
      });
    },
  );

  it('is signed without whitespace outside strings, and of a repeated signal has the last value [C-3.7]', () => {
    expect(telemetry({ data: '{ "a b" : 1 ,\n"a b" : 2.0 }' })).toMatchObject({
      ok: true,
      value: { dataText: '{"a b":1,"a b":2.0}', data: { 'a b': 2 } },
    });
  });

  it.each(['"1768471200000"', '1768471200000.0', '1.7e12', 'null', 'true', '12345678901234567', '[1]'])(
    'is dropped if its ts is %s [spec: Device MQTT messages]',
    (ts) => {
      expect(telemetry({ ts })).toEqual({ ok: false, refusal: 'ts: must be an integer' });
    },
  );

  it.each([
    ['one byte', 'n', true],
    ['128 bytes', 'n'.repeat(128), true],
    ['128 bytes in 32 characters', '😀'.repeat(32), true],
    ['no bytes', '', false],
    ['129 bytes', 'n'.repeat(129), false],
    ['130 bytes in 65 characters', 'č'.repeat(65), false],
    ['132 bytes in 44 characters', '€'.repeat(44), false],
    ['129 bytes in 33 characters', `${'😀'.repeat(32)}n`, false],
  ])('is accepted with a nonce of %s: $2 [C-3.8]', (_title, nonce, fits) => {
    expect(telemetry({ nonce: JSON.stringify(nonce) }).ok).toBe(fits);
  });

  it.each(['5', 'null', '["n"]'])('is dropped if its nonce is %s [spec: Device MQTT messages]', (nonce) => {
    expect(telemetry({ nonce })).toMatchObject(refusedFor('nonce'));
  });

  it.each(['ab'.repeat(32).toUpperCase(), 'a'.repeat(63), 'a'.repeat(65), ''])(
    'is dropped if its sig is %j [spec: Device MQTT]',
    (sig) => {
      expect(telemetry({ sig: JSON.stringify(sig) })).toMatchObject(refusedFor('sig'));
    },
  );

  it.each([
    '[1]',
    'null',
    '"x"',
    '5',
    '{"a":"1"}',
    '{"a":null}',
    '{"a":true}',
    '{"a":{}}',
    '{"a":1e400}',
    '{"":1}',
    `{"${'s'.repeat(129)}":1}`,
    '{"a\\u0000b":1}',
    '{"a\\nb":1}',
    '{"\\u200e":1}',
    '{"\\ud800":1}',
    '{"a":1.000001e12}',
    '{"a":-1e13}',
    '{"a":9007199254740993}',
  ])('is dropped if its data is $0 [spec: Device MQTT messages]', (data) => {
    expect(telemetry({ data })).toMatchObject(refusedFor('data'));
  });

  it('is accepted with 1 000 signals and dropped with 1 001 [C-3.13]', () => {
    const data = (count: number) =>
      JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, i) => [`s${i}`, i])));
    expect(telemetry({ data: data(1_000) }).ok).toBe(true);
    expect(telemetry({ data: data(1_001) })).toMatchObject(refusedFor('data'));
  });

  it('loses the signal __proto__, which has no effect, and keeps constructor as an ordinary signal [C-3.7]', () => {
    const message = telemetry({ data: '{"__proto__":{"polluted":1},"constructor":2}' });
    if (!message.ok || message.value.topic !== 'telemetry') throw new Error('refused');
    expect(Object.entries(message.value.data)).toEqual([['constructor', 2]]);
    expect(Object.getPrototypeOf(message.value.data)).toBe(Object.prototype);
    expect('polluted' in {}).toBe(false);
  });

  it('is dropped if its data is nested ten thousand levels deep [C-3.7]', () => {
    expect(telemetry({ data: `{"a":${'['.repeat(10_000)}${']'.repeat(10_000)}}` })).toMatchObject(
      refusedFor('data'),
    );
  });
});

describe('status', () => {
  it.each(DEVICE_REPORTED_STATUSES)(
    'is accepted with the status %s, and its signed text contains that status [spec: Device MQTT messages]',
    (status) => {
      const message = accepted('status', `{"ts":${TS},"nonce":"n","status":"${status}","sig":"${SIG}"}`);
      expect(message.signingString).toBe(`${DEVICE}|${TS}|n|{"status":"${status}"}`);
    },
  );

  it.each(['"UNKNOWN"', '"online"', 'null', '1', '"constructor"'])(
    'is dropped if its status is %s [spec: Device MQTT messages]',
    (status) => {
      const text = `{"ts":${TS},"nonce":"n","status":${status},"sig":"${SIG}"}`;
      expect(parseDeviceMessage(DEVICE, 'status', text)).toMatchObject(refusedFor('status'));
    },
  );
});

describe('ack', () => {
  it.each(DEVICE_ACK_STATUSES)('is accepted with the status %s without a nonce [C-3.9]', (status) => {
    const message = accepted('ack', `{"cmdId":"c-1","status":"${status}","ts":${TS},"sig":"${SIG}"}`);
    expect(message).toEqual({
      topic: 'ack',
      cmdId: 'c-1',
      status,
      ts: Number(TS),
      sig: SIG,
      signingString: `${DEVICE}|c-1|${TS}|${status}`,
    });
  });

  it.each(['""', `"${'c'.repeat(65)}"`, '7', 'null'])(
    'is dropped if its cmdId is $0 [spec: Device MQTT messages]',
    (cmdId) => {
      const text = `{"cmdId":${cmdId},"status":"FAILED","ts":${TS},"sig":"${SIG}"}`;
      expect(parseDeviceMessage(DEVICE, 'ack', text)).toMatchObject(refusedFor('cmdId'));
    },
  );
});

describe.each(DEVICE_PUBLISH_TOPICS)('any %s message', (topic) => {
  it.each([
    ['a repeated key', `{"ts":1,"sig":"${SIG}","ts":2}`, 'repeated key "ts"'],
    ['an escaped key', `{"\\u0074s":1,"sig":"${SIG}"}`, 'escaped top-level key'],
    ['text that is not JSON', 'ts=1', 'not JSON'],
    ['empty text', '', 'not JSON'],
    ['an array', '[]', 'not a JSON object'],
  ])('is dropped for %s [C-3.7]', (_title, text, reason) => {
    expect(parseDeviceMessage(DEVICE, topic, text)).toEqual({ ok: false, refusal: reason });
  });

  it('is dropped without its required fields, even when a __proto__ has them [C-3.7]', () => {
    const inherited = `{"__proto__":{"ts":1,"nonce":"n","data":{},"status":"ONLINE","cmdId":"c","sig":"${SIG}"}}`;
    expect(parseDeviceMessage(DEVICE, topic, '{}').ok).toBe(false);
    expect(parseDeviceMessage(DEVICE, topic, inherited).ok).toBe(false);
  });

  it('is parsed into a Result without an exception, whatever its text is [C-3.7]', () => {
    forAll(fc.oneof(fc.string(), fc.json()), (text) =>
      expect(typeof parseDeviceMessage(DEVICE, topic, text).ok).toBe('boolean'),
    );
  });
});

describe('commandMessage', () => {
  it('sends exactly the payload text that it signs [C-3.7]', () => {
    const payloadText = '{"powerKw":5.0,"10":1,"2":2}';
    const text = commandMessage({ cmdId: 'c-1', ts: 17, action: 'REBOOT', payloadText, sig: SIG });
    expect(text).toBe(`{"cmdId":"c-1","ts":17,"action":"REBOOT","payload":${payloadText},"sig":"${SIG}"}`);
    expect(commandSigningString(DEVICE, 'c-1', 17, 'REBOOT', payloadText)).toContain(payloadText);
  });

  it('escapes quotation marks and non-ASCII characters in its fields [C-3.7]', () => {
    const text = commandMessage({ cmdId: '","x":"č', ts: 17, action: 'A"', payloadText: '{}', sig: SIG });
    expect(JSON.parse(text)).toEqual({ cmdId: '","x":"č', ts: 17, action: 'A"', payload: {}, sig: SIG });
    expect(text).toMatch(/^[\x20-\x7e]*$/);
  });
});
