/** The bars of the plan's lanes, from the changes of the plan. Pure. */
import type { PlanChange, PlanPlace } from '../api/types.ts';

export const LANES = ['EMERGENCY', 'HIGH', 'SLOT', 'NORMAL', 'MODE'] as const;
export type Lane = (typeof LANES)[number];

/** `active`: the plant is to follow it; `waiting`: it waits below another one. */
export type BarState = 'active' | 'waiting';

export interface Bar {
  lane: Lane;
  fromMs: number;
  toMs: number;
  state: BarState;
  /** Whether it ended before now. */
  isPast: boolean;
  place: PlanPlace;
}

export interface Shown {
  fromMs: number;
  toMs: number;
  nowMs: number;
  /** Whether there are later changes that were not read: nothing is known after the last one. */
  isCut: boolean;
}

/** STOP and HOLD are emergencies of the site, which share the lane with setpoints of that priority. */
function laneOf(level: PlanPlace['level']): Lane {
  return level === 'STOP' || level === 'HOLD' ? 'EMERGENCY' : level;
}

function nameOf({ level, commandId, slot, mode }: PlanPlace): string {
  return `${level}|${commandId}|${slot}|${mode}`;
}

/**
 * The bars between two moments. `changes`: in order; the first may be from before. What
 * was in force after the last one goes on to its end, or to the end of the range.
 */
export function barsOf(changes: readonly PlanChange[], { fromMs, toMs, nowMs, isCut }: Shown): Bar[] {
  const bars: Bar[] = [];
  const open = new Map<string, Bar>();
  const close = (key: string, atMs: number) => {
    const bar = open.get(key);
    if (!bar) return;
    open.delete(key);
    bar.toMs = atMs;
    if (bar.toMs > fromMs && bar.fromMs < toMs && bar.toMs > bar.fromMs)
      bars.push({ ...bar, fromMs: Math.max(bar.fromMs, fromMs), toMs: Math.min(bar.toMs, toMs) });
  };
  for (const change of changes) {
    const atMs = Date.parse(change.at);
    const present = new Map<string, { place: PlanPlace; state: BarState }>();
    for (const place of change.waiting) present.set(`waiting|${nameOf(place)}`, { place, state: 'waiting' });
    present.set(`active|${nameOf(change.target)}`, { place: change.target, state: 'active' });
    for (const key of [...open.keys()]) if (!present.has(key)) close(key, atMs);
    for (const [key, { place, state }] of present) {
      const known = open.get(key);
      if (known) known.place = place;
      else open.set(key, { lane: laneOf(place.level), fromMs: atMs, toMs: atMs, state, isPast: true, place });
    }
  }
  for (const [key, bar] of [...open]) {
    if (isCut) {
      close(key, Date.parse(changes.at(-1)?.at ?? ''));
      continue;
    }
    const until = bar.place.until === null ? toMs : Date.parse(bar.place.until);
    bar.isPast = until < nowMs;
    close(key, Math.min(until, toMs));
  }
  return bars;
}
