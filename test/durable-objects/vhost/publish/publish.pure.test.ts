/** A publish as data: its envelope, its signature, the submission to a Site, and the answer to its client. */
import { describe, expect, it } from 'vitest';
import { hmacHex } from '../../../../durable-objects/secrets/hmac.ts';
import type { Pending } from '../../../../durable-objects/vhost/publish/lanes.ts';
import {
  confirms,
  judgeSignature,
  readEnvelope,
  signatureHint,
  toSubmission,
  unknownSiteEvent,
} from '../../../../durable-objects/vhost/publish/publish.ts';
import type { Envelope } from '../../../../protocol/envelope.ts';
import { isUuid } from '../../../../protocol/ids.ts';
import type { PublishFrame } from '../../../../protocol/link/vhost.ts';
import { COMMAND_FAMILIES } from '../../../../protocol/routing-keys.ts';

/** The contract's own example of a signed message [C-7.2]. */
const VECTOR = {
  key: '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff',
  routingKey: 'acme.command.device',
  payloadText:
    '{"commands":[{"deviceId":"BESS-1","assetType":"BESS","command":"BESS_CHARGE","params":{"powerKw":5.0}}]}',
  fields: {
    version: '1.1',
    messageId: '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11',
    correlationId: 'corr-42',
    timestamp: '2026-01-15T10:00:00.000Z',
    source: 'acme-trader',
    siteId: '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10',
  },
  signature: 'adf5675a67e7c1996ab535ff42f305034aff782e9526b5ed20d4b5a67abacf5c',
};

function frame(body: string, changes: Partial<PublishFrame> = {}): PublishFrame {
  return {
    kind: 'publish',
    seq: 1,
    exchange: 'vcp',
    routingKey: VECTOR.routingKey,
    properties: '',
    body,
    encoding: 'utf8',
    ...changes,
  };
}

function bodyOf(changes: Record<string, unknown> = {}, payloadText = VECTOR.payloadText): string {
  const fields = JSON.stringify({ ...VECTOR.fields, signature: VECTOR.signature, ...changes });
  return `${fields.slice(0, -1)},"payload":${payloadText}}`;
}

function envelopeOf(changes: Record<string, unknown> = {}, payloadText = VECTOR.payloadText): Envelope {
  const read = readEnvelope(frame(bodyOf(changes, payloadText)));
  if (!read.ok) throw new Error(read.refusal);
  return read.value;
}

describe('an envelope', () => {
  it('is read from text, with its payload kept as it was sent [C-3.7]', () => {
    const { messageIdText, payloadText, ...fields } = envelopeOf();
    expect(fields).toEqual({ ...VECTOR.fields, signature: VECTOR.signature });
    expect([messageIdText, payloadText]).toEqual([VECTOR.fields.messageId, VECTOR.payloadText]);
  });

  it('is malformed if the bridge marks it as not UTF-8, even if its bytes are a valid envelope [C-7.1]', () => {
    const answer = readEnvelope(frame(bodyOf(), { encoding: 'base64' }));
    expect(answer).toEqual({ ok: false, refusal: 'not UTF-8' });
  });

  it('is refused with the reason if it is malformed [C-7.1]', () => {
    expect(readEnvelope(frame('hello'))).toEqual({ ok: false, refusal: 'not JSON' });
    expect(readEnvelope(frame(bodyOf({ siteId: '' })))).toMatchObject({
      ok: false,
      refusal: expect.stringMatching(/^siteId: /),
    });
  });
});

