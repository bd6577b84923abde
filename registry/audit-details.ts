/** Details of an audit row, cut to what a row may hold [C-14.3]. */
import { sha256Hex } from '../durable-objects/secrets/hmac.ts';

type Details = Readonly<Record<string, unknown>>;

/** Bytes of JSON. */
export const AUDIT_DETAILS_BYTES = 1_024;
const MAX_VALUE_CHARS = 200;
const encoder = new TextEncoder();

/**
 * Replaces each long value by the SHA-256 of its JSON. If the details are still too long, only the names of
 * the fields are kept; `more` is set if some names were left out, too.
 */
export function boundedDetails(details: Details): Details {
  const short = shortened(details);
  if (fits(short)) return short;
  const fields: string[] = [];
  for (const name of Object.keys(details)) {
    if (!fits({ fields: [...fields, name], more: true })) return { fields, more: true };
    fields.push(name);
  }
  return { fields };
}

function fits(details: Details): boolean {
  return encoder.encode(JSON.stringify(details)).length <= AUDIT_DETAILS_BYTES;
}

function shortened(details: Details): Details {
  return Object.fromEntries(Object.entries(details).map(([name, value]) => [name, shortenedValue(value)]));
}

function shortenedValue(value: unknown): unknown {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return shortened({ ...value });
  const json = JSON.stringify(value) ?? 'null';
  return json.length <= MAX_VALUE_CHARS ? value : `sha256:${sha256Hex(json)}`;
}
