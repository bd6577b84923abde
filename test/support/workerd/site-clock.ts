/**
 * The clock of a test file. Objects share the isolate with their tests, so one fake Date is the time of all of them. It
 * is years ahead of the real time, so the runtime never runs an alarm: `passTime` runs each when it is due.
 */
import { runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test';
import { beforeEach, expect, vi } from 'vitest';
import { numberOf, rowsOf } from './site-rows.ts';
import { siteOf, vhostOf } from './world.ts';

export const START_MS = Date.parse('2030-03-05T09:00:00.000Z');
export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** An agenda that runs more often than this in one `passTime` has a bug: it is due again and again. */
const MAX_RUNS = 500;

/** Call once per file: every test begins at START_MS, and nothing but `setClock` and `passTime` moves the clock. */
export function holdClock(): void {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date'], now: START_MS });
  });
}

/** Stops the clock at the present moment for the rest of the test, and returns that moment. */
export function stopClock(): number {
  const now = Date.now();
  vi.useFakeTimers({ toFake: ['Date'], now });
  return now;
}

/** Moves the clock alone: alarms stay due. */
export function setClock(epochMs: number): void {
  vi.setSystemTime(epochMs);
}

/** When a site's alarm is due; null where none is set. */
export async function alarmAt(siteId: string): Promise<number | null> {
  return await alarmOf(siteOf(siteId));
}

/** When the alarm of a key's vhost is due; null where none is set. */
export async function vhostAlarmAt({ id }: { id: string }): Promise<number | null> {
  return await alarmOf(vhostOf(id));
}

async function alarmOf(stub: DurableObjectStub): Promise<number | null> {
  return await runInDurableObject(stub, (_object, state) => state.storage.getAlarm());
}

/** Lets time pass for a site: each alarm runs at its own moment, as on the platform. Returns how many ran. */
export async function passTime(siteId: string, durationMs: number): Promise<number> {
  return await passTimeOf(siteOf(siteId), durationMs, () => storeJournals(siteId));
}

/** The same for the vhost of a key. */
export async function passVhostTime({ id }: { id: string }, durationMs: number): Promise<number> {
  return await passTimeOf(vhostOf(id), durationMs);
}

async function passTimeOf(
  stub: DurableObjectStub,
  durationMs: number,
  beforeEachAlarm?: () => Promise<void>,
): Promise<number> {
  const untilMs = Date.now() + durationMs;
  for (let runs = 0; runs < MAX_RUNS; runs++) {
    await beforeEachAlarm?.();
    const dueMs = await alarmOf(stub);
    if (dueMs === null || dueMs > untilMs) {
      vi.setSystemTime(untilMs);
      return runs;
    }
    vi.setSystemTime(Math.max(dueMs, Date.now()));
    await runDurableObjectAlarm(stub);
  }
  throw new Error('the agenda does not come to rest');
}

/** Lets the vhosts that have events of a site store them at once, and not after a second: until then the site keeps them. */
export async function storeJournals(siteId: string): Promise<void> {
  const lanes = await rowsOf<{ lane: string }>(
    siteId,
    "SELECT DISTINCT lane FROM outbox WHERE lane <> 'registry'",
  );
  for (const { lane } of lanes) await vhostOf(lane).readJournal({ after: 0, limit: 0 });
}

/** Lets a site deliver its whole outbox, which takes a few seconds of the clock. */
export async function passUntilSent(siteId: string): Promise<void> {
  const waiting = 'SELECT count(*) FROM outbox';
  for (let looks = 0; looks < 60 && (await numberOf(siteId, waiting)) > 0; looks++) {
    await storeJournals(siteId);
    await passTime(siteId, SECOND);
  }
  expect(await numberOf(siteId, waiting), 'events that wait').toBe(0);
}
