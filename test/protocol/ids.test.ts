/** Identifiers and instants: accepted and rejected values for every rule. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import {
  EAN,
  EXTERNAL_PLANT_ID,
  formatInstant,
  instant,
  isUuid,
  parseInstant,
  SLUG,
  SUB_DEVICE_EXTERNAL_ID,
  uuid,
} from '../../protocol/ids.ts';

describe('parseInstant', () => {
  it.each([
    ['2026-01-15T10:00:00Z', '2026-01-15T10:00:00.000Z'],
    ['2026-01-15T10:00:00.5Z', '2026-01-15T10:00:00.500Z'],
    ['2026-01-15T10:00:00.123456+00:00', '2026-01-15T10:00:00.123Z'],
    ['2026-01-15T10:00:00.999999999Z', '2026-01-15T10:00:00.999Z'],
    ['2026-01-15T10:00:00+05:30', '2026-01-15T04:30:00.000Z'],
    ['2026-01-15T10:00:00-09:45', '2026-01-15T19:45:00.000Z'],
    ['2026-01-01T00:30:00+01:00', '2025-12-31T23:30:00.000Z'],
    ['2024-02-29T23:59:59Z', '2024-02-29T23:59:59.000Z'],
    ['2000-02-29T00:00:00Z', '2000-02-29T00:00:00.000Z'],
    ['1970-01-01T00:00:00Z', '1970-01-01T00:00:00.000Z'],
    ['2026-01-15T10:00:00+14:59', '2026-01-14T19:01:00.000Z'],
    ['2026-01-15T10:00:00-14:59', '2026-01-16T00:59:00.000Z'],
    ['2026-01-15T10:00:00-00:00', '2026-01-15T10:00:00.000Z'],
    ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59.000Z'],
  ])('reads %s as %s [C-7.1]', (text, expected) => {
    expect(new Date(parseInstant(text) ?? Number.NaN).toISOString()).toBe(expected);
  });

  it.each([
    '2024-02-30T00:00:00Z',
    '2023-02-29T00:00:00Z',
    '2100-02-29T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-10T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-01-15T24:00:00Z',
    '2026-01-15T10:60:00Z',
    '2026-01-15T10:00:60Z',
    '2026-01-15T10:00:00',
    '2026-01-15',
    '2026-01-15 10:00:00Z',
    '2026-01-15T10:00Z',
    '2026-01-15T10:00:00.Z',
    '2026-01-15T10:00:00,5Z',
    '2026-01-15T10:00:00.1234567890Z',
    '2026-01-15T10:00:00+0100',
    '2026-01-15T10:00:00+01',
    '2026-01-15T10:00:00+01:00Z',
    '+2026-01-15T10:00:00Z',
    '１026-01-15T10:00:00Z',
    ' 2026-01-15T10:00:00Z',
    '2026-01-15T10:00:00Z\n',
    '1768471200000',
    '',
  ])('refuses %j [C-7.1]', (text) => {
    expect(parseInstant(text)).toBeUndefined();
  });

  it.each(['+99:99', '+24:00', '+15:00', '-15:00', '+14:60', '-01:60', '+00:99'])(
    'refuses the offset %s, which no zone has [C-7.1]',
    (zone) => {
      expect(parseInstant(`2026-01-15T10:00:00${zone}`)).toBeUndefined();
    },
  );

  it.each([
    '0000-02-29T00:00:00Z',
    '0050-01-01T00:00:00Z',
    '0099-12-31T23:59:59Z',
    '1900-01-01T00:00:00Z',
    '1969-12-31T23:59:59.999Z',
    '9999-12-31T23:59:59-01:00',
  ])('refuses %s, which is before 1970 or after 9999 [C-7.1]', (text) => {
    expect(parseInstant(text)).toBeUndefined();
  });

  it('reads back what formatInstant prints [C-7.1]', () => {
    const date = fc.date({
      min: new Date('1970-01-01T00:00:00Z'),
      max: new Date('9999-12-31T00:00:00Z'),
      noInvalidDate: true,
    });
    forAll(date, (value) => expect(parseInstant(formatInstant(value.getTime()))).toBe(value.getTime()));
  });

  it('reads the same instant from every offset up to 14:59 [C-7.1]', () => {
    const MAX_OFFSET = 14 * 60 + 59;
    /** From the second day of 1970, so that no offset moves the local year below it. */
    const epoch = fc.integer({ min: 86_400_000, max: 4e12 });
    forAll(epoch, fc.integer({ min: -MAX_OFFSET, max: MAX_OFFSET }), (epochMs, offsetMinutes) => {
      const pad = (value: number) => String(value).padStart(2, '0');
      const size = Math.abs(offsetMinutes);
      const zone = `${offsetMinutes < 0 ? '-' : '+'}${pad(Math.floor(size / 60))}:${pad(size % 60)}`;
      const local = formatInstant(epochMs + offsetMinutes * 60_000).replace('Z', zone);
      expect(parseInstant(local)).toBe(epochMs);
    });
  });
});

