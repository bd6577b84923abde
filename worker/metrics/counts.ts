/**
 * What the Worker itself counts, in the memory of its isolate: told to the Figures object at most every five seconds, behind
 * a request. What an isolate counted since its last word goes with it; a call whose answer is lost may count twice.
 */
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import type { CountKey } from '../../durable-objects/figures/families.ts';
import { figuresOf } from '../../durable-objects/figures/stub.ts';
import { Tally } from '../../durable-objects/figures/tally.ts';
import { reasonOf } from '../../durable-objects/object/reason.ts';
import type { AppContext, Env } from '../env.ts';

const PAUSE_MS = 5_000;

const tally = new Tally();
let toldAtMs = 0;

/** One more; nothing waits for it. */
export function count(c: Context<AppContext>, key: CountKey): void {
  tally.add(key);
  const now = Date.now();
  // A clock that was set back holds nothing up.
  if (Math.abs(now - toldAtMs) < PAUSE_MS) return;
  toldAtMs = now;
  c.executionCtx.waitUntil(tellCounts(c.env));
}

/** Resolves when the Figures object has them, or it failed: they are told again then. */
export async function tellCounts(env: Env): Promise<void> {
  if (tally.isEmpty) return;
  const told = tally.take();
  try {
    await figuresOf(env).add(told);
  } catch (error) {
    console.warn('counts not told', { reason: reasonOf(error) });
    tally.addAll(told);
  }
}

/** Counts the answers of what stands behind it. */
export const countAnswers = createMiddleware<AppContext>(async (c, next) => {
  await next();
  count(c, `answers/${c.res.status}`);
});
