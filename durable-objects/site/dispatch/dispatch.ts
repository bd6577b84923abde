/**
 * The states of a dispatch: when it is due, which state an ack brings it to, how its command ends. Pure.
 *
 *   WAITING ──device there──► SENT ──ack──► RECEIVED ─► IN_PROGRESS ─► COMPLETED | FAILED
 *      │ expires: FAILED        │ 30 s: again,   │ 15 min: NO_RESULT; that of a setpoint,
 *      ▼ EXPIRED if never sent  ▼ then NO_ACK    ▼ a slot or a schedule has no deadline
 */
import type { DeviceCommandItem } from '../../../protocol/command.ts';
import { signableJson } from '../../../protocol/compact-json.ts';
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { DispatchRow, DispatchState } from './rows.ts';

/** One MQTT command that is to be dispatched to one device [C-7.8], [C-7.10]. */
export interface PlannedDispatch {
  deviceId: string;
  action: string;
  payloadText: string;
  /** The items of a batch that this dispatch carries; empty for other commands. */
  items: DeviceCommandItem[];
}

/**
 * The same MQTT command for each of the devices; undefined and repeated ids are left out. Leaves out a partner's
 * `reason`: it is for people, and a device that parses and prints the JSON could not verify the signature of a text with
 * characters beyond ASCII.
 */
export function toDevices(
  deviceIds: readonly (string | undefined)[],
  action: string,
  payload: object,
): PlannedDispatch[] {
  const { reason: _reason, ...sent } = payload as { reason?: unknown };
  const known = new Set(deviceIds.filter((id) => id !== undefined));
  return [...known].map((deviceId) => ({ deviceId, action, payloadText: signableJson(sent), items: [] }));
}

/** The window that a command states. */
export interface Window {
  fromMs?: number | undefined;
  untilMs?: number | undefined;
  /** How long the command waits for its device when it states no end. */
  waitsMs?: number;
  /** The field that states the end; absent: validUntil. */
  untilField?: string;
  /** True: the command is sent before `fromMs`, too. */
  isSentAtOnce?: boolean;
}

/** A command's window as its log row and its dispatches store it. */
export interface DispatchWindow {
  validFromMs: number | null;
  validUntilMs: number | null;
  /** When a waiting dispatch may be sent, and when it expires. */
  notBeforeMs: number;
  expiresAtMs: number | null;
}

export function windowOf({ fromMs, untilMs, waitsMs, isSentAtOnce }: Window, now: number): DispatchWindow {
  const waitsUntilMs = waitsMs === undefined ? null : now + waitsMs;
  return {
    validFromMs: fromMs ?? null,
    validUntilMs: untilMs ?? null,
    notBeforeMs: isSentAtOnce ? 0 : (fromMs ?? 0),
    expiresAtMs: untilMs ?? waitsUntilMs,
  };
}

/**
 * A waiting dispatch without an expiry is due again after this time: it is sent if its device is there, and
 * fails if its device no longer exists.
 */
const WAITING_RECHECK_MS = 24 * 3_600_000;

/** When a waiting dispatch is due. */
export function waitingDue(row: Pick<DispatchRow, 'not_before_ms' | 'expires_at_ms'>, now: number): number {
  if (row.not_before_ms > now) return Math.min(row.not_before_ms, row.expires_at_ms ?? row.not_before_ms);
  return row.expires_at_ms ?? now + WAITING_RECHECK_MS;
}

/** When a dispatch that was sent now is due, because its ack has not arrived in time. */
export function ackDue(now: number): number {
  return now + LIMIT.ackTimeoutMs;
}

/** Whether the dispatch was sent at least once, so that the device may have it. */
export function wasSent(row: DispatchRow): boolean {
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

/**
 * The state of a dispatch after an ack; undefined if the ack's state is not higher than the present one
 * [C-3.9].
 */
export function advance(state: DispatchState, ack: DeviceAckStatus): DispatchState | undefined {
  return RANK[ack] > RANK[state] ? ack : undefined;
}

/** Whether the device has acknowledged the dispatch and has not ended it. */
export function isHeld(state: DispatchState): boolean {
  return state === 'RECEIVED' || state === 'IN_PROGRESS';
}

export function hasEnded(state: DispatchState): boolean {
  return RANK[state] === RANK.COMPLETED;
}

/** The sub-devices that a dispatch is for; empty where it is for the whole site. */
export function targetsOf({ payload }: Pick<DispatchRow, 'payload'>): string[] {
  const { targets } = JSON.parse(payload) as { targets?: { deviceId: string }[] };
  return targets?.map(({ deviceId }) => deviceId) ?? [];
}

/** The reason of a dispatch that the device itself failed: an ack carries no reason. */
export const DEVICE_FAILED = 'device answered FAILED';

/** Maximum number of names in a reason. A batch has at most this many devices, but an emergency may have more. */
const MAX_NAMES = LIMIT.commandsPerBatch;
/** Natural order: BESS-2 before BESS-10. */
const BY_NUMBER = new Intl.Collator('en', { numeric: true });

type Cause = readonly [reason: string | null, names: readonly string[]];

/** Returns the names of the devices for which a dispatch failed; the reason of its command contains them. */
export type NamesOf = (row: DispatchRow) => readonly string[];

/**
 * How a command ends once all its dispatches have ended: COMPLETED if all are, else FAILED with each reason and the
 * names it applies to [C-7.8].
 */
export function outcomeOf(
  rows: readonly DispatchRow[],
  namesOf: NamesOf,
): { status: 'COMPLETED' | 'FAILED'; reason: string | null } {
  const failed = rows.filter((row) => row.state === 'FAILED');
  if (failed.length === 0) return { status: 'COMPLETED', reason: null };
  const namesBy = new Map<string | null, string[]>();
  for (const row of failed) {
    const names = namesBy.get(row.reason) ?? [];
    namesBy.set(row.reason, [...names, ...namesOf(row)]);
  }
  return { status: 'FAILED', reason: [...namesBy].sort(codesFirst).map(causeText).join('; ') };
}

/** The name of a dispatch for the whole site: its device if the device itself answered FAILED, else none. */
export function siteNames({ reason, device_id: deviceId }: DispatchRow): string[] {
  return reason ? [] : [deviceId];
}

/** Reasons that are codes come first: programs read the beginning. */
function codesFirst([one]: Cause, [other]: Cause): number {
  if (one === null || other === null) return one === null ? 1 : -1;
  return one < other ? -1 : 1;
}

function causeText([reason, all]: Cause): string {
  const names = [...new Set(all)].sort(BY_NUMBER.compare);
  const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : '';
  const named = `${names.slice(0, MAX_NAMES).join(', ')}${more}`;
  if (reason === null) return `${named}: ${DEVICE_FAILED}`;
  return named === '' ? reason : `${reason}: ${named}`;
}