describe('the signature of an envelope', () => {
  const judge = (envelope: Envelope, changes: Partial<typeof VECTOR> = {}, isRequired = true) =>
    judgeSignature(envelope, changes.routingKey ?? VECTOR.routingKey, changes.key ?? VECTOR.key, isRequired);
  /** Signs the given fields and text as a partner does. */
  const sign = (fields: Record<string, string>, payloadText: string) => {
    const order = ['version', 'messageId', 'correlationId', 'timestamp', 'source', 'siteId'];
    const text = [...order.map((name) => fields[name] ?? ''), VECTOR.routingKey, payloadText].join('|');
    return hmacHex(VECTOR.key, text);
  };

  it("is valid for the contract's example, and equals the one that a partner computes [C-7.2]", () => {
    expect(judge(envelopeOf())).toBe('valid');
    expect(sign(VECTOR.fields, VECTOR.payloadText)).toBe(VECTOR.signature);
  });

  it.each([
    [true, 'missing'],
    [false, 'not-needed'],
  ])('may be absent or null: with isRequired = %s it counts as %s [C-7.2]', (isRequired, expected) => {
    expect(judge(envelopeOf({ signature: undefined }), {}, isRequired)).toBe(expected);
    expect(judge(envelopeOf({ signature: null }), {}, isRequired)).toBe(expected);
  });

  it.each<[string, unknown]>([
    ['of another message', '0'.repeat(64)],
    ['in upper case', VECTOR.signature.toUpperCase()],
    ['truncated', VECTOR.signature.slice(0, -1)],
    ['with more text after it', `${VECTOR.signature}0`],
    ['that is empty', ''],
    ['that is a number', 5],
    ['in a list', [VECTOR.signature]],
    ['that is false', false],
  ])('%s is a mismatch, required or not [C-7.2]', (_what, signature) => {
    for (const isRequired of [true, false]) {
      expect(judge(envelopeOf({ signature }), {}, isRequired)).toBe('mismatch');
    }
  });

  it.each([
    ['version', '1.0'],
    ['messageId', '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a12'],
    ['correlationId', 'corr-43'],
    ['correlationId', undefined],
    ['timestamp', '2026-01-15T10:00:00.001Z'],
    ['timestamp', '2026-01-15T10:00:00Z'],
    ['source', 'acme-trader2'],
    ['siteId', '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e11'],
  ])('covers %s: changing it to %j is a mismatch [C-7.2]', (field, value) => {
    expect(judge(envelopeOf({ [field]: value }))).toBe('mismatch');
  });

  it('covers the routing key and the payload, and depends on the signing key [C-7.2]', () => {
    expect(judge(envelopeOf(), { routingKey: 'acme.command.device.BESS-1' })).toBe('mismatch');
    expect(judge(envelopeOf({}, VECTOR.payloadText.replace('5.0', '5')))).toBe('mismatch');
    expect(judge(envelopeOf(), { key: VECTOR.key.replace('0', '1') })).toBe('mismatch');
    expect(judge(envelopeOf(), { key: VECTOR.key.toUpperCase() })).toBe('mismatch');
  });

  it('covers the payload without whitespace outside strings [C-3.7]', () => {
    const spaced = VECTOR.payloadText.replaceAll(':', ' :\n\t').replaceAll(',', ' , ');
    expect(judge(envelopeOf({}, spaced))).toBe('valid');
    expect(judge(envelopeOf({}, VECTOR.payloadText.replace('BESS-1', 'BESS -1')))).toBe('mismatch');
  });

  it('covers an empty text for a missing correlationId, and the messageId in upper or lower case as it was sent [C-7.2]', () => {
    const { correlationId: _none, ...without } = VECTOR.fields;
    const silent = { correlationId: undefined, signature: sign(without, VECTOR.payloadText) };
    expect(judge(envelopeOf(silent))).toBe('valid');
    expect(judge(envelopeOf({ ...silent, correlationId: null }))).toBe('valid');

    const messageId = VECTOR.fields.messageId.toUpperCase();
    const loud = envelopeOf({
      messageId,
      signature: sign({ ...VECTOR.fields, messageId }, VECTOR.payloadText),
    });
    expect(judge(loud)).toBe('valid');
    expect(loud.messageId).toBe(VECTOR.fields.messageId);
    expect(judge(envelopeOf({ messageId }))).toBe('mismatch');
  });

  it.each(['correlationId', 'source', 'siteId'])(
    'is never valid when %s contains the separator | [C-7.2]',
    (field) => {
      const fields = { ...VECTOR.fields, [field]: 'a|b' };
      expect(judge(envelopeOf({ ...fields, signature: sign(fields, VECTOR.payloadText) }))).toBe('mismatch');
    },
  );
});

describe('a submission', () => {
  it('is the envelope with its routing key, its family and the result of its signature check [C-7.1]', () => {
    expect(toSubmission(envelopeOf(), 'acme.command.device.x', 'device', 'valid')).toEqual({
      messageId: VECTOR.fields.messageId,
      correlationId: 'corr-42',
      source: 'acme-trader',
      timestampMs: Date.parse('2026-01-15T10:00:00.000Z'),
      routingKey: 'acme.command.device.x',
      family: 'device',
      payloadText: VECTOR.payloadText,
      signature: 'valid',
    });
  });

  it('has the instant of its timestamp from any time zone, and null if the envelope has no correlationId [C-7.1]', () => {
    const changes = { timestamp: '2026-01-15T11:30:00.5+01:30', correlationId: undefined };
    const submission = toSubmission(envelopeOf(changes), VECTOR.routingKey, 'mode', 'missing');
    expect(submission).toMatchObject({
      timestampMs: Date.parse('2026-01-15T10:00:00.500Z'),
      correlationId: null,
      signature: 'missing',
    });
  });
});

