/**
 * The slots of schedules in time: which one is due, until when, and what newer schedules leave of older ones [C-7.9].
 * Pure. A slot is [mode, kW or null for the mode alone], and what ended it early, if anything did.
 *
 *   older   |  0  |  1  |  2  |  3  |        what is left of it:  0, the beginning of 1, and 3
 *   newer            |  0  |  1  |
 */
import type { OperatingMode } from '../../../protocol/enums.ts';

/** Why a slot ended early: a newer schedule has it, or it was skipped, for that reason. */
export type Cut = readonly [atMs: number, why: 'REPLACED' | (string & {})];
export type KeptSlot = readonly [mode: OperatingMode, targetKw: number | null, cut?: Cut];

/** [startsAtMs, endsAtMs) in slots of one length. */
export interface SlotWindow {
  readonly startsAtMs: number;
  readonly endsAtMs: number;
  readonly slotMs: number;
}

/** A slot as it is due at a moment; `endsAtMs`: its end, or that which a newer schedule has put to it. */
export interface DueSlot {
  slotIndex: number;
  mode: OperatingMode;
  targetKw: number | null;
  endsAtMs: number;
}

/** The slot of a moment within the window, unless it has ended by then. */
export function slotAt(window: SlotWindow, slots: readonly KeptSlot[], atMs: number): DueSlot | undefined {
  const slotIndex = Math.floor((atMs - window.startsAtMs) / window.slotMs);
  const slot = slots[slotIndex];
  if (!slot) return undefined;
  const [mode, targetKw] = slot;
  const endsAtMs = endOf(window, slot, slotIndex);
  return atMs < endsAtMs ? { slotIndex, mode, targetKw, endsAtMs } : undefined;
}

/** When the slot of a moment changes next: where its window begins, and where a slot of it begins or ends. */
export function nextBoundaryMs(
  window: SlotWindow,
  slots: () => readonly KeptSlot[],
  atMs: number,
): number | undefined {
  if (atMs < window.startsAtMs) return window.startsAtMs;
  if (atMs >= window.endsAtMs) return undefined;
  const slotIndex = Math.floor((atMs - window.startsAtMs) / window.slotMs);
  return slotAt(window, slots(), atMs)?.endsAtMs ?? slotStart(window, slotIndex + 1);
}

/** One slot ends early; one that has ended before stays so. */
export function cutSlot(
  slots: readonly KeptSlot[],
  slotIndex: number,
  atMs: number,
  why: Cut[1],
): KeptSlot[] {
  return slots.map((slot, index) => {
    const [mode, targetKw, cut] = slot;
    return index !== slotIndex || (cut && cut[0] <= atMs) ? slot : [mode, targetKw, [atMs, why]];
  });
}

/** What is left of slots once a newer schedule has its window; those that are over stay as they were. */
export function cutByNewer(
  window: SlotWindow,
  slots: readonly KeptSlot[],
  newer: SlotWindow,
  now: number,
): KeptSlot[] {
  return slots.reduce<readonly KeptSlot[]>((left, _slot, index) => {
    const [startsAtMs, endsAtMs] = [slotStart(window, index), slotStart(window, index + 1)];
    const isMet = newer.startsAtMs < endsAtMs && startsAtMs < newer.endsAtMs && endsAtMs > now;
    return isMet ? cutSlot(left, index, Math.max(startsAtMs, newer.startsAtMs), 'REPLACED') : left;
  }, slots) as KeptSlot[];
}

/** The end of the last slot of which anything is left; its window's start where nothing is. */
export function lastEndMs(window: SlotWindow, slots: readonly KeptSlot[]): number {
  return slots.reduce((lastMs, slot, index) => {
    const endsAtMs = endOf(window, slot, index);
    return endsAtMs > slotStart(window, index) ? Math.max(lastMs, endsAtMs) : lastMs;
  }, window.startsAtMs);
}

export function slotStart({ startsAtMs, slotMs }: SlotWindow, slotIndex: number): number {
  return startsAtMs + slotIndex * slotMs;
}

/** Those that were skipped and why, in words: `slots 4-6, 9: CONSTRAINT_VIOLATION`; undefined where none was. */
export function skippedText(slots: readonly KeptSlot[]): string | undefined {
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

function endOf(window: SlotWindow, [, , cut]: KeptSlot, slotIndex: number): number {
  const endsAtMs = slotStart(window, slotIndex + 1);
  return cut ? Math.min(cut[0], endsAtMs) : endsAtMs;
}
