/** The state of a plan that the plan journal records, and why two states differ [C-13.3]. Pure. */
import { PLAN_LEVELS, type PlanLevel } from '../../../protocol/dry-run.ts';
import type { OperatingMode } from '../../../protocol/enums.ts';
import type { PlanCauseKind } from '../../../protocol/explain.ts';
import type { EndedCommand } from '../command/commands.ts';

/** What has a place in the plan. */
export interface Lane {
  level: PlanLevel;
  /** The command, its id and the key that sent it; absent: the mode in force. */
  sequence?: number;
  id?: string;
  keyId?: string;
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
  keyId?: string;
  reason?: string;
}

/** Whether the plant has the target: it waits for its gateway, was sent, was acknowledged, or got no answer. */
export type PlantState = 'WAITING' | 'SENT' | 'ACKNOWLEDGED' | 'UNANSWERED';

/** What can be read from the site at any moment. */
export interface Present {
  /** Highest first: the first is the target, the others wait below it. */
  lanes: readonly Lane[];
  mode: OperatingMode;
  plant: PlantState;
  session: 'CONNECTED' | 'AWAY' | 'NONE';
  isFallback: boolean;
  configVersion: string;
  /** The limits in force, in the order of `constraints`. */
  limits: readonly (number | null)[];
  /** The sequence of the newest command in the log: those before it are older than this entry. */
  newestCommand: number;
}

/** One entry of the journal. `why`: what changed. The others are about the target, carried from entry to entry. */
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
  const [was, is] = [before.lanes[0], now.lanes[0]];
  const isSameTarget = was !== undefined && is !== undefined && isSameLane(was, is);
  if (!isSameTarget) return carried(now, { why, by: why, sinceMs: atMs }, atMs);
  const { by, sinceMs, sentAtMs, acknowledgedAtMs } = before;
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
  const sent = now.plant === 'WAITING' ? sentAtMs : (sentAtMs ?? atMs);
  const acknowledged = now.plant === 'ACKNOWLEDGED' ? (acknowledgedAtMs ?? atMs) : acknowledgedAtMs;
  return {
    ...now,
    ...rest,
    ...(sent === undefined ? {} : { sentAtMs: sent }),
    ...(acknowledged === undefined ? {} : { acknowledgedAtMs: acknowledged }),
  };
}

function isSamePresent(one: Present, other: Present): boolean {
  const key = ({ lanes, mode, plant, session, isFallback, configVersion }: Present) =>
    JSON.stringify([lanes, mode, plant, session, isFallback, configVersion]);
  return key(one) === key(other);
}

/** Whether two lanes are the same setpoint, slot, emergency or mode. */
export function isSameLane(one: Lane, other: Lane): boolean {
  return (
    one.level === other.level &&
    one.sequence === other.sequence &&
    one.slot === other.slot &&
    (one.level !== 'MODE' || one.mode === other.mode)
  );
}

function causeOf(before: Present, now: Present, ended: readonly EndedCommand[], atMs: number): Cause {
  const gone = before.lanes.find((lane) => !now.lanes.some((other) => isSameLane(lane, other)));
  const come = now.lanes.find((lane) => !before.lanes.some((other) => isSameLane(lane, other)));
  // Of two changes the one that is higher in the plan decides.
  const isGoneHigher = gone && (!come || rank(gone) < rank(come));
  if (gone && isGoneHigher && gone.level !== 'MODE') return endOf(gone, ended, atMs);
  if (come && come.level !== 'MODE') return beginOf(come, atMs);
  if (gone && gone.level !== 'MODE') return endOf(gone, ended, atMs);
  if (before.mode !== now.mode || gone || come) return { kind: 'MODE' };
  if (before.configVersion !== now.configVersion) return { kind: 'CONFIGURATION' };
  if (before.session !== now.session)
    return { kind: now.session === 'CONNECTED' ? 'GATEWAY_CONNECTED' : 'GATEWAY_AWAY' };
  if (before.isFallback !== now.isFallback)
    return { kind: now.isFallback ? 'FALLBACK_ENGAGED' : 'FALLBACK_ENDED' };
  if (before.plant === now.plant) return { kind: 'MODE' };
  const answers = {
    WAITING: 'UNANSWERED',
    SENT: 'SENT',
    ACKNOWLEDGED: 'ACKNOWLEDGED',
    UNANSWERED: 'UNANSWERED',
  } as const;
  return { kind: answers[now.plant] };
}

function rank({ level }: Lane): number {
  return PLAN_LEVELS.indexOf(level);
}

function beginOf(lane: Lane, atMs: number): Cause {
  const isRecorded = lane.recordedAtMs === atMs;
  return { kind: isRecorded ? 'COMMAND' : 'WINDOW_OPENED', ...ofLane(lane) };
}

function endOf(lane: Lane, ended: readonly EndedCommand[], atMs: number): Cause {
  const end = ended.find(({ command }) => command.sequence === lane.sequence);
  if (lane.level === 'STOP' || lane.level === 'HOLD') return { kind: 'EMERGENCY_RELEASED', ...ofLane(lane) };
  if (lane.endsAtMs !== undefined && lane.endsAtMs <= atMs) return { kind: 'WINDOW_ENDED', ...ofLane(lane) };
  return { kind: 'COMMAND_ENDED', ...ofLane(lane), ...(end?.reason ? { reason: end.reason } : {}) };
}

function ofLane({ id, keyId }: Lane): { id?: string; keyId?: string } {
  return { ...(id === undefined ? {} : { id }), ...(keyId === undefined ? {} : { keyId }) };
}
