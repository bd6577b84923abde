/**
 * Calculates schedule slots: which slot is due, until when, and what a newer schedule leaves of an older one
 * [C-7.9]. Pure. A slot is [mode, kW or null for only the mode], plus the cut that ended it early, if any.
 *
 *   older   |  0  |  1  |  2  |  3  |        remaining:  0, the beginning of 1, and 3
 *   newer            |  0  |  1  |
 */
import type { OperatingMode } from '../../../protocol/enums.ts';

/** Why a slot ended early: replaced by a newer schedule, or skipped for the reason given. */
export type Cut = readonly [atMs: number, why: 'REPLACED' | (string & {})];
export type StoredSlot = readonly [mode: OperatingMode, targetKw: number | null, cut?: Cut];

/** The slot of a schedule; `sequence`: of the schedule's command. */
export interface SlotPlace {
  readonly sequence: number;
  readonly slotIndex: number;
}

/** [startsAtMs, endsAtMs) in slots of one length. */
export interface SlotWindow {
  readonly startsAtMs: number;
  readonly endsAtMs: number;
  readonly slotMs: number;
}

/** The slot due at a given time; `endsAtMs`: its end, or an earlier one if a newer schedule replaces it. */
export interface DueSlot {
  slotIndex: number;
  mode: OperatingMode;
  targetKw: number | null;
  endsAtMs: number;
}

/** The slot at `atMs`; undefined outside the window or if the slot ended earlier. */
export function slotAt(window: SlotWindow, slots: readonly StoredSlot[], atMs: number): DueSlot | undefined {
  const slotIndex = Math.floor((atMs - window.startsAtMs) / window.slotMs);
  const slot = slots[slotIndex];
  if (!slot) return undefined;
  const [mode, targetKw] = slot;
  const endsAtMs = endOf(window, slot, slotIndex);
  return atMs < endsAtMs ? { slotIndex, mode, targetKw, endsAtMs } : undefined;
}

/** When the active slot changes next after `atMs`: the start of the window, or the start or end of a slot. */
export function nextBoundaryMs(
  window: SlotWindow,
  slots: () => readonly StoredSlot[],
  atMs: number,
): number | undefined {
  if (atMs < window.startsAtMs) return window.startsAtMs;
  if (atMs >= window.endsAtMs) return undefined;
  const slotIndex = Math.floor((atMs - window.startsAtMs) / window.slotMs);
  return slotAt(window, slots(), atMs)?.endsAtMs ?? slotStart(window, slotIndex + 1);
}

/** Ends one slot at `atMs`; a slot that was cut earlier does not change. */
export function cutSlot(
  slots: readonly StoredSlot[],
  slotIndex: number,
  atMs: number,
  why: Cut[1],
): StoredSlot[] {
  return slots.map((slot, index) => {
    const [mode, targetKw, cut] = slot;
    return index !== slotIndex || (cut && cut[0] <= atMs) ? slot : [mode, targetKw, [atMs, why]];
  });
}

/** The slots after a newer schedule has replaced those in its window; past slots do not change. */
export function cutByNewer(
  window: SlotWindow,
  slots: readonly StoredSlot[],
  newer: SlotWindow,
  now: number,
): StoredSlot[] {
  return slots.reduce<readonly StoredSlot[]>((left, _slot, index) => {
    const [startsAtMs, endsAtMs] = [slotStart(window, index), slotStart(window, index + 1)];
    const isMet = newer.startsAtMs < endsAtMs && startsAtMs < newer.endsAtMs && endsAtMs > now;
    return isMet ? cutSlot(left, index, Math.max(startsAtMs, newer.startsAtMs), 'REPLACED') : left;
  }, slots) as StoredSlot[];
}

/** The end of the last remaining slot; the start of the window if none remains. */
export function lastEndMs(window: SlotWindow, slots: readonly StoredSlot[]): number {
  return slots.reduce((lastMs, slot, index) => {
    const endsAtMs = endOf(window, slot, index);
    return endsAtMs > slotStart(window, index) ? Math.max(lastMs, endsAtMs) : lastMs;
  }, window.startsAtMs);
}

export function slotStart({ startsAtMs, slotMs }: SlotWindow, slotIndex: number): number {
  return startsAtMs + slotIndex * slotMs;
}

/**
 * Lists the skipped slots with reasons: `slots 4-6, 9 skipped: CONSTRAINT_VIOLATION`; undefined if there are
 * none.
 */
export function skippedText(slots: readonly StoredSlot[]): string | undefined {
  const byReason = new Map<string, number[]>();
  slots.forEach(([, , cut], index) => {
    if (!cut || cut[1] === 'REPLACED') return;
    byReason.set(cut[1], [...(byReason.get(cut[1]) ?? []), index]);
  });
  if (byReason.size === 0) return undefined;
  return [...byReason].map(([why, indexes]) => `${rangesText(indexes)} skipped: ${why}`).join('; ');
}

function rangesText(indexes: readonly number[]): string {
  const ranges: [first: number, last: number][] = [];
  for (const index of indexes) {
    const last = ranges.at(-1);
    if (last?.[1] === index - 1) last[1] = index;
    else ranges.push([index, index]);
  }
  const texts = ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`));
  return `${indexes.length > 1 ? 'slots' : 'slot'} ${texts.join(', ')}`;
}

function endOf(window: SlotWindow, [, , cut]: StoredSlot, slotIndex: number): number {
  const endsAtMs = slotStart(window, slotIndex + 1);
  return cut ? Math.min(cut[0], endsAtMs) : endsAtMs;
}
