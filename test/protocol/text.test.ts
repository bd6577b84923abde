/** Texts that are stored: no control characters, lone surrogates or bidirectional overrides [C-1.0]. */
import { describe, expect, it } from 'vitest';
import { alertRuleRequest } from '../../protocol/alert.ts';
import { emergency } from '../../protocol/command.ts';
import { deviceRequest, reasonRequest, restCommandRequest } from '../../protocol/device-record.ts';
import { organizationRequest } from '../../protocol/organization.ts';
import { plainObject, plainText } from '../../protocol/text.ts';
import { slug } from '../../protocol/user.ts';

const FORBIDDEN: [name: string, text: string][] = [
  ['NUL', '\0'],
  ['a carriage return', '\r'],
  ['a line feed', '\n'],
  ['a tab', '\t'],
  ['an escape', '\u001b[31m'],
  ['DEL', '\u007f'],
  ['a C1 control character', '\u0085'],
  ['a lone high surrogate', '\ud83d'],
  ['a lone low surrogate', '\udd0b'],
  ['a right-to-left override', '\u202e'],
  ['a left-to-right embedding', '\u202a'],
  ['an isolate', '\u2066'],
];

describe('a plain text', () => {
  it.each(FORBIDDEN)('cannot contain %s [C-1.0]', (_name, text) => {
    for (const whole of [text, `Pump${text}house`, `${text} x`])
      expect(plainText.safeParse(whole).success).toBe(false);
  });

  it.each([
    '',
    'Acme Dairy',
    'příliš žluťoučký',
    '東京',
    'שלום',
    '🔋 battery',
    'a\u00a0b',
    'e\u0301',
    '\u200fא',
  ])('may be %j [C-1.0]', (text) => {
    expect(plainText.parse(text)).toBe(text);
  });
});

describe('a plain object', () => {
  const schema = plainObject(200);

  it.each(FORBIDDEN)('cannot contain %s in a key or in a text, however deep [C-1.0]', (_name, text) => {
    for (const value of [{ [`a${text}`]: 1 }, { a: text }, { a: [{ b: [text] }] }, { a: { [text]: null } }]) {
      expect(schema.safeParse(value).success).toBe(false);
    }
  });

  it('may contain any other JSON up to the maximum length [C-1.0]', () => {
    const value = { a: [1, true, null, 'text', { b: 'ž' }], c: {} };
    expect(schema.parse(value)).toEqual(value);
    expect(schema.safeParse({ a: 'x'.repeat(200) }).success).toBe(false);
  });
});

describe('the texts that users write', () => {
  const rule = { name: 'x', severity: 'INFO', metric: 'powerKw', operator: 'GT', threshold: 1 };
  const device = { name: 'x', serialNumber: '1', type: 'SENSOR' };

  it.each([
    ['name of an organization', organizationRequest, { name: 'x', slug: 'x' }, 'name'],
    ['name of a device', deviceRequest, device, 'name'],
    ['serial number', deviceRequest, device, 'serialNumber'],
    ['metadata', deviceRequest, { ...device, metadata: { site: 'x' } }, 'metadata.site'],
    ['metric of a rule', alertRuleRequest, rule, 'metric'],
    ['reason of a suspension', reasonRequest, { reason: 'x' }, 'reason'],
    ['payload of a device command', restCommandRequest, { action: 'GO', payload: { a: 'x' } }, 'payload.a'],
    ['reason of an emergency', emergency, { type: 'STOP', reason: 'x' }, 'reason'],
  ] as const)('the %s is refused if it contains a line break [C-1.0]', (_name, schema, value, path) => {
    expect(schema.safeParse(value).success).toBe(true);
    const [field = '', inner] = path.split('.');
    const wrong = inner === undefined ? 'a\r\nb' : { [inner]: 'a\r\nb' };
    expect(schema.safeParse({ ...value, [field]: wrong }).success).toBe(false);
  });
});

describe('a slug', () => {
  it.each([
    'vcp',
    'amq',
    'event',
    'admin',
    'api',
    'link',
    'xn--nxasmq6b',
    '0b7a3c52-3f5b-4b8e-9a55-2a9c4b1d7e10',
  ])('cannot be %s, which is reserved [C-1.1]', (text) => {
    expect(slug.safeParse(text).error?.issues[0]?.message).toBe('is reserved: choose another one');
  });

  it.each(['acme', 'vcp-1', 'events', 'a', '0b7a3c52', 'x-n--a'])('may be %s [C-1.1]', (text) => {
    expect(slug.parse(text)).toBe(text);
  });
});
