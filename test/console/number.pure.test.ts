/** How a form reads a number: as people type it, and never as another one. */
import { describe, expect, it } from 'vitest';
import { readNumber, writeNumber } from '../../console/parts/number.ts';
import { ok, refuse } from '../../protocol/result.ts';

const SIGNED = { sign: true };
const [NBSP, NARROW, THIN, MINUS] = ['\u00a0', '\u202f', '\u2009', '\u2212'];

describe('a number in a form', () => {
  it.each([
    ['5', 5],
    ['0', 0],
    ['125', 125],
    ['12.5', 12.5],
    ['12,5', 12.5],
    ['0,5', 0.5],
    ['0.5', 0.5],
    ['.5', 0.5],
    [',5', 0.5],
    ['1,23', 1.23],
    ['1234.5', 1234.5],
    ['1234,5', 1234.5],
    ['007', 7],
    ['12.50', 12.5],
    // No group of thousands begins with a zero, and none has four digits.
    ['0.125', 0.125],
    ['0,125', 0.125],
    ['1234.567', 1234.567],
    ['1.2340', 1.234],
    ['1,2340', 1.234],
    [' 5 ', 5],
    ['\t5\n', 5],
    [`${NBSP}5${NARROW}`, 5],
    ['123456789012345', 123_456_789_012_345],
    ['0.00000001', 1e-8],
  ])('reads %j as %d', (text, value) => {
    expect(readNumber(text)).toEqual(ok(value));
  });

  it.each([
    ['-5', -5],
    [`${MINUS}5`, -5],
    ['+5', 5],
    ['-12,5', -12.5],
    [`${MINUS}.5`, -0.5],
    [` ${MINUS}5 `, -5],
  ])('reads %j with its sign as %d', (text, value) => {
    expect(readNumber(text, SIGNED)).toEqual(ok(value));
  });

  it.each(['0', '-0', `${MINUS}0,0`])('reads %j as 0 without a sign', (text) => {
    const read = readNumber(text, SIGNED);
    expect(read.ok && Object.is(read.value, 0)).toBe(true);
  });

  it.each(['', ' ', NBSP, '\t'])('says that %j is empty', (text) => {
    expect(readNumber(text)).toEqual(refuse('empty'));
  });

  it.each(['-5', `${MINUS}5`, '+5', '-0', '-12,5'])(
    'refuses the sign of %j where it has no place',
    (text) => {
      expect(readNumber(text)).toEqual(refuse('sign'));
      expect(readNumber(text, { sign: false })).toEqual(refuse('sign'));
    },
  );

  it.each(['1,234', '1.234', '12.345', '12,345', '123,456', '1.000', '1,500', `${MINUS}1.234`])(
    'refuses %j, which may have thousands or decimals',
    (text) => {
      expect(readNumber(text, SIGNED)).toEqual(refuse('unclear'));
    },
  );

  it.each([
    ...['1.234,5', '1,234.5', '1.234.567', '1,234,567', '1.2.3', '1,2,3', '1.,5', '1,.5'],
    ...['1 234', '1 234,5', `1${NBSP}234`, `1${NARROW}234`, `1${THIN}234`, "1'234", '1’234', '1_234', '1·5'],
  ])('refuses the marks of thousands in %j', (text) => {
    expect(readNumber(text)).toEqual(refuse('marks'));
  });

  it.each([
    ...['--5', '-+5', '+-5', `${MINUS}${MINUS}5`, '- 5', '5-', '(5)', '\u20135', '\u20145', '\u20105'],
    ...['5.', '5,', '.', ',', '-', MINUS, '+', '-.', '1e3', '1E3', '1e', '5e-1', '0x10', '0b1', '0o7', '10n'],
    ...[
      'Infinity',
      '-Infinity',
      'NaN',
      'null',
      'true',
      'abc',
      '5 kW',
      '5kW',
      '50%',
      '5 %',
      '€5',
      '5/2',
      '=5',
    ],
    ...['\uff15', '\uff11\uff12', '\u0665', '\u06f5', '\u0969', '\u00b2', '\u00bd', '\u2167', '5\u20e3'],
    ...['5\u200b', '\u200e5', '5\u0000', '5\n6', '1;5', '1:30', '2..3', '5..', '5\u066b2'],
  ])('refuses %j, which is no number', (text) => {
    expect([refuse('number'), refuse('marks')]).toContainEqual(readNumber(text, SIGNED));
  });

  it.each(['1234567890123456', '0.12345678901234567', '1'.repeat(400), `0,${'1'.repeat(400)}`])(
    'refuses %j, which has more digits than a number keeps',
    (text) => {
      expect(readNumber(text)).toEqual(refuse('digits'));
    },
  );

  it.each(['12.5', '12,5', '5.0', '1,0'])('refuses %j where a whole number belongs', (text) => {
    expect(readNumber(text, { integer: true })).toEqual(refuse('whole'));
  });

  it.each(['1.234', '1,234', '1.000'])('refuses %j as unclear also where a whole number belongs', (text) => {
    expect(readNumber(text, { integer: true })).toEqual(refuse('unclear'));
  });

  it('refuses what is outside of its bounds, and reads the bounds themselves', () => {
    const within = { min: 0.1, max: 720 };
    expect(readNumber('0,1', within)).toEqual(ok(0.1));
    expect(readNumber('720', within)).toEqual(ok(720));
    expect(readNumber('0,09', within)).toEqual(refuse('min'));
    expect(readNumber('720,01', within)).toEqual(refuse('max'));
    expect(readNumber(`${MINUS}0,5`, { min: -1, sign: true })).toEqual(ok(-0.5));
    expect(readNumber(`${MINUS}2`, { min: -1, sign: true })).toEqual(refuse('min'));
  });

  it('never throws, and reads no text as anything but a finite number', () => {
    const parts = ['', '0', '1', '12', '.', ',', '-', MINUS, '+', ' ', NBSP, 'e', '\uff11', '\ud800'];
    for (const one of parts)
      for (const two of parts)
        for (const three of parts) {
          const read = readNumber(one + two + three, SIGNED);
          if (read.ok) expect(Number.isFinite(read.value), one + two + three).toBe(true);
        }
  });
});

describe('a number that a form shows first', () => {
  it.each([0, 1.234, -12.345, 999.999, 1234, 1_234_567.8, 1e-7, -3.5e-6, 0.1 + 0.2, 12_345.678])(
    'is read as the same number: %d',
    (value) => {
      const read = readNumber(writeNumber(value), SIGNED);
      expect(read.ok && read.value).toBeCloseTo(value, 12);
    },
  );
});
