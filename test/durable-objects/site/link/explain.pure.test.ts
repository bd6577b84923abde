/**
 * Explanations of dropped messages for the maker of the device [C-3.8]: they name the mistake and reveal no
 * key.
 */
import { describe, expect, it } from 'vitest';
import { hmacHex, verifyHmac } from '../../../../durable-objects/secrets/hmac.ts';
import {
  type Explanation,
  explainMalformed,
  explainNonce,
  explainSignature,
  explainTimestamp,
  explainTopic,
} from '../../../../durable-objects/site/link/explain.ts';
import { signableJson } from '../../../../protocol/compact-json.ts';
import { parseDeviceMessage } from '../../../../protocol/device-message.ts';
import type { DevicePublishTopic } from '../../../../protocol/topics.ts';

const DEVICE_ID = '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11';
const KEY = '5a'.repeat(32);
const NOW = Date.parse('2030-03-05T09:00:00.000Z');
const NONCE = 'n-1';
const MOST_CHARS = 1_100;
const SIG = 'ab'.repeat(32);

/** The explanation of a payload that the parser rejects. */
function malformed(payload: string, topic: DevicePublishTopic = 'telemetry'): Explanation {
  const parsed = parseDeviceMessage(DEVICE_ID, topic, payload);
  if (parsed.ok) throw new Error('it is well formed');
  return explainMalformed(parsed.refusal, payload);
}

/** The explanation of a payload whose signature is wrong. */
function mismatch(payload: string, topic: DevicePublishTopic): Explanation {
  const parsed = parseDeviceMessage(DEVICE_ID, topic, payload);
  if (!parsed.ok) throw new Error(parsed.refusal);
  const message = parsed.value;
  if (verifyHmac(KEY, message.signingString, message.sig)) throw new Error('the signature holds');
  return explainSignature(message, payload, (text) => verifyHmac(KEY, text, message.sig));
}

/** Telemetry whose signature covers the given text. */
function telemetry(signed: string, dataText = '{"a":1}'): Explanation {
  const sig = hmacHex(KEY, signed);
  return mismatch(`{"ts":${NOW},"nonce":"${NONCE}","data":${dataText},"sig":"${sig}"}`, 'telemetry');
}

function status(signed: string): Explanation {
  const sig = hmacHex(KEY, signed);
  return mismatch(`{"ts":${NOW},"nonce":"${NONCE}","status":"ONLINE","sig":"${sig}"}`, 'status');
}

function acknowledgement(signed: string): Explanation {
  const sig = hmacHex(KEY, signed);
  return mismatch(`{"cmdId":"c-1","status":"RECEIVED","ts":${NOW},"sig":"${sig}"}`, 'ack');
}

const HEAD = `${DEVICE_ID}|${NOW}|${NONCE}|`;
const BARE = `${NOW}|${NONCE}|`;

describe('a malformed message', () => {
  it.each([
    ['in upper case', 'AB'.repeat(32)],
    ['in both cases', 'Ab'.repeat(32)],
  ])('a signature in hex %s is explained as upper-case hex', (_title, sig) => {
    const { detail } = malformed(`{"ts":${NOW},"nonce":"n","data":{"a":1},"sig": "${sig}"}`);
    expect(detail).toBe('sig: upper-case hex; it must be 64 lower-case hex characters');
  });

  it.each(['AB'.repeat(31), 'AB'.repeat(33), 'xyz', ''])(
    'a signature %j is explained with the required form',
    (sig) => {
      const { detail } = malformed(`{"ts":${NOW},"nonce":"n","data":{"a":1},"sig":"${sig}"}`);
      expect(detail).toBe('sig: must be 64 lower-case hex characters');
    },
  );

  it('a ts that is text is explained as text', () => {
    const { detail } = malformed(`{"ts": "${NOW}","nonce":"n","data":{"a":1},"sig":"${SIG}"}`);
    expect(detail).toBe('ts: text; it must be an integer, without quotes');
  });

  it.each(['1.0', '1e12', 'true'])('a ts of %s is explained as not an integer', (ts) => {
    const { detail } = malformed(`{"ts":${ts},"nonce":"n","data":{"a":1},"sig":"${SIG}"}`);
    expect(detail).toBe('ts: must be an integer');
  });

  it.each<[string, DevicePublishTopic, string, RegExp]>([
    ['no JSON', 'telemetry', 'hello', /^not JSON$/],
    ['no nonce', 'telemetry', `{"ts":1,"data":{},"sig":"${SIG}"}`, /^nonce: /],
    [
      'a value that is text',
      'telemetry',
      `{"ts":1,"nonce":"n","data":{"a":"1"},"sig":"${SIG}"}`,
      /^data.*a.*: /,
    ],
    ['another status', 'status', `{"ts":1,"nonce":"n","status":"on","sig":"${SIG}"}`, /^status: /],
    ['no cmdId', 'ack', `{"ts":1,"status":"RECEIVED","sig":"${SIG}"}`, /^cmdId: /],
    [
      'several errors',
      'telemetry',
      `{"ts":"1","data":{"a":"1"},"sig":"${SIG.toUpperCase()}"}`,
      /^ts: text; it must be an integer, without quotes; nonce: [^;]*; data.a: [^;]*; sig: upper-case hex; it must be 64 lower-case hex characters$/,
    ],
  ])(
    '(%s) is explained with the names of its wrong members, if it is JSON',
    (_title, topic, payload, expected) => {
      expect(malformed(payload, topic)).toEqual({ detail: expect.stringMatching(expected) });
    },
  );
});

