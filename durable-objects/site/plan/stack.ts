/**
 * The plan stack: which of a site's setpoints stands on top now, and which end by that [C-7.7]. Pure.
 *
 *   EMERGENCY setpoint > emergency STOP or HOLD > HIGH > slot of a schedule > NORMAL > the mode in force
 *
 * Within a level the newer (recorded later) replaces the older for good, from the moment on at which both windows are
 * open; between levels the lower one waits below and comes back.
 */
import type { EmergencyType, OperatingMode } from '../../../protocol/enums.ts';

/** Highest first; a slot stands above a NORMAL setpoint. */
export const LEVELS = ['EMERGENCY', 'HIGH', 'NORMAL'] as const;
export type Level = (typeof LEVELS)[number];

/** The slot that its schedule has at a moment; `sequence`: of the schedule's command. */
export interface SlotPlace {
  readonly sequence: number;
  readonly slotIndex: number;
}

/** A setpoint with its window; it stands by itself, whatever has become of its command. */
export interface PlanEntry {
  /** Of its command: the newer has the higher. */
  readonly sequence: number;
  readonly level: Level;
  readonly startsAtMs: number;
  /** Null: until something replaces it. */
  readonly endsAtMs: number | null;
}

/** An emergency that holds until a mode change that came after it. */
export interface HeldEmergency {
  sequence: number;
  type: EmergencyType;
}

/** What the plant is told: by an entry, by a slot, by an emergency, or the mode in force where none of them stands. */
export type Target =
  | { by: 'entry'; sequence: number }
  | ({ by: 'slot' } & SlotPlace)
  | { by: 'emergency'; sequence: number }
  | { by: 'mode'; mode: OperatingMode };

/**
 * What the plant was told last: by the plan, or by somebody's mode change that it has not acknowledged yet. `isAgain`:
 * an emergency that the plan has told once more.
 */
export type Told =
  | Extract<Target, { by: 'entry' | 'slot' | 'mode' }>
  | { by: 'emergency'; sequence: number; isAgain?: boolean }
  | { by: 'unanswered mode'; sequence: number; mode: OperatingMode }
  /** It may do none of that: whatever the plan says is to be told. */
  | { by: 'unknown' };

export interface Standing<Entry extends PlanEntry = PlanEntry> {
  top: Entry | undefined;
  /** Their windows are over. */
  over: Entry[];
  /** Replaced for good, by which, and when. */
  replaced: { entry: Entry; by: number; atMs: number }[];
}

export function isOpen({ startsAtMs, endsAtMs }: PlanEntry, atMs: number): boolean {
  return startsAtMs <= atMs && !isOver({ endsAtMs }, atMs);
}

export function isOver({ endsAtMs }: Pick<PlanEntry, 'endsAtMs'>, atMs: number): boolean {
  return endsAtMs !== null && endsAtMs <= atMs;
}

/** The stack at a moment. Every start up to then is gone through in its order, so a site that slept misses none. */
export function standingAt<Entry extends PlanEntry>(entries: readonly Entry[], now: number): Standing<Entry> {
  const replaced = new Map<Entry, { by: number; atMs: number }>();
  const starts = [...new Set(entries.map(({ startsAtMs }) => startsAtMs).filter((atMs) => atMs <= now))];
  for (const atMs of starts.sort((left, right) => left - right)) {
    for (const level of LEVELS) {
      const open = entries.filter(
        (entry) => entry.level === level && !replaced.has(entry) && isOpen(entry, atMs),
      );
      const newest = newestOf(open);
      if (!newest) continue;
      for (const entry of open) if (entry !== newest) replaced.set(entry, { by: newest.sequence, atMs });
    }
  }
  const left = entries.filter((entry) => !replaced.has(entry));
  const open = left.filter((entry) => isOpen(entry, now));
  const highest = LEVELS.find((level) => open.some((entry) => entry.level === level));
  return {
    top: open.find((entry) => entry.level === highest),
    over: left.filter((entry) => isOver(entry, now)),
    replaced: [...replaced].map(([entry, how]) => ({ entry, ...how })),
  };
}

/** The one answer to what the plant is told now. */
export function targetOf(
  top: PlanEntry | undefined,
  emergency: HeldEmergency | undefined,
  slot: SlotPlace | undefined,
  mode: OperatingMode,
): Target {
  const isBelow = emergency ? top?.level !== 'EMERGENCY' : slot !== undefined && top?.level === 'NORMAL';
  if (top && !isBelow) return { by: 'entry', sequence: top.sequence };
  if (emergency) return { by: 'emergency', sequence: emergency.sequence };
  if (slot) return { by: 'slot', sequence: slot.sequence, slotIndex: slot.slotIndex };
  return { by: 'mode', mode };
}

/** Whether a plant that was told this is to be told nothing else. One that was never told does as its mode says. */
export function saysTheSame(told: Told | undefined, target: Target): boolean {
  if (target.by === 'mode') {
    return !told || told.by === 'unanswered mode' || (told.by === 'mode' && told.mode === target.mode);
  }
  if (target.by === 'slot') {
    return told?.by === 'slot' && told.sequence === target.sequence && told.slotIndex === target.slotIndex;
  }
  return told?.by === target.by && told.sequence === target.sequence;
}

/** When time alone changes the stack next. */
export function nextChangeMs(entries: readonly PlanEntry[], now: number): number | undefined {
  let next: number | undefined;
  for (const { startsAtMs, endsAtMs } of entries) {
    for (const atMs of [startsAtMs, endsAtMs]) {
      if (atMs !== null && atMs > now && (next === undefined || atMs < next)) next = atMs;
    }
  }
  return next;
}

function newestOf<Entry extends PlanEntry>(entries: readonly Entry[]): Entry | undefined {
  return entries.reduce<Entry | undefined>(
    (newest, entry) => (newest && newest.sequence > entry.sequence ? newest : entry),
    undefined,
  );
}
