/** Answers why a site did what it did at a moment, and lists the changes of its plan [C-13.3]. */
import type { OperatingMode } from '../../../protocol/enums.ts';
import type { Explanation, PlanCause, PlanChange, PlanPlace } from '../../../protocol/explain.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import type { Asker, ExplainQuery } from '../../ask-rpc.ts';
import type { Clock } from '../../object/clock.ts';
import type { CommandRows } from '../command/rows.ts';
import { toleranceKw } from '../plan/verdict.ts';
import { isSeen, seesAll } from '../sight.ts';
import { controllablePower, gridPower } from '../telemetry/canonical.ts';
import type { Journal } from '../telemetry/journal.ts';
import { snapshotAt } from '../telemetry/past.ts';
import type { TelemetryStore } from '../telemetry/store.ts';
import { type Cause, LIMIT_NAMES, type PlanFacts, type StoredPlace } from './facts.ts';
import type { PlanHistory } from './plan-history.ts';
import { sentenceOf } from './sentence.ts';

const POWER = /owerKw$/;
/** How many changes one answer lists. */
const CHANGES = 50;

export interface ExplainSources {
  clock: Pick<Clock, 'now'>;
  planHistory: PlanHistory;
  commandRows: CommandRows;
  registry: PlantCopy;
  store: TelemetryStore;
  journal: Journal;
}

function explainAt(sources: ExplainSources, asker: Asker, givenMs: number | null): Explanation {
  const now = sources.clock.now();
  const atMs = Math.min(givenMs ?? now, now);
  const recorded = sources.planHistory.rows.at(atMs);
  const at = formatInstant(atMs);
  if (!recorded) return nothing(at, asker);
  const { facts } = recorded;
  const { places, limits, session, isFallback, configVersion, sinceMs, by, sentAtMs, acknowledgedAtMs } =
    facts;
  const [first, ...others] = places.map((place) => overAt(place, facts, atMs));
  const target = first ? placeOf(first, asker) : null;
  const isHidden = first !== undefined && first.level !== 'MODE' && !isSeen(asker, first.partnerId);
  const emergency = places.find(({ level }) => level === 'STOP' || level === 'HOLD')?.level;
  const whole: Omit<Explanation, 'sentence' | 'at'> = {
    ...{ target, since: isHidden ? null : formatInstant(sinceMs), by: causeOf(by, asker) },
    waiting: others.map((place) => ({
      ...placeOf(place, asker),
      why: `waits below ${first?.level ?? 'MODE'}`,
    })),
    limits: Object.fromEntries(
      LIMIT_NAMES.map((name, index) => [name, limits[index] ?? null]),
    ) as Explanation['limits'],
    emergency: emergency === 'STOP' || emergency === 'HOLD' ? emergency : null,
    mode: modeOf(facts, atMs),
    ...{ session, fallback: isFallback, configVersion },
    sent:
      sentAtMs === undefined || isHidden
        ? null
        : { at: formatInstant(sentAtMs), acknowledgedAt: instantOf(acknowledgedAtMs) },
    measured: first ? measuredAt(sources, asker, first, acknowledgedAtMs, atMs) : null,
  };
  return { at, sentence: sentenceOf(whole, facts.plant === 'UNANSWERED', nameFor(asker)), ...whole };
}

/** The changes in [from, to), oldest first; `next`: where the next request begins. */
function listChanges(
  { planHistory }: Pick<ExplainSources, 'planHistory'>,
  asker: Asker,
  fromMs: number,
  toMs: number,
): { changes: PlanChange[]; next: string | null } {
  const rows = planHistory.rows.between(fromMs, toMs, CHANGES + 1);
  const shown = rows.length > CHANGES ? rows.slice(0, CHANGES) : rows;
  const next = rows.length > CHANGES ? rows[CHANGES] : undefined;
  return {
    changes: shown.map(({ atMs, facts }) => {
      const [first, ...others] = facts.places;
      return {
        ...{ at: formatInstant(atMs), ...causeOf(facts.why, asker) },
        target: placeOf(first ?? { level: 'MODE', mode: facts.mode }, asker),
        waiting: others.map((place) => placeOf(place, asker)),
        session: facts.session,
      };
    }),
    next: next ? formatInstant(next.atMs) : null,
  };
}

