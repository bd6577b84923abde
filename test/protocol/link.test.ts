/** Frames of the link, valid and hostile. No input of a peer may throw, grow memory or reach a prototype. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import { MAX_MESSAGE_CHARS, packFrames, parseFrames } from '../../protocol/link/batch.ts';
import { deviceLinkDown, deviceLinkUp } from '../../protocol/link/device.ts';
import { vhostLinkDown, vhostLinkUp } from '../../protocol/link/vhost.ts';

const SUBSCRIBED = { kind: 'subscribed', commands: true };
const DELIVERY = { lease: 7, redelivered: false, routingKey: 'a.event.alarm', body: '{}', encoding: 'utf8' };
const properties = {
  contentType: 'application/json',
  timestampMs: 1,
  headers: { 'x-death': 1, reason: 'r' },
};
const delivery = { ...DELIVERY, properties, bytes: 80 };
const SCHEMAS = { deviceLinkUp, deviceLinkDown, vhostLinkUp, vhostLinkDown };

function refusal(schema: keyof typeof SCHEMAS, message: unknown): string | undefined {
  const parsed = parseFrames<unknown>(SCHEMAS[schema], message);
  return parsed.ok ? undefined : parsed.refusal;
}

describe('parseFrames', () => {
  it.each([
    ['deviceLinkUp', { kind: 'publish', seq: 0, topic: 'ack', payload: '' }],
    ['deviceLinkUp', SUBSCRIBED],
    ['deviceLinkDown', { kind: 'stored', seqs: [0, 9, 4] }],
    ['deviceLinkDown', { kind: 'refused', seq: 1, reason: 'nonce' }],
    ['deviceLinkDown', { kind: 'command', payload: '{}' }],
    [
      'vhostLinkUp',
      {
        kind: 'publish',
        seq: 1,
        exchange: 'vcp',
        routingKey: 'k',
        properties: '',
        body: '',
        encoding: 'base64',
      },
    ],
    [
      'vhostLinkUp',
      {
        kind: 'consume',
        seq: 1,
        channel: 1,
        tag: 't',
        queue: 'q',
        noAck: false,
        exclusive: false,
        prefetch: 0,
        priority: -1,
      },
    ],
    ['vhostLinkUp', { kind: 'cancel', seq: 1, channel: 65_535, tag: 't' }],
    ['vhostLinkUp', { kind: 'get', seq: 1, channel: 1, queue: 'q', noAck: true }],
    ['vhostLinkUp', { kind: 'settle', outcome: 'requeue', leases: [1, 2] }],
    ['vhostLinkUp', { kind: 'qos', channel: 1, prefetch: 65_535 }],
    ['vhostLinkUp', { kind: 'recover', seq: 1, channel: 1 }],
    ['vhostLinkUp', { kind: 'close-channel', channel: 1 }],
    ['vhostLinkUp', { kind: 'credit', drainedBytes: 2 ** 40 }],
    [
      'vhostLinkUp',
      {
        kind: 'declare',
        seq: 1,
        queue: '',
        passive: true,
        durable: false,
        exclusive: false,
        autoDelete: false,
        arguments: [{ name: 'x-max-length', type: 'signedint', value: 5 }],
      },
    ],
    ['vhostLinkUp', { kind: 'bind', seq: 1, queue: 'q', pattern: 'acme.event.#' }],
    ['vhostLinkUp', { kind: 'unbind', seq: 1, queue: 'q', pattern: '#' }],
    ['vhostLinkUp', { kind: 'purge', seq: 1, queue: 'q' }],
    ['vhostLinkUp', { kind: 'delete', seq: 1, queue: 'q', ifUnused: true, ifEmpty: false }],
    ['vhostLinkDown', { kind: 'cancelled', channel: 1, tag: 't' }],
    ['vhostLinkDown', { kind: 'unstored', seqs: [3] }],
    ['vhostLinkDown', { kind: 'refused', seq: 1, severity: 'channel', code: 403, text: 'ACCESS_REFUSED' }],
    ['vhostLinkDown', { kind: 'ok', seq: 1, messageCount: 2 }],
    ['vhostLinkDown', { kind: 'deliver', channel: 1, tag: 't', delivery }],
    ['vhostLinkDown', { kind: 'got', seq: 1, messageCount: 0, delivery: null }],
  ] as const)('reads a frame of %s that packFrames packed: %j', (schema, frame) => {
    const [message] = packFrames([frame]);
    expect(parseFrames<unknown>(SCHEMAS[schema], message)).toEqual({ ok: true, value: [frame] });
  });

  it('reads an empty batch, and ignores unknown fields of later versions', () => {
    expect(parseFrames(deviceLinkUp, '[]')).toEqual({ ok: true, value: [] });
    expect(parseFrames(deviceLinkUp, JSON.stringify([{ ...SUBSCRIBED, since: 1 }]))).toEqual({
      ok: true,
      value: [SUBSCRIBED],
    });
  });

  it.each([
    ['bytes', new Uint8Array([91, 93]), 'not text'],
    ['undefined', undefined, 'not text'],
    ['an array that is not serialized', [SUBSCRIBED], 'not text'],
    ['an overlong message', `[${' '.repeat(MAX_MESSAGE_CHARS)}]`, 'too long'],
    ['empty text', '', 'not JSON'],
    ['half a batch', '[{"kind":"subscribed"', 'not JSON'],
    ['a frame without a batch', JSON.stringify(SUBSCRIBED), 'not a batch of at most 256 frames'],
    ['an object like a batch', '{"length":1,"0":{}}', 'not a batch of at most 256 frames'],
    ['257 frames', JSON.stringify(Array(257).fill(SUBSCRIBED)), 'not a batch of at most 256 frames'],
  ])('refuses %s as a message', (_title, message, reason) => {
    expect(refusal('deviceLinkUp', message)).toBe(reason);
  });

  it('reads 256 frames, and a message of exactly the maximum length', () => {
    expect(refusal('deviceLinkUp', JSON.stringify(Array(256).fill(SUBSCRIBED)))).toBeUndefined();
    expect(refusal('deviceLinkUp', `[${' '.repeat(MAX_MESSAGE_CHARS - 2)}]`)).toBeUndefined();
  });

  it.each([
    ['deviceLinkUp', '{"kind":"drop-tables"}', 'kind'],
    ['deviceLinkUp', '{"kind":"constructor"}', 'kind'],
    ['deviceLinkUp', '{"kind":"__proto__"}', 'kind'],
    ['deviceLinkUp', '{"kind":["subscribed"],"commands":true}', 'kind'],
    ['deviceLinkUp', '{"__proto__":{"kind":"subscribed","commands":true}}', 'kind'],
    ['deviceLinkUp', '{"kind":"command","payload":"{}"}', 'kind'],
    ['deviceLinkUp', '{"kind":"publish","seq":-1,"topic":"ack","payload":""}', 'seq'],
    ['deviceLinkUp', '{"kind":"publish","seq":1.5,"topic":"ack","payload":""}', 'seq'],
    ['deviceLinkUp', '{"kind":"publish","seq":"1","topic":"ack","payload":""}', 'seq'],
    ['deviceLinkUp', '{"kind":"publish","seq":1e300,"topic":"ack","payload":""}', 'seq'],
    ['deviceLinkUp', '{"kind":"publish","seq":1,"topic":"commands","payload":""}', 'topic'],
    ['deviceLinkUp', '{"kind":"publish","seq":1,"topic":"ack","payload":{}}', 'payload'],
    ['vhostLinkUp', '{"kind":"close-channel","channel":0}', 'channel'],
    ['vhostLinkUp', '{"kind":"close-channel","channel":65536}', 'channel'],
    ['vhostLinkUp', '{"kind":"qos","channel":1,"prefetch":65536}', 'prefetch'],
    ['vhostLinkUp', `{"kind":"cancel","seq":1,"channel":1,"tag":"${'t'.repeat(256)}"}`, 'tag'],
    ['vhostLinkUp', `{"kind":"settle","outcome":"ack","leases":[${'0,'.repeat(100_000)}0]}`, 'leases'],
    ['vhostLinkUp', '{"kind":"settle","outcome":"drop","leases":[]}', 'outcome'],
    ['vhostLinkUp', '{"kind":"credit","drainedBytes":-1}', 'drainedBytes'],
    ['vhostLinkDown', '{"kind":"stored","seqs":[1,-1]}', 'seqs.1'],
  ] as const)('refuses a frame of $0 and names its invalid field $2: $1', (schema, frame, field) => {
    const good = schema === 'deviceLinkUp' ? `${JSON.stringify(SUBSCRIBED)},` : '';
    expect(refusal(schema, `[${good}${frame}]`)).toMatch(new RegExp(`^${field}: `));
  });

  it.each(['null', '1', '"publish"', '[]', '['.repeat(10_000) + ']'.repeat(10_000)])(
    'refuses the frame $0 on every kind of link',
    (frame) => {
      for (const schema of Object.keys(SCHEMAS) as (keyof typeof SCHEMAS)[])
        expect(refusal(schema, `[${frame}]`)).toBeDefined();
    },
  );

  it('ignores the keys __proto__ and constructor', () => {
    const text =
      '[{"kind":"subscribed","commands":true,"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}]';
    const parsed = parseFrames(deviceLinkUp, text);
    expect(parsed).toStrictEqual({ ok: true, value: [SUBSCRIBED] });
    const headers = JSON.stringify([{ kind: 'deliver', channel: 1, tag: 't', delivery }]).replace(
      'x-death',
      '__proto__',
    );
    const delivered = parseFrames(vhostLinkDown, headers);
    expect(JSON.stringify(delivered)).not.toContain('__proto__');
    expect('polluted' in {}).toBe(false);
  });

  it('returns a Result, and throws no error, for any message', () => {
    forAll(
      fc.oneof(
        fc.anything(),
        fc.json(),
        fc.array(fc.object()).map((it) => JSON.stringify(it)),
      ),
      (message) => {
        for (const schema of Object.values(SCHEMAS))
          expect(typeof parseFrames<unknown>(schema, message).ok).toBe('boolean');
      },
    );
  });
});
