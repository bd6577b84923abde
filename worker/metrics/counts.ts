/**
 * The Worker's own counters, in the memory of its isolate. They are reported to a counting object after a
 * request, at most every five seconds, and before each answer of `GET /metrics`. An isolate that ends loses
 * unreported counts; a call whose answer is lost may count twice.
 */
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { Tally } from '../../durable-objects/metrics/counts.ts';
import type { CountKey } from '../../durable-objects/metrics/families.ts';
import { anyCounting } from '../../durable-objects/metrics/report.ts';
import type { AppContext, Env } from '../env.ts';

const PAUSE_MS = 5_000;

const tally = new Tally();
let reportedAtMs = 0;

/** Adds one to a counter, without waiting for a report. */
export function count(c: Context<AppContext>, key: CountKey): void {
  tally.add(key);
  const now = Date.now();
  // `Math.abs`, because after the clock was set back `reportedAtMs` is in the future, and it must not delay
  // reports until then.
  if (Math.abs(now - reportedAtMs) < PAUSE_MS) return;
  reportedAtMs = now;
  c.executionCtx.waitUntil(reportCounts(c.env));
}

/** Resolves when a counting object has the counts, or when the call failed: the next report then includes them. */
export async function reportCounts(env: Env): Promise<void> {
  if (!tally.isEmpty) await tally.report((counts) => anyCounting(env).add(counts));
}

/** Middleware that counts the answers of the routes after it. */
export const countAnswers = createMiddleware<AppContext>(async (c, next) => {
  await next();
  count(c, `answers/${c.res.status}`);
});