function nothing(at: string, asker: Asker): Explanation {
  const whole: Omit<Explanation, 'sentence' | 'at'> = {
    ...{ target: null, since: null, by: null, waiting: [], limits: null, emergency: null, mode: null },
    ...{ session: null, fallback: null, configVersion: null, sent: null, measured: null },
  };
  return { at, sentence: sentenceOf(whole, false, nameFor(asker)), ...whole };
}

/** The mode of the plant at that time. */
export function modeOf(facts: PlanFacts, atMs: number): OperatingMode | null {
  const lowest = facts.places.at(-1);
  return lowest ? (overAt(lowest, facts, atMs).mode ?? null) : null;
}

/** A mode that is only an override has ended at its time, whether or not a turn has run since. */
function overAt(place: StoredPlace, { mode }: PlanFacts, atMs: number): StoredPlace {
  const isOver = place.level === 'MODE' && place.endsAtMs !== undefined && place.endsAtMs <= atMs;
  return isOver ? { level: 'MODE', mode } : place;
}

function placeOf(place: StoredPlace, asker: Asker): PlanPlace {
  const { level, id = null, partnerId, kw = null, mode = null, slot = null, endsAtMs } = place;
  const until = instantOf(endsAtMs);
  if (level !== 'MODE' && !isSeen(asker, partnerId))
    return { level, commandId: null, kw: null, mode: null, slot: null, until };
  return { level, commandId: id, kw, mode, slot, until };
}

function causeOf({ kind, id, partnerId, reason }: Cause, asker: Asker): PlanCause {
  if (!isSeen(asker, partnerId) && id !== undefined) return { cause: kind, commandId: null, reason: null };
  // The reason may name another command.
  const code = reason === undefined ? null : (/^[A-Z_]+/.exec(reason)?.[0] ?? null);
  return {
    cause: kind,
    commandId: id ?? null,
    reason: seesAll(asker) ? (reason ?? null) : code,
  };
}

/** What the sentence calls a command. */
function nameFor(asker: Asker): (place: PlanPlace) => string {
  return ({ commandId }) => {
    if (commandId !== null) return commandId;
    return seesAll(asker) ? 'of a deleted command' : 'of another partner';
  };
}

function measuredAt(
  { clock, registry, store, journal, commandRows }: ExplainSources,
  asker: Asker,
  place: StoredPlace,
  acknowledgedAtMs: number | undefined,
  atMs: number,
): Explanation['measured'] {
  const isPower = (metric: string) => POWER.test(metric);
  const snapshot =
    atMs >= clock.now() ? journal.snapshot : snapshotAt({ registry, store, atMs, isWanted: isPower });
  const isShown = isSeen(asker, place.partnerId);
  const power = place.isWithoutConsumption && isShown ? controllablePower : gridPower;
  const kw = power(snapshot, registry.subDevices, atMs);
  const expectedKw = isShown ? (place.kw ?? null) : null;
  const verdict = verdictOf(commandRows, place, { kw, expectedKw, acknowledgedAtMs, atMs });
  return { kw, expectedKw, verdict };
}

function verdictOf(
  commandRows: CommandRows,
  place: StoredPlace,
  {
    kw,
    expectedKw,
    acknowledgedAtMs,
    atMs,
  }: { kw: number | null; expectedKw: number | null; acknowledgedAtMs: number | undefined; atMs: number },
): NonNullable<Explanation['measured']>['verdict'] {
  if (expectedKw === null) return null;
  const command = place.sequence === undefined ? undefined : commandRows.find(place.sequence);
  const hasEnded = command?.id === place.id && (command?.finished_at_ms ?? Number.POSITIVE_INFINITY) <= atMs;
  if (
    hasEnded &&
    command?.actual_value_kw !== null &&
    (command?.status === 'COMPLETED' || command?.status === 'DEVIATED')
  )
    return command.status;
  if (kw === null) return 'UNMEASURED';
  if (acknowledgedAtMs === undefined || atMs - acknowledgedAtMs < LIMIT.settlingMs) return 'SETTLING';
  return Math.abs(kw - expectedKw) > toleranceKw(expectedKw) ? 'DEVIATES' : 'FOLLOWS';
}

function instantOf(epochMs: number | undefined): string | null {
  return epochMs === undefined ? null : formatInstant(epochMs);
}

/** JSON of the answer of the route. */
export function explain(sources: ExplainSources, query: ExplainQuery, asker: Asker): string {
  const answer =
    'fromMs' in query
      ? listChanges(sources, asker, query.fromMs, query.toMs)
      : explainAt(sources, asker, query.atMs);
  return JSON.stringify(answer);
}