describe('instant', () => {
  it('keeps the text as it was written [C-7.2]', () => {
    expect(instant.parse('2026-01-15T10:00:00.000000+01:00')).toBe('2026-01-15T10:00:00.000000+01:00');
  });

  it.each(['2026-01-15T10:00:00', 'x'.repeat(41), 5, null])('refuses %j [C-7.1]', (value) => {
    expect(instant.safeParse(value).success).toBe(false);
  });
});

describe('uuid', () => {
  it('is accepted in either case and kept in lower case [C-7.1]', () => {
    const text = '6F1C2f0a-3f0e-4A57-9d0b-0f6c0f2f7a11';
    expect(isUuid(text)).toBe(true);
    expect(uuid.parse(text)).toBe(text.toLowerCase());
  });

  it.each([
    '6f1c2f0a3f0e4a579d0b0f6c0f2f7a11',
    '{6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11}',
    '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a1g',
    '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11\n',
    '',
  ])('is not %j [C-7.1]', (text) => {
    expect(isUuid(text)).toBe(false);
    expect(uuid.safeParse(text).success).toBe(false);
  });
});

it.each(['a', '7', 'acme', 'acme-2', 'a--b', 'a'.repeat(40)])('%j is a slug [C-1.1]', (text) => {
  expect(SLUG.test(text)).toBe(true);
});

it.each(['', '-acme', 'acme-', 'Acme', 'acme.x', 'acme*', 'acme#', 'a|b', 'ačme', 'acme\n', 'a'.repeat(41)])(
  '%j is not a slug [C-1.1]',
  (text) => {
    expect(SLUG.test(text)).toBe(false);
  },
);

it.each([
  ['859182400000000001', true],
  ['8591824000000000', false],
  ['85918240000000000', false],
  ['8591824000000000011', false],
  ['85918240000000000１', false],
  ['+59182400000000001', false],
  [' 59182400000000001', false],
  ['', false],
])('%j is an EAN: %s [C-2.1]', (text, expected) => {
  expect(EAN.test(text)).toBe(expected);
});

it('external identifiers have 1 to 64 characters of a limited set, and only plant ids may contain a colon [C-2.1] [C-2.2]', () => {
  for (const text of ['a', 'A.b_c-9', 'x'.repeat(64)]) {
    expect(EXTERNAL_PLANT_ID.test(text)).toBe(true);
    expect(SUB_DEVICE_EXTERNAL_ID.test(text)).toBe(true);
  }
  for (const text of ['', 'a/b', 'a b', 'č', 'a|b', 'x'.repeat(65), 'a\n']) {
    expect(EXTERNAL_PLANT_ID.test(text)).toBe(false);
    expect(SUB_DEVICE_EXTERNAL_ID.test(text)).toBe(false);
  }
  expect(EXTERNAL_PLANT_ID.test('cz:1')).toBe(true);
  expect(SUB_DEVICE_EXTERNAL_ID.test('cz:1')).toBe(false);
});
