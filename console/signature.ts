/** Checks the signature of a message as its receiver does: nothing leaves the browser. */
import { compact, sliceMembers } from '../protocol/compact-json.ts';
import { envelopeSigningString } from '../protocol/signing.ts';
import { T } from './texts.ts';

export type Checked =
  /** `why`: what is wrong with the text. */
  | { verdict: 'unreadable'; why: string }
  /** `signed`: the text that the signature covers. */
  | { verdict: 'missing' | 'unsignable'; signed?: string }
  | { verdict: 'valid' | 'mismatch'; signed: string; expected: string };

/** The version of the messages; `protocol/envelope.ts` would bring the whole schema library with it. */
const VERSION = '1.1';
const FIELDS = ['version', 'messageId', 'timestamp', 'source', 'siteId'] as const;

/** `text`: an event or a command, or what a webhook posts; `key`: the signing key of the API key. */
export async function checkSignature(text: string, routingKey: string, key: string): Promise<Checked> {
  const members = sliceMembers(text.trim());
  if (!members.ok) return { verdict: 'unreadable', why: members.refusal };
  const data = members.value.get('data');
  // A webhook posts the event inside an object of its own.
  if (data !== undefined && !members.value.has('payload')) return await checkSignature(data, routingKey, key);
  const fields = new Map<string, unknown>(
    [...members.value].filter(([name]) => name !== 'payload').map(([name, raw]) => [name, JSON.parse(raw)]),
  );
  const payload = members.value.get('payload');
  const missing = FIELDS.filter((name) => typeof fields.get(name) !== 'string');
  if (payload === undefined || missing.length > 0)
    return {
      verdict: 'unreadable',
      why: T.signature.lacks([...missing, ...(payload === undefined ? ['payload'] : [])].join(', ')),
    };
  const field = (name: (typeof FIELDS)[number]) => String(fields.get(name));
  const correlationId = fields.get('correlationId');
  const envelope = {
    ...{ version: field('version'), messageId: field('messageId'), timestamp: field('timestamp') },
    ...{ source: field('source'), siteId: field('siteId') },
    ...(typeof correlationId === 'string' ? { correlationId } : {}),
  };
  const signed = envelopeSigningString(envelope, routingKey, compact(payload));
  if (signed === undefined) return { verdict: 'unsignable' };
  const given = fields.get('signature');
  if (typeof given !== 'string') return { verdict: 'missing', signed };
  const expected = await hmacHex(key, signed);
  return { verdict: given === expected ? 'valid' : 'mismatch', signed, expected };
}

/** The text that a command's signature covers, as it follows from the record of the command. */
export function signedTextOf({
  timestamp,
  routingKey,
  payload,
  ...fields
}: {
  messageId: string;
  correlationId: string | null;
  timestamp: string;
  source: string;
  siteId: string;
  routingKey: string;
  payload: unknown;
}): string | undefined {
  const { correlationId, ...rest } = fields;
  const envelope = {
    ...{ version: VERSION, timestamp, ...rest },
    ...(correlationId === null ? {} : { correlationId }),
  };
  return envelopeSigningString(envelope, routingKey, JSON.stringify(payload));
}

async function hmacHex(key: string, text: string): Promise<string> {
  const bytes = (one: string) => new TextEncoder().encode(one);
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  const imported = await crypto.subtle.importKey('raw', bytes(key), algorithm, false, ['sign']);
  const signature = new Uint8Array(await crypto.subtle.sign('HMAC', imported, bytes(text)));
  return [...signature].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