describe('a timestamp outside the tolerance', () => {
  it.each([-300, 0, 300])('a ts in seconds, %d s off, is explained as seconds', (offSeconds) => {
    const ts = NOW / 1_000 + offSeconds;
    expect(explainTimestamp(ts, NOW)).toEqual({
      detail: `ts ${ts} is in seconds; it must be in milliseconds`,
    });
  });

  it.each([-300, 0, 300])('a ts in microseconds, %d s off, is explained as microseconds', (offSeconds) => {
    const ts = (NOW + offSeconds * 1_000) * 1_000;
    expect(explainTimestamp(ts, NOW)).toEqual({
      detail: `ts ${ts} is in microseconds; it must be in milliseconds`,
    });
  });

  it.each([
    [-301_000, "301 s behind the platform's clock"],
    [-300_500, "300.5 s behind the platform's clock"],
    [300_001, "300.001 s ahead of the platform's clock"],
    [3_600_000, "3600 s ahead of the platform's clock"],
  ])('a ts %d ms off is explained with the difference', (offMs, words) => {
    const { detail } = explainTimestamp(NOW + offMs, NOW);
    expect(detail).toBe(`ts ${NOW + offMs} is ${words}; 300 s are allowed`);
  });

  it.each([0, -1, 9_007_199_254_740_991])(
    "a ts of %d is explained with its difference to the platform's clock",
    (ts) => {
      expect(explainTimestamp(ts, NOW).detail).toMatch(/ s (behind|ahead of) the platform's clock; 300 s/);
    },
  );
});

describe('a topic of another device', () => {
  it('a publish to a wrong topic is explained with the topics that the device may publish to', () => {
    const own = ['telemetry', 'status', 'ack'].map((name) => `cpi/${DEVICE_ID}/${name}`).join(', ');
    expect(explainTopic({ topic: 'a"b', act: 'publish' }, DEVICE_ID)).toEqual({
      detail: `publish to "a\\"b": this device may only publish to ${own}`,
    });
  });

  it('a subscription to a wrong topic is explained with the topic that the device may subscribe to', () => {
    expect(explainTopic({ topic: '#', act: 'subscribe' }, DEVICE_ID).detail).toBe(
      `subscribe to "#": this device may only subscribe to cpi/${DEVICE_ID}/commands`,
    );
  });
});

describe('a used nonce', () => {
  it('is named in its explanation', () => {
    expect(explainNonce('n-1').detail).toMatch(/^nonce "n-1" was used before; each message/);
  });
});

describe('a wrong signature', () => {
  it.each<[string, Explanation, RegExp]>([
    [
      'data with its spaces',
      telemetry(`${HEAD}{"a": 1}`, '{"a": 1}'),
      /^data was signed with its whitespace/,
    ],
    [
      'data printed again',
      telemetry(`${HEAD}{"a":5}`, '{"a":5.0}'),
      /^the signed data differs from the data that was sent/,
    ],
    [
      'data with its keys sorted',
      telemetry(`${HEAD}{"a":1,"b":2}`, '{"b":2,"a":1}'),
      /^data was signed with its keys sorted/,
    ],
    ['no device id', telemetry(`${BARE}{"a":1}`), /^the device id is missing/],
    [
      'the device id in upper case',
      telemetry(`${DEVICE_ID.toUpperCase()}|${BARE}{"a":1}`),
      /^the device id was signed in upper case/,
    ],
    ['the bare status', status(`${HEAD}ONLINE`), /^the bare status was signed/],
    ['the status with a space', status(`${HEAD}{"status": "ONLINE"}`), /^the status was signed with a space/],
    ['a status without its device id', status(`${BARE}{"status":"ONLINE"}`), /^the device id is missing/],
    ['an ack without its device id', acknowledgement(`c-1|${NOW}|RECEIVED`), /^the device id is missing/],
    [
      'an ack with its device id in upper case',
      acknowledgement(`${DEVICE_ID.toUpperCase()}|c-1|${NOW}|RECEIVED`),
      /^the device id was signed in upper case/,
    ],
    [
      'anything else',
      telemetry('something else'),
      /^sig is not the HMAC-SHA256 of what should have been signed/,
    ],
    ['another nonce', telemetry(`${DEVICE_ID}|${NOW}|n-2|{"a":1}`), /^sig is not the HMAC-SHA256/],
  ])(
    'is explained by the mistake in the signed text, if it is a known mistake: %s',
    (_title, { detail, expected }, words) => {
      expect(detail).toMatch(words);
      expect(expected).toMatch(new RegExp(`^${DEVICE_ID}\\|`));
      expect(`${detail}${expected}`).not.toContain(KEY);
    },
  );

  it('the expected text in the explanation is the text that the signature check uses', () => {
    const { expected = '' } = telemetry('something else', '{ "a" : 5.0 }');
    expect(expected).toBe(`${HEAD}{"a":5.0}`);
    expect(status('something else').expected).toBe(`${HEAD}${signableJson({ status: 'ONLINE' })}`);
    expect(acknowledgement('something else').expected).toBe(`${DEVICE_ID}|c-1|${NOW}|RECEIVED`);
  });

  describe('a wrong signature over the whole message without its sig', () => {
    const WHOLE: [DevicePublishTopic, string[]][] = [
      ['telemetry', [`"ts":${NOW}`, `"nonce":"${NONCE}"`, '"data":{"a":1}']],
      ['status', [`"ts":${NOW}`, `"nonce":"${NONCE}"`, '"status":"ONLINE"']],
      ['ack', ['"cmdId":"c-1"', '"status":"RECEIVED"', `"ts":${NOW}`]],
    ];
    const PLACES = [3, 2, 1, 0].flatMap((place) => WHOLE.map((one) => [...one, place] as const));

    it.each(PLACES)(
      'a signature over a whole %s message with the members %j, and sig after %i of them, is explained as such',
      (topic, members, place) => {
        const sig = `"sig":"${hmacHex(KEY, `{${members.join(',')}}`)}"`;
        const payload = `{${members.toSpliced(place, 0, sig).join(',')}}`;
        const { detail, expected } = mismatch(payload, topic);
        expect(detail).toBe('the whole message was signed');
        expect(expected).toMatch(new RegExp(`^${DEVICE_ID}\\|`));
      },
    );
  });

  it('by a foreign key is explained as not made with any secret of this device', () => {
    const sig = hmacHex('00'.repeat(32), `${HEAD}{"a":1}`);
    const payload = `{"ts":${NOW},"nonce":"${NONCE}","data":{"a":1},"sig":"${sig}"}`;
    expect(mismatch(payload, 'telemetry').detail).toMatch(/with any secret of this device$/);
  });
});

describe('the length of an explanation', () => {
  const long = 'x'.repeat(100_000);

  it.each<[string, () => Explanation]>([
    ['a malformed message', () => explainMalformed(`nonce: ${long}`, long)],
    ['a topic', () => explainTopic({ topic: long, act: 'publish' }, DEVICE_ID)],
    ['a nonce', () => explainNonce(long)],
    ['a signature', () => telemetry('something else', `{"${long.slice(0, 100)}":1,${manySignals()}}`)],
    [
      'a refusal that names a member',
      () => malformed(`{"ts":1,"nonce":"n","data":{"${long}":1},"sig":"${SIG}"}`),
    ],
  ])('the explanation of %s is never longer than about a thousand characters', (_title, explain) => {
    const { detail, expected = '' } = explain();
    expect(detail.length).toBeLessThanOrEqual(MOST_CHARS);
    expect(expected.length).toBeLessThanOrEqual(MOST_CHARS);
  });
});

function manySignals(): string {
  return Array.from({ length: 500 }, (_none, index) => `"signal-${index}":${index}`).join(',');
}
