/** The lines of an export, one part of time after the other [C-13.4]. */
import type * as z from 'zod';
import type { exportedCommand, exportedPlan, exportedSample, exportHead } from '../../../protocol/export.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import type { ExportPart, ExportQuery } from '../../ask-rpc.ts';
import type { Clock } from '../../object/clock.ts';
import type { CommandRow, CommandRows } from '../command/rows.ts';
import { stretches } from '../telemetry/read.ts';
import type { TelemetryStore } from '../telemetry/store.ts';
import type { PlanFacts } from './facts.ts';
import type { PlanHistory } from './plan-history.ts';

/** The time that one part covers, unless it has too many commands. */
const PART_MS = 60 * 60_000;
/** About how many commands, changes, values of readings and characters one part has. */
const PART_ROWS = 200;
const PART_VALUES = 20_000;
const PART_CHARS = 4 * 1_024 * 1_024;
/** Readings are read in steps of this length, so that a part can end after each. */
const STEP_MS = 10 * 60_000;
/** The metrics that a verdict reads. */
const MEASURING = /(owerKw|RegisterKwh)$/;

export interface ExportSources {
  clock: Pick<Clock, 'now'>;
  registry: PlantCopy;
  commandRows: CommandRows;
  planHistory: PlanHistory;
  store: TelemetryStore;
}

/** A line with its place among those of the same moment: readings come first, a change of the plan after its commands. */
interface Placed {
  line: { atMs: number };
  place: number;
}

/** The first line. */
export function exportHeadOf(
  { clock, registry }: ExportSources,
  siteId: string,
  fromMs: number,
  toMs: number,
): z.infer<typeof exportHead> {
  const subDevices = registry.subDevices.map(
    ({ externalId, assetType, meterRole, linkedDeviceId, ratedPowerKw }) => ({
      ...{ externalId, assetType, meterRole, linkedDeviceId, ratedPowerKw },
    }),
  );
  const rawRetentionDays = registry.record?.settings.rawRetentionDays ?? LIMIT.rawRetentionDays;
  const exportedAtMs = clock.now();
  return { kind: 'plant', format: 1, siteId, fromMs, toMs, exportedAtMs, rawRetentionDays, subDevices };
}

/** The lines from `fromMs` on, and where the next part begins. */
export function exportPart(sources: ExportSources, { fromMs, toMs }: ExportQuery): ExportPart {
  const { commandRows, planHistory, store } = sources;
  const hourMs = Math.min(toMs, fromMs + PART_MS);
  const { samples, untilMs } = samplesIn(store, fromMs, hourMs);
  const commands = commandRows.log.recordedIn(fromMs, untilMs, PART_ROWS);
  const changes = planHistory.rows.between(fromMs, untilMs, PART_ROWS);
  // A part ends before the first moment that may have more rows than were read.
  const cutMs = Math.min(
    untilMs,
    commands.length < PART_ROWS ? untilMs : (commands.at(-1)?.created_at_ms ?? untilMs),
    changes.length < PART_ROWS ? untilMs : (changes.at(-1)?.atMs ?? untilMs),
  );
  const isBefore = (behindMs: number) => (line: Placed) => line.line.atMs < behindMs;
  // All rows of one moment are more than a part: then the part has them all.
  const isCrowded = cutMs <= fromMs;
  const all = isCrowded ? commandRows.log.recordedIn(fromMs, fromMs + 1, Number.MAX_SAFE_INTEGER) : commands;
  const every = isCrowded ? planHistory.rows.between(fromMs, fromMs + 1, Number.MAX_SAFE_INTEGER) : changes;
  const behindMs = isCrowded ? fromMs + 1 : cutMs;
  const lines: Placed[] = [
    ...samples.map((line) => ({ line, place: -1 })),
    ...all.map((row) => ({ line: commandLine(row), place: row.sequence })),
    ...every.map(({ atMs, facts }) => ({ line: planLine(atMs, facts), place: facts.newestCommand + 0.5 })),
  ].filter(isBefore(behindMs));
  lines.sort((one, other) => one.line.atMs - other.line.atMs || one.place - other.place);
  return cutByChars(lines, behindMs < toMs ? behindMs : null);
}

/** Ends a part between two moments when it has more characters than one call may return. */
function cutByChars(lines: readonly Placed[], nextMs: number | null): ExportPart {
  const texts: string[] = [];
  let chars = 0;
  for (const [index, { line }] of lines.entries()) {
    const isNewMoment = index > 0 && lines[index - 1]?.line.atMs !== line.atMs;
    if (isNewMoment && chars > PART_CHARS) return { lines: texts, nextMs: line.atMs };
    const text = JSON.stringify(line);
    chars += text.length;
    texts.push(text);
  }
  return { lines: texts, nextMs };
}

function planLine(atMs: number, facts: PlanFacts): z.infer<typeof exportedPlan> {
  return { kind: 'plan', atMs, facts: { ...facts } };
}

function commandLine(row: CommandRow): z.infer<typeof exportedCommand> {
  const parsed = <Value>(text: string | null): Value | null => (text === null ? null : JSON.parse(text));
  return {
    ...{ kind: 'command', atMs: row.created_at_ms, sequence: row.sequence, id: row.id },
    ...{ commandType: row.command_type, routingKey: row.routing_key, messageId: row.message_id },
    ...{
      source: row.source,
      payload: row.payload,
      inputs: parsed(row.inputs),
      decision: parsed(row.full_decision ?? row.decision),
    },
    ...{ status: row.status, rejectionCode: row.rejection_code, message: row.message },
    ...{
      results: parsed(row.results),
      validUntilMs: row.valid_until_ms,
      dispatchedAtMs: row.dispatched_at_ms,
    },
    ...{
      startedAtMs: row.started_at_ms,
      finishedAtMs: row.finished_at_ms,
      reason: row.full_reason ?? row.reason,
    },
    ...{ actualKw: row.actual_value_kw, deviationKw: row.deviation_kw, spans: parsed(row.spans) ?? [] },
  };
}

/** The stored powers and registers, those of one moment in one line, up to a number of values; `untilMs`: how far they reach. */
function samplesIn(
  store: TelemetryStore,
  fromMs: number,
  toMs: number,
): { samples: z.infer<typeof exportedSample>[]; untilMs: number } {
  const byMoment = new Map<number, Record<string, number>>();
  let values = 0;
  for (let atMs = fromMs; atMs < toMs; atMs += STEP_MS) {
    const behindMs = Math.min(toMs, atMs + STEP_MS);
    for (const stretch of stretches(store, { fromMs: atMs, toMs: behindMs, bucket: 'raw' })) {
      for (const metric of stretch.metrics().filter((name) => MEASURING.test(name))) {
        for (const point of stretch.points(metric)) {
          const data = byMoment.get(point.atMs) ?? {};
          byMoment.set(point.atMs, data);
          data[metric] = point.value;
          values += 1;
        }
      }
    }
    if (values > PART_VALUES && behindMs < toMs) return { samples: samplesOf(byMoment), untilMs: behindMs };
  }
  return { samples: samplesOf(byMoment), untilMs: toMs };
}

function samplesOf(byMoment: ReadonlyMap<number, Record<string, number>>): z.infer<typeof exportedSample>[] {
  return [...byMoment].map(([atMs, data]) => ({ kind: 'sample', atMs, data }));
}
