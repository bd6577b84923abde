/** Computes the verdicts of an export again, from its readings [C-13.4]. */

import { type MeasuredSample, measuredBy, timeOf } from '../../durable-objects/site/plan/measure.ts';
import { judge, settlingTimeMs, spansOf, verdictAtMs } from '../../durable-objects/site/plan/verdict.ts';
import { parseCommand, type SiteSetpoint } from '../../protocol/command.ts';
import type { ExportedCommand, ExportHead } from '../../protocol/export.ts';
import { parseInstant } from '../../protocol/ids.ts';
import type { SubDevice } from '../../registry/plant-copy.ts';
import { differs } from './judgement.ts';

const DAY_MS = 24 * 60 * 60_000;

/** Full metric names: the readings of a gateway have them as they are. */
const ORIGIN = { deviceId: '', servesSite: true, subDeviceId: undefined };

export class VerdictReplay {
  readonly #head: ExportHead;
  readonly #samples: MeasuredSample[] = [];

  constructor(head: ExportHead) {
    this.#head = head;
  }

  add(atMs: number, data: Record<string, number>): void {
    this.#samples.push({ atMs, receivedMs: atMs, origin: ORIGIN, data });
  }

  /** Undefined: the command has no verdict, or not all of its readings are in the file. */
  compare(command: ExportedCommand): string[] | undefined {
    const { status, startedAtMs, finishedAtMs, commandType, payload, atMs, spans } = command;
    const hasVerdict = commandType === 'SITE_SETPOINT' && (status === 'COMPLETED' || status === 'DEVIATED');
    if (!hasVerdict || startedAtMs === null || finishedAtMs === null) return undefined;
    const parsed = parseCommand(commandType, payload);
    if (!parsed.ok) return undefined;
    const setpoint = parsed.value.payload as SiteSetpoint;
    const window = {
      startsAtMs: Math.max(atMs, parseInstant(setpoint.validFrom) ?? 0),
      endsAtMs: setpoint.validUntil === undefined ? null : (parseInstant(setpoint.validUntil) ?? null),
    };
    const dueMs = verdictAtMs(setpoint, window, startedAtMs);
    const followed = spansOf({ spans, obeyedSinceMs: null }, Math.min(finishedAtMs, dueMs));
    const [first] = followed;
    const { sinceMs, toMs } = first ? timeOf(followed, first) : { sinceMs: 0, toMs: 0 };
    const { fromMs, exportedAtMs, rawRetentionDays } = this.#head;
    const keptFromMs = exportedAtMs - rawRetentionDays * DAY_MS;
    if (first && (toMs > this.#head.toMs || sinceMs < Math.max(fromMs, keptFromMs))) return undefined;
    const used = first ? this.#samples.filter((sample) => sample.atMs >= sinceMs && sample.atMs <= toMs) : [];
    const subDevices = this.#head.subDevices as unknown as SubDevice[];
    const isSubDevice = (externalId: string) => subDevices.some((one) => one.externalId === externalId);
    const measured = measuredBy(used, { subDevices, isSubDevice }, setpoint.includeConsumption);
    const settlingMs = settlingTimeMs(dueMs - Math.max(window.startsAtMs, startedAtMs));
    const verdict = judge(setpoint, followed, settlingMs, measured);
    return [
      ...differs('verdict', status, verdict.status),
      ...differs('reason', command.reason, verdict.reason),
      ...differs('measured kW', command.actualKw, verdict.actualValueKw ?? null),
      ...differs('deviation kW', command.deviationKw, verdict.deviationKw ?? null),
    ];
  }
}
