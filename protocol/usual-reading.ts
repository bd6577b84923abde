/**
 * The telemetry message that most devices send, recognised without the schema: compact JSON, its four members in the
 * order of the specification, names of printable ASCII. Never an opinion of its own: a message in doubt goes to the schema
 * (`device-message.ts`), and for one that is recognised the schema has the same result.
 */
import { LIMIT } from './limits.ts';

export interface UsualReading {
  ts: number;
  nonce: string;
  data: Record<string, number>;
  sig: string;
  /** The characters of `data` as they were sent. */
  dataText: string;
}

/** Excludes backslashes, spaces and inner braces, so that the first brace ends `data`. */
const NAME_OR_VALUE = '[!-\\[\\]-z|~]*';
const USUAL = new RegExp(
  `^\\{"ts":(0|[1-9]\\d{0,15}),"nonce":"([ !#-\\[\\]-~]+)","data":(\\{${NAME_OR_VALUE}\\}),"sig":"([0-9a-f]{64})"\\}$`,
);

/** Undefined for a message in doubt. */
export function usualReading(text: string): UsualReading | undefined {
  const [, ts = '', nonce = '', dataText = '', sig = ''] = USUAL.exec(text) ?? [];
  if (sig === '' || nonce.length > LIMIT.nonceBytes) return undefined;
  const data = numbersOf(dataText);
  return data && { ts: Number(ts), nonce, data, sig, dataText };
}

/** The members of a JSON object, if all are numbers within the limits. */
function numbersOf(text: string): Record<string, number> | undefined {
  if (text.includes('__proto__')) return undefined;
  let data: Record<string, unknown>;
  try {
    data = JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  let count = 0;
  for (const name in data) {
    const value = data[name];
    count += 1;
    if (typeof value !== 'number' || !(Math.abs(value) <= LIMIT.signalMagnitude)) return undefined;
    if (name === '' || name.length > LIMIT.signalNameCharacters) return undefined;
  }
  return count <= LIMIT.signalsPerMessage ? (data as Record<string, number>) : undefined;
}
