/**
 * Envelopes: a malformed one is dead-lettered without an acknowledgement, so the difference between malformed
 * and wrong matters.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import { parseEnvelope } from '../../protocol/envelope.ts';
import { envelopeSigningString } from '../../protocol/signing.ts';

const FIELDS = {
  version: '1.1',
  messageId: '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11',
  correlationId: 'corr-42',
  timestamp: '2026-01-15T10:00:00.000Z',
  source: 'acme-trader',
  siteId: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10',
  payload: { mode: 'STANDARD' },
};

/** What could forge a line of a log, control a terminal or change how the text around it is shown [C-1.0], [C-15.2]. */
const UNSAFE = [
  '\0',
  'a\nb',
  'a\r',
  '\t',
  '\u001b[2J',
  '\u007f',
  '\u0085',
  'a\ud800',
  '\udc00',
  '\u202ea',
  '\u2066a',
];

function read(change: Record<string, unknown>) {
  return parseEnvelope(JSON.stringify({ ...FIELDS, ...change }));
}

function accepted(change: Record<string, unknown>) {
  const envelope = read(change);
  if (!envelope.ok) throw new Error(envelope.refusal);
  return envelope.value;
}

describe('parseEnvelope', () => {
  it('reads every field and keeps the payload as text [C-7.1]', () => {
    const { payload: _payload, ...fields } = FIELDS;
    expect(accepted({ signature: 'ab'.repeat(32) })).toEqual({
      ...fields,
      signature: 'ab'.repeat(32),
      messageIdText: FIELDS.messageId,
      payloadText: '{"mode":"STANDARD"}',
    });
  });

  it.each(['1.0', '1.1', '1.27'])('accepts version %s [C-7.1]', (version) => {
    expect(read({ version }).ok).toBe(true);
  });

  const INVALID: Record<string, unknown[]> = {
    version: ['2.0', '1', '1.', '1.x', '01.1', '1.1.1', '1.1\n', '', 1.1, null, undefined],
    messageId: [undefined, 'not-a-uuid', '{6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11}'],
    timestamp: [undefined, '2026-01-15T10:00:00', '2026-02-30T10:00:00Z', 1768471200000],
    source: [undefined, 7, 's'.repeat(257), ...UNSAFE],
    siteId: [undefined, '', 's'.repeat(65)],
    correlationId: [42, 'c'.repeat(257), ...UNSAFE],
    payload: [undefined, null, [], '{}', 5],
  };

  it.each(
    Object.entries(INVALID).flatMap(([field, values]) => values.map((value) => [field, value] as const)),
  )('refuses %s = %j and names the field [C-7.1]', (field, value) => {
    expect(read({ [field]: value })).toMatchObject({
      ok: false,
      refusal: expect.stringMatching(new RegExp(`^${field}: `)),
    });
  });

  it.each(["'", '"', '</b>', '$(id)', '`', '\\', 'č€😀', ' ', '\u2028', '\u200d'])(
    'accepts %j in source and correlationId: who shows it escapes it [C-15.2]',
    (text) => {
      expect(accepted({ source: text, correlationId: text })).toMatchObject({
        source: text,
        correlationId: text,
      });
    },
  );

  it('skips one byte order mark at the start [C-15.8]', () => {
    const text = JSON.stringify(FIELDS);
    expect(parseEnvelope(`\ufeff${text}`)).toEqual(parseEnvelope(text));
    expect(parseEnvelope(text).ok).toBe(true);
    for (const wrong of [`\ufeff\ufeff${text}`, ` \ufeff${text}`, `${text}\ufeff`, '\ufeff'])
      expect(parseEnvelope(wrong)).toMatchObject({ ok: false, refusal: 'not JSON' });
  });

  it('reports all faults together [C-7.1]', () => {
    const wrong = { version: '2.0', messageId: 'one', timestamp: 'now', payload: [] };
    expect(read(wrong)).toEqual({
      ok: false,
      refusal:
        'version: must be 1.x; messageId: must be a UUID; timestamp: must be an ISO 8601 instant with a time zone; payload: must be an object',
    });
  });

  it.each(['', ' ', 'null', '[]', '{', '{"payload":{"a":NaN}}', 'not json'])(
    'refuses %j, which is not a JSON object [C-7.1]',
    (body) => {
      expect(parseEnvelope(body).ok).toBe(false);
    },
  );

  const JSON_TEXT = JSON.stringify({ ...FIELDS, signature: 'a' });

  it.each([
    ['a repeated payload, because one could be signed and the other executed', 'payload', '{}'],
    ['a repeated signature', 'signature', '"b"'],
  ])('refuses %s [C-3.7]', (_title, field, second) => {
    const body = `${JSON_TEXT.slice(0, -1)},"${field}":${second}}`;
    expect(parseEnvelope(body)).toEqual({ ok: false, refusal: `repeated key "${field}"` });
  });

  it('refuses an escaped key [C-3.7]', () => {
    const body = JSON_TEXT.replace('"payload"', '"p\\u0061yload"');
    expect(parseEnvelope(body)).toEqual({ ok: false, refusal: 'escaped top-level key' });
  });

  it('reads an absent and a null correlationId as the same [C-7.1]', () => {
    expect(accepted({ correlationId: undefined }).correlationId).toBeUndefined();
    expect(accepted({ correlationId: null }).correlationId).toBeUndefined();
  });

  it.each([[5], [0], [true], [false], [['ab']], [[]], [{}], [{ hex: 'ab' }]])(
    'accepts an envelope with the signature %j, and reads that signature as empty text [C-7.2]',
    (signature) => {
      expect(accepted({ signature }).signature).toBe('');
    },
  );

  it.each([
    ['empty', ''],
    ['short', 'ab'],
    ['in upper case', 'AB'.repeat(32)],
    ['not hex', 'ž|\n'],
    ['of 100 000 characters', 'a'.repeat(100_000)],
  ])('keeps a signature that is %s as it was sent, to be verified [C-7.2]', (_title, signature) => {
    expect(accepted({ signature }).signature).toBe(signature);
  });

  it('returns no signature if the envelope has none or null [C-7.2]', () => {
    expect(accepted({})).not.toHaveProperty('signature');
    expect(accepted({ signature: null })).not.toHaveProperty('signature');
  });

  it('ignores unknown fields, which a later version 1.x may add [C-7.1]', () => {
    expect(accepted({ traceparent: 'x' })).not.toHaveProperty('traceparent');
  });

  it('accepts an external plant identifier as siteId [C-7.1]', () => {
    expect(accepted({ siteId: 'plant:7_a.b' }).siteId).toBe('plant:7_a.b');
  });

  it('reads an upper-case messageId in lower case, and keeps the sent spelling for the signature [C-7.2]', () => {
    const messageId = FIELDS.messageId.toUpperCase();
    const envelope = accepted({ messageId });
    expect(envelope.messageId).toBe(FIELDS.messageId);
    expect(envelope.messageIdText).toBe(messageId);
    const signed = { ...envelope, messageId: envelope.messageIdText };
    expect(envelopeSigningString(signed, 'acme.command.mode', '{}')).toContain(`|${messageId}|`);
  });

  it('keeps the payload exactly as it was sent [C-3.7]', () => {
    const payload = '{ "10": 5.0, "2": 1e-05,\n "\\u010d": -0 }';
    const body = JSON.stringify(FIELDS).replace('{"mode":"STANDARD"}', ` ${payload} `);
    const envelope = parseEnvelope(body);
    expect(envelope.ok && envelope.value.payloadText).toBe(payload);
  });

  it('ignores the keys __proto__ and constructor: a version inside __proto__ does not count [C-7.1]', () => {
    const hostile = '{"__proto__":{"version":"1.1","polluted":1},"constructor":{"prototype":{}},';
    const body = hostile + JSON.stringify({ ...FIELDS, version: undefined }).slice(1);
    expect(parseEnvelope(body)).toMatchObject({ ok: false, refusal: expect.stringMatching(/^version: /) });
    expect('polluted' in {}).toBe(false);
  });

  it.each(['payload', 'signature', 'unknown'])(
    'refuses an envelope whose field %s nests deeper than 32 levels [C-7.1]',
    (field) => {
      const body = (levels: number) =>
        JSON.stringify({ ...FIELDS, [field]: '@' }).replace(
          '"@"',
          `{"a":${'['.repeat(levels)}"]]]{{{"${']'.repeat(levels)}}`,
        );
      expect(parseEnvelope(body(30)).ok).toBe(true);
      const refusal = 'nested deeper than 32';
      expect(parseEnvelope(body(31))).toEqual({ ok: false, refusal });
      expect(parseEnvelope(body(10_000))).toEqual({ ok: false, refusal });
    },
  );

  it('returns a Result, and throws no error, for any text [C-7.1]', () => {
    forAll(
      fc.oneof(
        fc.string(),
        fc.json(),
        fc.object().map((value) => JSON.stringify(value)),
      ),
      (body) => expect(typeof parseEnvelope(body).ok).toBe('boolean'),
    );
  });
});
