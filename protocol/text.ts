/** Texts that are stored and shown to other people [C-1.0]. */
import * as z from 'zod';
import { utf8Length } from './utf8.ts';

/** Control characters, lone surrogates, and characters that change the direction of the text around them. */
const FORBIDDEN = /[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/u;
const MESSAGE = 'must not contain control characters, lone surrogates or bidirectional overrides';

/** A text without characters that could forge a line of a log or change how other text is shown. */
export const plainText = z.string().refine((text) => !FORBIDDEN.test(text), MESSAGE);

/** A JSON object of at most `maxBytes` as JSON, in which every key and every text is a plain text. */
export const plainObject = (maxBytes: number) =>
  z
    .record(z.string(), z.unknown())
    .refine(
      (value) => utf8Length(JSON.stringify(value)) <= maxBytes,
      `must be at most ${maxBytes} bytes as JSON`,
    )
    .refine(isPlain, MESSAGE);

function isPlain(value: unknown): boolean {
  if (typeof value === 'string') return !FORBIDDEN.test(value);
  if (typeof value !== 'object' || value === null) return true;
  return Object.entries(value).every(([key, inner]) => !FORBIDDEN.test(key) && isPlain(inner));
}
