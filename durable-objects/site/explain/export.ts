/** The lines of an export, one part of time after the other [C-13.4]. */
import type * as z from 'zod';
import type { exportedCommand, exportedPlan, exportedSample, exportHead } from '../../../protocol/export.ts';
import type { ExportPart, ExportQuery } from '../../ask-rpc.ts';
import type { Clock } from '../../object/clock.ts';
import type { PlantCopy } from '../../registry/plant-copy.ts';
import type { CommandRow, CommandRows } from '../command/rows.ts';
import { stretches } from '../telemetry/read.ts';
import type { TelemetryStore } from '../telemetry/store.ts';
import type { PlanFacts } from './facts.ts';
import type { PlanJournal } from './plan-journal.ts';

/** The time that one part covers, unless it has too many commands. */
const PART_MS = 60 * 60_000;
/** About how many commands and changes one part has. */
const PART_ROWS = 200;
/** The metrics that a verdict reads. */
const MEASURING = /(owerKw|RegisterKwh)$/;

export interface ExportSources {
  clock: Pick<Clock, 'now'>;
  registry: PlantCopy;
  commandRows: CommandRows;
  planJournal: PlanJournal;
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
  return { kind: 'plant', format: 1, siteId, fromMs, toMs, exportedAtMs: clock.now(), subDevices };
}

/** The lines from `fromMs` on, and where the next part begins. */
export function exportPart(sources: ExportSources, { fromMs, toMs }: ExportQuery): ExportPart {
  const { commandRows, planJournal } = sources;
  const behindMs = Math.min(toMs, fromMs + PART_MS);
  const commands = commandRows.recordedIn(fromMs, behindMs, PART_ROWS);
  const changes = planJournal.rows.between(fromMs, behindMs, PART_ROWS);
  // A part ends before the first moment that may have more rows than were read.
  const cutMs = Math.min(
    commands.length < PART_ROWS ? behindMs : (commands.at(-1)?.created_at_ms ?? behindMs),
    changes.length < PART_ROWS ? behindMs : (changes.at(-1)?.atMs ?? behindMs),
  );
  // All rows of one moment are more than a part: then the part has them all.
  if (cutMs <= fromMs) return partOf(sources, fromMs, fromMs + 1, Number.MAX_SAFE_INTEGER, toMs);
  return partOf(sources, fromMs, cutMs, PART_ROWS, toMs);
}

function partOf(
  { commandRows, planJournal, store }: ExportSources,
  fromMs: number,
  behindMs: number,
  most: number,
  toMs: number,
): ExportPart {
  const samples = samplesIn(store, fromMs, behindMs).map((line): Placed => ({ line, place: -1 }));
  const commands = commandRows
    .recordedIn(fromMs, behindMs, most)
    .map((row): Placed => ({ line: commandLine(row), place: row.sequence }));
  const changes = planJournal.rows
    .between(fromMs, behindMs, most)
    .map(({ atMs, facts }): Placed => ({ line: planLine(atMs, facts), place: facts.newestCommand + 0.5 }));
  const lines = [...samples, ...commands, ...changes];
  lines.sort((one, other) => one.line.atMs - other.line.atMs || one.place - other.place);
  return { lines: lines.map(({ line }) => JSON.stringify(line)), nextMs: behindMs < toMs ? behindMs : null };
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
      decision: parsed(row.decision),
    },
    ...{ status: row.status, rejectionCode: row.rejection_code, message: row.message },
    ...{
      results: parsed(row.results),
      validUntilMs: row.valid_until_ms,
      dispatchedAtMs: row.dispatched_at_ms,
    },
    ...{ startedAtMs: row.started_at_ms, finishedAtMs: row.finished_at_ms, reason: row.reason },
    ...{ actualKw: row.actual_value_kw, deviationKw: row.deviation_kw, spans: parsed(row.spans) ?? [] },
  };
}

/** The stored powers and registers, those of one moment in one line. */
function samplesIn(store: TelemetryStore, fromMs: number, toMs: number): z.infer<typeof exportedSample>[] {
  const byMoment = new Map<number, Record<string, number>>();
  for (const stretch of stretches(store, { fromMs, toMs, bucket: 'raw' })) {
    for (const metric of stretch.metrics().filter((name) => MEASURING.test(name))) {
      for (const { atMs, value } of stretch.points(metric)) {
        const data = byMoment.get(atMs) ?? {};
        byMoment.set(atMs, data);
        data[metric] = value;
      }
    }
  }
  return [...byMoment].map(([atMs, data]) => ({ kind: 'sample', atMs, data }));
}
