/**
 * Reads a number of a form as people type or paste it: with a comma or a dot, with U+2212 as minus. A text that may mean
 * two numbers is refused, because a wrong one goes to a plant. Pure.
 */
import { ok, type Result, refuse } from '../../protocol/result.ts';

export interface NumberRule {
  min?: number;
  max?: number;
  /** Whether the number may have a sign. */
  sign?: boolean;
  integer?: boolean;
}

/** `unclear`: its mark may be one of decimals or of thousands; `marks`: it has marks of thousands. */
type NumberFault = 'empty' | 'sign' | 'unclear' | 'marks' | 'number' | 'digits' | 'whole' | 'min' | 'max';

const SIGN = '[-+\u2212]?';
const NUMBER = new RegExp(`^(${SIGN})([0-9]*)(?:[.,]([0-9]+))?$`);
/** Three digits after the mark, and no zero before it: "1.234" is 1234 to one person and 1.234 to another. */
const UNCLEAR = new RegExp(`^${SIGN}[1-9][0-9]{0,2}[.,][0-9]{3}$`);
const GROUPED = new RegExp(`^${SIGN}[0-9]+(?:[\\s.,'’_·]+[0-9]+)+$`);
/** A number keeps that many digits. */
const MOST_DIGITS = 15;

/** A number as the field shows it, and as `readNumber` reads it: "1.2340" has one meaning, "1.234" has two. */
export function writeNumber(value: number): string {
  const text = value.toLocaleString('en-US', { useGrouping: false, maximumSignificantDigits: MOST_DIGITS });
  return UNCLEAR.test(text) ? `${text}0` : text;
}

export function readNumber(
  text: string,
  { min, max, sign = false, integer = false }: NumberRule = {},
): Result<number, NumberFault> {
  const typed = text.trim();
  if (typed === '') return refuse('empty');
  const [, given = '', whole = '', part = ''] = NUMBER.exec(typed) ?? [];
  if (whole + part === '') return refuse(GROUPED.test(typed) ? 'marks' : 'number');
  if (given !== '' && !sign) return refuse('sign');
  if (UNCLEAR.test(typed)) return refuse('unclear');
  if (integer && part !== '') return refuse('whole');
  if ((whole + part).replace(/^0+/, '').length > MOST_DIGITS) return refuse('digits');
  const size = Number(`${whole || '0'}.${part || '0'}`);
  const value = given === '' || given === '+' || size === 0 ? size : -size;
  if (min !== undefined && value < min) return refuse('min');
  if (max !== undefined && value > max) return refuse('max');
  return ok(value);
}