describe('the acknowledgement of a command for an unknown site', () => {
  const submission = toSubmission(envelopeOf(), VECTOR.routingKey, 'device', 'valid');
  const NOW_MS = 1_900_000_000_000;

  it.each(COMMAND_FAMILIES)(
    'is, for the family %s, REJECTED DEVICE_OFFLINE, always with the same text [C-7.1]',
    (family) => {
      const event = unknownSiteEvent('key-1', { ...submission, family }, NOW_MS);
      const commandType = {
        'site-setpoint': 'SITE_SETPOINT',
        device: 'DEVICE_COMMAND',
        emergency: 'EMERGENCY',
        mode: 'MODE_CHANGE',
        schedule: 'SCHEDULE',
        config: 'CONFIG',
      }[family];
      expect(event).toMatchObject({ kind: 'ack', correlationId: 'corr-42', atMs: NOW_MS });
      expect(JSON.parse(event.payloadText)).toEqual({
        status: 'REJECTED',
        commandType,
        message: 'no such site',
        rejectionCode: 'DEVICE_OFFLINE',
      });
    },
  );

  it('echoes the messageId when the correlationId is null, and an empty correlationId as it is [C-8.1]', () => {
    const event = unknownSiteEvent('key-1', { ...submission, correlationId: null }, NOW_MS);
    expect(event.correlationId).toBe(submission.messageId);
    expect(unknownSiteEvent('key-1', { ...submission, correlationId: '' }, NOW_MS).correlationId).toBe('');
  });

  it('has an id that depends only on the key and the messageId, so that a repeat has the same id [C-8.1]', () => {
    const idOf = (keyId: string, messageId: string, at = NOW_MS) =>
      unknownSiteEvent(keyId, { ...submission, messageId }, at).messageId;
    const id = idOf('key-1', 'a');
    expect(isUuid(id)).toBe(true);
    expect(idOf('key-1', 'a', NOW_MS + 1)).toBe(id);
    expect(new Set([id, idOf('key-2', 'a'), idOf('key-1', 'b')]).size).toBe(3);
  });
});

describe('the confirms of a batch', () => {
  const submission = toSubmission(envelopeOf(), VECTOR.routingKey, 'device', 'valid');
  const batch = (...publishes: [connectionId: string, seq: number][]): Pending[] =>
    publishes.map(([connectionId, seq]) => ({ submission, acceptedAtMs: 0, connectionId, seq }));

  it('are one frame for each connection and outcome, in the order of the publishes [C-6.4]', () => {
    const pending = batch(['a', 1], ['b', 7], ['a', 2], ['a', 3], ['b', 8], ['a', 4]);
    const recorded = [true, false, false, true, false, true];
    expect(Object.fromEntries(confirms(pending, (index) => recorded[index] ?? false))).toEqual({
      a: [
        { kind: 'stored', seqs: [1, 3, 4] },
        { kind: 'unstored', seqs: [2] },
      ],
      b: [{ kind: 'unstored', seqs: [7, 8] }],
    });
  });

  it('are empty when the batch has no publish [C-6.4]', () => {
    expect(confirms([], () => true).size).toBe(0);
  });
});

describe('the hint for a signature mismatch', () => {
  const SIGNED = [...Object.values(VECTOR.fields), VECTOR.routingKey, VECTOR.payloadText].join('|');

  it('is the text that should have been signed, with the fields as sent, and without the key [C-7.2]', () => {
    const spaced = VECTOR.payloadText.replaceAll(':', ' : ');
    const hint = signatureHint(envelopeOf({ signature: '00'.repeat(32) }, spaced), VECTOR.routingKey);
    expect(hint).toBe(`signed over: ${SIGNED}`);
    const [, text = ''] = hint.split('signed over: ');
    expect(hmacHex(VECTOR.key, text)).toBe(VECTOR.signature);
    expect(hint).not.toContain(VECTOR.key);
    const upper = signatureHint(
      envelopeOf({ messageId: VECTOR.fields.messageId.toUpperCase(), correlationId: undefined }),
      VECTOR.routingKey,
    );
    expect(upper).toContain('signed over: 1.1|6F1C2F0A-3F0E-4A57-9D0B-0F6C0F2F7A11||2026');
  });

  it.each([[VECTOR.signature.toUpperCase()], [VECTOR.signature.slice(1)], [''], [7]])(
    'says that %j does not have the form of a signature [C-7.2]',
    (signature) => {
      const hint = signatureHint(envelopeOf({ signature }), VECTOR.routingKey);
      expect(hint).toBe(`a signature is 64 lower-case hex characters; signed over: ${SIGNED}`);
    },
  );

  it('says that a field that contains the separator | cannot be signed [C-7.2]', () => {
    const hint = signatureHint(envelopeOf({ source: 'a|b' }), VECTOR.routingKey);
    expect(hint).toBe('a field that contains | cannot be signed');
  });

  it('is truncated for a long message, and states the original length (rule 9)', () => {
    const payloadText = JSON.stringify({ reason: '🔋'.repeat(60_000) });
    const hint = signatureHint(envelopeOf({}, payloadText), VECTOR.routingKey);
    const characters = SIGNED.length - VECTOR.payloadText.length + payloadText.length;
    expect(hint.endsWith(`🔋… (${characters} characters)`)).toBe(true);
    expect(hint.length).toBeLessThan(2_100);
  });
});
