/** The state of a plan that the plan history records, and why two states differ [C-13.3]. Pure. */
import { PLAN_LEVELS, type PlanLevel } from '../../../protocol/dry-run.ts';
import type { OperatingMode } from '../../../protocol/enums.ts';
import type { PlanCauseKind } from '../../../protocol/explain.ts';
import { constraints } from '../../../protocol/site-config.ts';
import type { EndedCommand } from '../command/commands.ts';

/** The order of the limits in an entry. */
export const LIMIT_NAMES = constraints.keyof().options;

/** What has a place in the plan. */
export interface StoredPlace {
  level: PlanLevel;
  /** The command, its id and the partner that sent it; absent: the mode in force. */
  sequence?: number;
  id?: string;
  partnerId?: string;
  /** Signed grid power, + = import. */
  kw?: number;
  mode?: OperatingMode;
  slot?: number;
  endsAtMs?: number;
  /** When its command was recorded. */
  recordedAtMs?: number;
  /** True: the target is for the controllable assets alone. */
  isWithoutConsumption?: true;
}

export interface Cause {
  kind: PlanCauseKind;
  id?: string;
  partnerId?: string;
  reason?: string;
}

/** Whether the plant has the target: it was not sent, was sent, was acknowledged, or failed or got no answer. */
export type PlantState = 'WAITING' | 'SENT' | 'ACKNOWLEDGED' | 'UNANSWERED';

/** What can be read from the site at any moment. */
export interface Present {
  /** Highest first: the first is the target, the others wait below it. */
  places: readonly StoredPlace[];
  mode: OperatingMode;
  plant: PlantState;
  session: 'CONNECTED' | 'AWAY' | 'NONE';
  /** The device that gets the target; null: none serves the site. */
  gatewayId: string | null;
  isFallback: boolean;
  configVersion: string;
  /** The limits in force, in the order of `LIMIT_NAMES`. */
  limits: readonly (number | null)[];
  /** The sequence of the newest command in the log: those before it are older than this entry. */
  newestCommand: number;
}

/** One entry of the history. `why`: what changed. The others are about the target, carried from entry to entry. */
export interface PlanFacts extends Present {
  why: Cause;
  sinceMs: number;
  by: Cause;
  sentAtMs?: number;
  acknowledgedAtMs?: number;
}

/** The entry for this state after `before`; undefined if nothing has changed. */
export function nextFacts(
  before: PlanFacts | undefined,
  now: Present,
  ended: readonly EndedCommand[],
  atMs: number,
): PlanFacts | undefined {
  if (!before)
    return carried(now, { why: { kind: 'BEGINNING' }, by: { kind: 'BEGINNING' }, sinceMs: atMs }, atMs);
  if (isSamePresent(before, now)) return undefined;
  const why = causeOf(before, now, ended, atMs);
  const [was, is] = [before.places[0], now.places[0]];
  const isSame = was !== undefined && is !== undefined && isSamePlace(was, is);
  const { by, sinceMs, sentAtMs, acknowledgedAtMs } = before;
  if (!isSame) return carried(now, { why, by: why, sinceMs: atMs }, atMs);
  // Another gateway has not got the target yet.
  if (before.gatewayId !== now.gatewayId) return carried(now, { why, by, sinceMs }, atMs);
  return carried(
    now,
    {
      ...{ why, by, sinceMs },
      ...(sentAtMs === undefined ? {} : { sentAtMs }),
      ...(acknowledgedAtMs === undefined ? {} : { acknowledgedAtMs }),
    },
    atMs,
  );
}

type Carried = Pick<PlanFacts, 'why' | 'by' | 'sinceMs' | 'sentAtMs' | 'acknowledgedAtMs'>;

