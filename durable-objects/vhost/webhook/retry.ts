/** When a failed attempt is repeated [C-12.4]. */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** The pauses after the first failure, the second, and so on. After one more failure the webhook is disabled. */
const PAUSES_MS = [
  ...[5 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE],
  ...[2, 5, 10, 14, 20, 24].map((hours) => hours * HOUR),
];
/** How long a receiver may ask for later attempts: as long as it may fail. */
export const LONGEST_MS = PAUSES_MS.reduce((sum, pause) => sum + pause, 0);
/** Up to this share is added to each pause, so that webhooks that failed together do not return together. */
const JITTER = 0.2;
const MAX_RETRY_AFTER_MS = 24 * HOUR;

/** The pause after this many failures, counted from 1; undefined: no attempt is left. */
export function pauseMs(failures: number): number | undefined {
  const pause = PAUSES_MS[failures - 1];
  return pause === undefined ? undefined : Math.round(pause * (1 + JITTER * Math.random()));
}

/**
 * The pause that a receiver asks for with `Retry-After`: seconds, or a date. At least the shortest pause, and at most a
 * day. Null: it has none, or it is not valid.
 */
export function retryAfterMs(header: string | null, now: number): number | null {
  if (header === null) return null;
  const text = header.trim();
  // `Date.parse` takes almost any text for a date.
  const isDate = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text);
  const askedMs = /^\d+$/.test(text) ? Number(text) * SECOND : isDate ? Date.parse(text) - now : Number.NaN;
  if (Number.isNaN(askedMs)) return null;
  return Math.min(Math.max(askedMs, PAUSES_MS[0] ?? 0), MAX_RETRY_AFTER_MS);
}
