/**
 * Exact decimal sums of readings. The result does not depend on the order of addition or on the number of
 * roll-ups, so an independent calculation gives the same last digit. Most readings have at most six decimals
 * and are added as whole millionths; all others are added as big integers, which is slower. Pure.
 */

const MICRO = 1e6;
/** Below this value a number with six decimals has at most 15 digits, so its millionths are exact. */
const MICRO_MAX = 1e9;

/** `digits` / 10^`scale` */
interface Decimal {
  digits: bigint;
  scale: number;
}

export class ExactSum {
  /** Whole millionths. */
  #micro = 0;
  #rest: Decimal | undefined;

  add(value: number): void {
    const micro = Math.round(value * MICRO);
    const isExact = Math.abs(value) < MICRO_MAX && micro / MICRO === value;
    if (isExact && Number.isSafeInteger(this.#micro + micro)) this.#micro += micro;
    else this.#addDecimal(parseDecimal(String(value)));
  }

  /** Adds the text that `toString` of another sum returned. */
  addText(text: string): void {
    const value = Number(text);
    if (String(value) === text) this.add(value);
    else this.#addDecimal(parseDecimal(text));
  }

  /** Plain decimal digits, without an exponent. */
  toString(): string {
    return this.#rest ? formatDecimal(this.#whole()) : formatMicro(this.#micro);
  }

  /** The double nearest to the sum. */
  toNumber(): number {
    return this.#rest ? Number(this.toString()) : this.#micro / MICRO;
  }

  /** The double nearest to the mean of `count` readings. */
  mean(count: number): number {
    if (!this.#rest) return this.#micro / (MICRO * count);
    const { digits, scale } = this.#whole();
    return quotient(digits, 10n ** BigInt(scale) * BigInt(count));
  }

  #addDecimal(decimal: Decimal): void {
    this.#rest = this.#rest ? plus(this.#rest, decimal) : decimal;
  }

  #whole(): Decimal {
    const micro = { digits: BigInt(this.#micro), scale: 6 };
    return this.#rest ? plus(this.#rest, micro) : micro;
  }
}

/** Parses the text of a sum. */
export function sumOf(text: string): ExactSum {
  const sum = new ExactSum();
  sum.addText(text);
  return sum;
}

function plus(one: Decimal, other: Decimal): Decimal {
  const scale = Math.max(one.scale, other.scale);
  return { digits: atScale(one, scale) + atScale(other, scale), scale };
}

function atScale({ digits, scale }: Decimal, wanted: number): bigint {
  return digits * 10n ** BigInt(wanted - scale);
}

/** Parses the text of a JavaScript number: `-12.5`, `1e-7`, `1e+21`. */
function parseDecimal(text: string): Decimal {
  const [mantissa = '0', exponent = '0'] = text.split('e');
  const [whole = '0', fraction = ''] = mantissa.split('.');
  const digits = BigInt(whole + fraction);
  const scale = fraction.length - Number(exponent);
  return scale >= 0 ? { digits, scale } : { digits: digits * 10n ** BigInt(-scale), scale: 0 };
}

function formatDecimal({ digits, scale }: Decimal): string {
  const text = String(digits < 0n ? -digits : digits).padStart(scale + 1, '0');
  const whole = text.slice(0, text.length - scale);
  const fraction = text.slice(text.length - scale).replace(/0+$/, '');
  return `${digits < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

function formatMicro(micro: number): string {
  const isShort = Math.abs(micro) < 1e15;
  const short = String(micro / MICRO);
  return isShort && !short.includes('e') ? short : formatDecimal({ digits: BigInt(micro), scale: 6 });
}

/**
 * The double nearest to a ratio. Computes 30 digits of the quotient, and one more that is non-zero if further
 * digits follow, and parses this text as a number.
 */
function quotient(numerator: bigint, denominator: bigint): number {
  const size = (value: bigint) => String(value).replace('-', '').length;
  const shift = Math.max(0, 30 + size(denominator) - size(numerator));
  const scaled = numerator * 10n ** BigInt(shift);
  const rest = scaled % denominator === 0n ? '0' : '1';
  return Number(`${scaled / denominator}${rest}e-${shift + 1}`);
}