function carried(now: Present, { sentAtMs, acknowledgedAtMs, ...rest }: Carried, atMs: number): PlanFacts {
  const isSent = now.plant !== 'WAITING';
  const sent = isSent ? (sentAtMs ?? atMs) : undefined;
  const acknowledged = now.plant === 'ACKNOWLEDGED' ? (acknowledgedAtMs ?? atMs) : undefined;
  return {
    ...now,
    ...rest,
    ...(sent === undefined ? {} : { sentAtMs: sent }),
    ...(acknowledged === undefined ? {} : { acknowledgedAtMs: acknowledged }),
  };
}

function isSamePresent(one: Present, other: Present): boolean {
  const key = ({ places, mode, plant, session, gatewayId, isFallback, configVersion }: Present) =>
    JSON.stringify([places, mode, plant, session, gatewayId, isFallback, configVersion]);
  return key(one) === key(other);
}

/** Whether two places are the same setpoint, slot, emergency or mode. */
export function isSamePlace(one: StoredPlace, other: StoredPlace): boolean {
  return (
    one.level === other.level &&
    one.sequence === other.sequence &&
    one.slot === other.slot &&
    (one.level !== 'MODE' || one.mode === other.mode)
  );
}

function causeOf(before: Present, now: Present, ended: readonly EndedCommand[], atMs: number): Cause {
  const gone = before.places.find((place) => !now.places.some((other) => isSamePlace(place, other)));
  const come = now.places.find((place) => !before.places.some((other) => isSamePlace(place, other)));
  if (come && come.level !== 'MODE' && come.recordedAtMs === atMs) return beginOf(come, atMs);
  // Of two changes the one that is higher in the plan decides.
  const isGoneHigher = gone && (!come || rank(gone) < rank(come));
  if (gone && isGoneHigher && gone.level !== 'MODE') return endOf(gone, ended, atMs);
  if (come && come.level !== 'MODE') return beginOf(come, atMs);
  if (gone && gone.level !== 'MODE') return endOf(gone, ended, atMs);
  if (before.mode !== now.mode || gone || come) return { kind: 'MODE' };
  if (before.configVersion !== now.configVersion) return { kind: 'CONFIGURATION' };
  if (before.session !== now.session || before.gatewayId !== now.gatewayId)
    return { kind: now.session === 'CONNECTED' ? 'GATEWAY_CONNECTED' : 'GATEWAY_AWAY' };
  if (before.isFallback !== now.isFallback)
    return { kind: now.isFallback ? 'FALLBACK_ENGAGED' : 'FALLBACK_ENDED' };
  if (before.plant === now.plant) return { kind: 'SCHEDULE' };
  const answers = {
    WAITING: 'UNANSWERED',
    SENT: 'SENT',
    ACKNOWLEDGED: 'ACKNOWLEDGED',
    UNANSWERED: 'UNANSWERED',
  } as const;
  return { kind: answers[now.plant] };
}

function rank({ level }: StoredPlace): number {
  return PLAN_LEVELS.indexOf(level);
}

function beginOf(place: StoredPlace, atMs: number): Cause {
  const isRecorded = place.recordedAtMs === atMs;
  return { kind: isRecorded ? 'COMMAND' : 'WINDOW_OPENED', ...ofPlace(place) };
}

function endOf(place: StoredPlace, ended: readonly EndedCommand[], atMs: number): Cause {
  const end = ended.find(({ command }) => command.sequence === place.sequence);
  if (place.level === 'STOP' || place.level === 'HOLD')
    return { kind: 'EMERGENCY_RELEASED', ...ofPlace(place) };
  if (place.endsAtMs !== undefined && place.endsAtMs <= atMs)
    return { kind: 'WINDOW_ENDED', ...ofPlace(place) };
  return { kind: 'COMMAND_ENDED', ...ofPlace(place), ...(end?.reason ? { reason: end.reason } : {}) };
}

function ofPlace({ id, partnerId }: StoredPlace): Pick<Cause, 'id' | 'partnerId'> {
  return { ...(id === undefined ? {} : { id }), ...(partnerId === undefined ? {} : { partnerId }) };
}
