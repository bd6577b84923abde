/**
 * The rules of a dispatch: when it is looked at, what an ack makes of it, how its command ends. Pure; the Site writes.
 *
 *   WAITING ──device there──► SENT ──ack──► RECEIVED ─► IN_PROGRESS ─► COMPLETED | FAILED
 *      │ expires: FAILED        │ 30 s: again,   │ 15 min: NO_RESULT; a setpoint's ends
 *      ▼ EXPIRED, if untold     ▼ then NO_ACK    ▼ by its plan entry
 */
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Window } from '../command/kind/kind.ts';
import type { DispatchRow, DispatchState } from './rows.ts';

/** A command's window as its log row and its dispatches keep it. */
export interface DispatchWindow {
  validFromMs: number | null;
  validUntilMs: number | null;
  /** When a waiting dispatch may go out, and when it is too late. */
  notBeforeMs: number;
  expiresAtMs: number | null;
}

export function windowOf({ fromMs, untilMs, waitsMs, isToldAtOnce }: Window, now: number): DispatchWindow {
  const waitsUntilMs = waitsMs === undefined ? null : now + waitsMs;
  return {
    validFromMs: fromMs ?? null,
    validUntilMs: untilMs ?? null,
    notBeforeMs: isToldAtOnce ? 0 : (fromMs ?? 0),
    expiresAtMs: untilMs ?? waitsUntilMs,
  };
}

/** When one that waits without an end is looked at again: nothing waits unseen. */
const WAITING_RECHECK_MS = 24 * 3_600_000;

/** When a waiting dispatch must be looked at again. */
export function waitingDue(row: Pick<DispatchRow, 'not_before_ms' | 'expires_at_ms'>, now: number): number {
  if (row.not_before_ms > now) return Math.min(row.not_before_ms, row.expires_at_ms ?? row.not_before_ms);
  return row.expires_at_ms ?? now + WAITING_RECHECK_MS;
}

/** When a dispatch that was sent must be looked at: its ack is late. */
export function ackDue(now: number): number {
  return now + LIMIT.ackTimeoutMs;
}

/** Whether its device may know of it: it was sent at least once. */
export function wasTold(row: DispatchRow): boolean {
  return row.tries > 0 || row.state !== 'WAITING';
}

export function isExpired(row: DispatchRow, now: number): boolean {
  return row.expires_at_ms !== null && row.expires_at_ms <= now;
}

const RANK: Record<DispatchState, number> = {
  WAITING: 0,
  SENT: 1,
  RECEIVED: 2,
  IN_PROGRESS: 3,
  COMPLETED: 4,
  FAILED: 4,
};

/** The new state that an ack brings, or undefined when it is lower or the same [C-3.9]. */
export function advance(state: DispatchState, ack: DeviceAckStatus): DispatchState | undefined {
  return RANK[ack] > RANK[state] ? ack : undefined;
}

/** Whether the device has it and has not ended it. */
export function isHeld(state: DispatchState): boolean {
  return state === 'RECEIVED' || state === 'IN_PROGRESS';
}

export function hasEnded(state: DispatchState): boolean {
  return RANK[state] === RANK.COMPLETED;
}

/** The sub-devices that it is for; none where it is for the whole site. */
export function targetsOf({ payload }: Pick<DispatchRow, 'payload'>): string[] {
  const { targets } = JSON.parse(payload) as { targets?: { deviceId: string }[] };
  return targets?.map(({ deviceId }) => deviceId) ?? [];
}

/**
 * An emergency, a configuration and schedules: no other device makes up for the one that it was sent to, and none is left
 * out.
 */
export function isForWhoeverServes({ action }: Pick<DispatchRow, 'action'>): boolean {
  return action.startsWith('EMERGENCY_') || action === 'CONFIG_SET' || isOfSchedule({ action });
}

/** It waits while an emergency holds: the plant is told of no plan then [C-7.7]. */
export function isOfSchedule({ action }: Pick<DispatchRow, 'action'>): boolean {
  return action.startsWith('SCHEDULE_');
}

const FOR_THE_SITE = ['SITE_SETPOINT', 'MODE_CHANGE', 'CONFIG_SET', 'SCHEDULE_SET', 'SCHEDULE_CANCEL'];

/** The reason of what a device itself has failed: its ack says no more. */
export const DEVICE_FAILED = 'device answered FAILED';

/** As many as a batch may name; an emergency may be for more devices. */
const MAX_NAMES = LIMIT.commandsPerBatch;
/** Rows come in any order, an answer in one: BESS-2 before BESS-10. */
const BY_NUMBER = new Intl.Collator('en', { numeric: true });

type Cause = readonly [reason: string | null, names: readonly string[]];

/** How a command ends once all its dispatches have: COMPLETED if all are, else FAILED naming the devices [C-7.8]. */
export function outcomeOf(rows: readonly DispatchRow[]): {
  status: 'COMPLETED' | 'FAILED';
  reason: string | null;
} {
  const failed = rows.filter((row) => row.state === 'FAILED');
  if (failed.length === 0) return { status: 'COMPLETED', reason: null };
  const namesBy = new Map<string | null, string[]>();
  for (const row of failed) {
    const names = namesBy.get(row.reason) ?? [];
    namesBy.set(row.reason, [...names, ...namesOf(row)]);
  }
  return { status: 'FAILED', reason: [...namesBy].sort(wordsFirst).map(causeText).join('; ') };
}

/** What is for the whole site has no other name than its reason. */
function namesOf({ reason, payload, action, device_id: deviceId }: DispatchRow): string[] {
  if (reason && FOR_THE_SITE.includes(action)) return [];
  const targets = targetsOf({ payload });
  return targets.length > 0 ? targets : [deviceId];
}

/** A word is for programs: it stands at the beginning, of several causes too. */
function wordsFirst([one]: Cause, [other]: Cause): number {
  if (one === null || other === null) return one === null ? 1 : -1;
  return one < other ? -1 : 1;
}

function causeText([reason, all]: Cause): string {
  const names = [...new Set(all)].sort(BY_NUMBER.compare);
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : '';
  const told = `${names.slice(0, MAX_NAMES).join(', ')}${more}`;
  if (reason === null) return `${told}: ${DEVICE_FAILED}`;
  return told === '' ? reason : `${reason}: ${told}`;
}
