/**
 * Explains to device developers why a message was dropped [C-3.8]. Pure. Tests for common mistakes after the
 * message was rejected: seconds instead of milliseconds, upper-case hex, JSON signed with its whitespace.
 */
import { sliceMembers } from '../../../protocol/compact-json.ts';
import { cut } from '../../../protocol/cut.ts';
import type { DeviceMessage } from '../../../protocol/device-message.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { DEVICE_PUBLISH_TOPICS, deviceTopic } from '../../../protocol/topics.ts';

/** Maximum length of a stored text; a message may be a hundred times longer. */
const MAX_CHARS = 1_024;

/** The `sig` member with one adjacent comma, wherever it is in the message. */
const SIGNATURE_MEMBER = /,\s*"sig"\s*:\s*"[^"]*"|"sig"\s*:\s*"[^"]*"\s*,?\s*/;

export interface Explanation {
  detail: string;
  /** The text that should have been signed; contains no key. */
  expected?: string;
}

/** Lists each fault of a message, with a hint for the common mistakes. */
export function explainMalformed(refusal: string, payload: string): Explanation {
  const isUpperHex = /"sig"\s*:\s*"[0-9a-fA-F]{64}"/.test(payload);
  const isQuoted = /"ts"\s*:\s*"/.test(payload);
  const faults = refusal.split('; ').map((fault) => {
    if (isUpperHex && fault.startsWith('sig:'))
      return 'sig: upper-case hex; it must be 64 lower-case hex characters';
    if (isQuoted && fault.startsWith('ts:')) return 'ts: text; it must be an integer, without quotes';
    return fault;
  });
  return { detail: cut(faults.join('; '), MAX_CHARS) };
}

export function explainTimestamp(ts: number, now: number): Explanation {
  const isNear = (ms: number) => Math.abs(now - ms) <= LIMIT.timestampToleranceMs;
  if (isNear(ts * 1_000)) return { detail: `ts ${ts} is in seconds; it must be in milliseconds` };
  if (isNear(ts / 1_000)) return { detail: `ts ${ts} is in microseconds; it must be in milliseconds` };
  const seconds = Math.abs(now - ts) / 1_000;
  const side = ts < now ? 'behind' : 'ahead of';
  return {
    detail: `ts ${ts} is ${seconds} s ${side} the platform's clock; ${LIMIT.timestampToleranceMs / 1_000} s are allowed`,
  };
}

/** `act`: the operation that the client tried on the topic, publish or subscribe. */
export function explainTopic(
  { topic, act }: { topic: string; act: 'publish' | 'subscribe' },
  deviceId: string,
): Explanation {
  const own =
    act === 'publish'
      ? DEVICE_PUBLISH_TOPICS.map((name) => deviceTopic(deviceId, name)).join(', ')
      : deviceTopic(deviceId, 'commands');
  const detail = `${act} to ${JSON.stringify(topic)}: this device may only ${act} to ${own}`;
  return { detail: cut(detail, MAX_CHARS) };
}

/** `at`: the offset of the first wrong byte. */
export function explainEncoding(at: number): Explanation {
  return { detail: `not UTF-8: byte ${at}, counted from 0, is wrong; encode the JSON as UTF-8` };
}

/** The topic of such a packet is not known, because it is not read. */
export function explainSize(bytes: number): Explanation {
  const detail = `an MQTT packet of ${bytes} bytes; at most ${LIMIT.mqttPacketBytes} are allowed: send fewer readings at once`;
  return { detail };
}

export function explainNonce(nonce: string): Explanation {
  const detail = `nonce ${JSON.stringify(nonce)} was used before; each message or token request needs its own`;
  return { detail: cut(detail, MAX_CHARS) };
}

/** `matches`: whether the message's signature is valid for a text with any key of the device. */
export function explainSignature(
  message: DeviceMessage,
  payload: string,
  matches: (text: string) => boolean,
): Explanation {
  const { signingString } = message;
  const expected = cut(signingString, MAX_CHARS);
  for (const [text, detail] of likelyMistakes(message, payload)) {
    if (text !== signingString && matches(text)) return { detail, expected };
  }
  return {
    detail: 'sig is not the HMAC-SHA256 of what should have been signed, with any secret of this device',
    expected,
  };
}

/** Texts that the device may have signed by mistake, each with its explanation. */
function* likelyMistakes(message: DeviceMessage, payload: string): Generator<[text: string, detail: string]> {
  const { signingString } = message;
  const [deviceId = ''] = signingString.split('|', 1);
  const rest = signingString.slice(deviceId.length + 1);
  if (message.topic === 'telemetry') {
    const head = signingString.slice(0, signingString.length - message.dataText.length);
    const raw = rawData(payload);
    if (raw !== undefined)
      yield [`${head}${raw}`, 'data was signed with its whitespace; it is signed as compact JSON'];
    yield [
      `${head}${JSON.stringify(message.data)}`,
      'the signed data differs from the data that was sent: sign exactly the text that you send, without whitespace',
    ];
    yield [
      `${head}${JSON.stringify(sorted(message.data))}`,
      'data was signed with its keys sorted, and sent in another order',
    ];
  }
  if (message.topic === 'status') {
    const head = signingString.slice(0, signingString.lastIndexOf('|') + 1);
    yield [
      `${head}${message.status}`,
      'the bare status was signed; what is signed is {"status":"…"} as compact JSON',
    ];
    yield [
      `${head}{"status": "${message.status}"}`,
      'the status was signed with a space; it is signed as compact JSON',
    ];
  }
  yield [rest, 'the device id is missing from what was signed'];
  yield [
    `${deviceId.toUpperCase()}|${rest}`,
    'the device id was signed in upper case; it is signed in lower case',
  ];
  yield [payload.replace(SIGNATURE_MEMBER, ''), 'the whole message was signed'];
}

/** `data` exactly as it was sent, including whitespace. */
function rawData(payload: string): string | undefined {
  const members = sliceMembers(payload);
  return members.ok ? members.value.get('data') : undefined;
}

function sorted(data: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(data).sort(([left], [right]) => (left < right ? -1 : 1)));
}
