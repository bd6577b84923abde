/**
 * The plan stack: which of a site's setpoints is active now, and which ones it permanently replaces [C-7.7].
 * Pure.
 *
 *   EMERGENCY setpoint > emergency STOP or HOLD > HIGH > slot of a schedule > NORMAL > the mode in force
 *
 * Within a level the newer (recorded later) permanently replaces the older as soon as both windows are open.
 * Between levels the lower one waits and becomes active again when the higher one ends.
 */
import type { OperatingMode } from '../../../protocol/enums.ts';
import type { SlotPlace } from '../schedule/slots.ts';
import type { ActiveEmergency } from '../site-view.ts';

/** Highest first; a slot ranks above a NORMAL setpoint. */
export const LEVELS = ['EMERGENCY', 'HIGH', 'NORMAL'] as const;
export type Level = (typeof LEVELS)[number];

/** A setpoint with its window; it stays in the plan even after its command has ended. */
export interface PlanEntry {
  /** Sequence of its command; a newer setpoint has a higher one. */
  readonly sequence: number;
  readonly level: Level;
  readonly startsAtMs: number;
  /** Null: open-ended, until it is replaced. */
  readonly endsAtMs: number | null;
}

/** What the plant should do now: a setpoint, a slot, an emergency, or the mode in force when none of them is active. */
export type Target =
  | { by: 'entry'; sequence: number }
  | ({ by: 'slot' } & SlotPlace)
  | { by: 'emergency'; sequence: number }
  | { by: 'mode'; mode: OperatingMode };

/**
 * The target that the plant was sent last, by the plan, by an emergency's own dispatches or by a partner's mode
 * change that it has not acknowledged yet. `isAgain`: the plan has repeated the emergency.
 */
export type Sent =
  | Extract<Target, { by: 'entry' | 'slot' | 'mode' }>
  | { by: 'emergency'; sequence: number; isAgain?: boolean }
  | { by: 'unanswered mode'; sequence: number; mode: OperatingMode }
  /** It is not known what the plant follows, so the current target must be sent. */
  | { by: 'unknown' };

export interface Stack<Entry extends PlanEntry = PlanEntry> {
  top: Entry | undefined;
  /** Entries whose windows are over. */
  over: Entry[];
  /** Permanently replaced entries, by which sequence and when. */
  replaced: { entry: Entry; by: number; atMs: number }[];
}

export function isOpen({ startsAtMs, endsAtMs }: PlanEntry, atMs: number): boolean {
  return startsAtMs <= atMs && !isOver({ endsAtMs }, atMs);
}

export function isOver({ endsAtMs }: Pick<PlanEntry, 'endsAtMs'>, atMs: number): boolean {
  return endsAtMs !== null && endsAtMs <= atMs;
}

/**
 * The stack at `now`. Replays every start until then in order, so a site that slept misses no replacement.
 */
export function stackAt<Entry extends PlanEntry>(entries: readonly Entry[], now: number): Stack<Entry> {
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

/** Decides what the plant should do now; no other code decides it. */
export function targetOf(
  top: PlanEntry | undefined,
  emergency: ActiveEmergency | undefined,
  slot: SlotPlace | undefined,
  mode: OperatingMode,
): Target {
  const isBelow = emergency ? top?.level !== 'EMERGENCY' : slot !== undefined && top?.level === 'NORMAL';
  if (top && !isBelow) return { by: 'entry', sequence: top.sequence };
  if (emergency) return { by: 'emergency', sequence: emergency.sequence };
  if (slot) return { by: 'slot', sequence: slot.sequence, slotIndex: slot.slotIndex };
  return { by: 'mode', mode };
}

/** Whether the target was already sent. If nothing was ever sent, the plant follows the mode in force. */
export function isAlreadySent(sent: Sent | undefined, target: Target): boolean {
  if (target.by === 'mode') {
    return !sent || sent.by === 'unanswered mode' || (sent.by === 'mode' && sent.mode === target.mode);
  }
  if (target.by === 'slot') {
    return sent?.by === 'slot' && sent.sequence === target.sequence && sent.slotIndex === target.slotIndex;
  }
  return sent?.by === target.by && sent.sequence === target.sequence;
}

/** When the next window starts or ends. */
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
