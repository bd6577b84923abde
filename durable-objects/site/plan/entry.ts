/** What happens to one entry of the plan: it is obeyed, leaves the top, is judged, ends [C-7.7], [C-7.8]. */
import type { SiteSetpoint } from '../../../protocol/command.ts';
import type { DeviceAckStatus } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Turn } from '../../object/turn.ts';
import type { CommandRow } from '../command/rows.ts';
import { isHeld } from '../dispatch/dispatch.ts';
import { fail, finish, subjectOf } from '../dispatch/ends.ts';
import type { DispatchRow } from '../dispatch/rows.ts';
import { readCommand } from '../dispatch/waiting.ts';
import { deviationAlarm, executionEvent } from '../event/events.ts';
import { raise } from '../event/raise.ts';
import type { SiteParts } from '../parts.ts';
import { measure } from './measure.ts';
import type { KeptEntry, Span } from './rows.ts';
import { judge, settlingMs, verdictAtMs } from './verdict.ts';

/** The setpoint of a log row; undefined where it is none. */
export function setpointOf(command: CommandRow | undefined): SiteSetpoint | undefined {
  const parsed = command && readCommand(command);
  return parsed?.commandType === 'SITE_SETPOINT' ? parsed.payload : undefined;
}

/** An ack of the gateway that was told it: any but FAILED says that it obeys, and only the verdict ends the command. */
export function ackEntry(
  turn: Turn,
  site: SiteParts,
  row: DispatchRow,
  command: CommandRow,
  status: DeviceAckStatus,
): void {
  if (status === 'FAILED') {
    fail(turn, site, row, null);
    return;
  }
  const entry = site.plan.entries.find(row.command_sequence);
  const setpoint = setpointOf(command);
  if (isHeld(row.state) || !setpoint) return;
  if (entry) site.dispatches.update(turn, row, { state: 'IN_PROGRESS', due_at_ms: null });
  const starts = command.status === 'PENDING';
  if (starts) {
    site.commands.markStarted(turn, command.sequence);
    const details = { targetValueKw: command.target_value_kw };
    site.outbox.emit(turn, executionEvent(subjectOf(command), 'EXECUTING', details, turn.now));
  }
  if (!entry && starts) {
    // It was obeyed within its window, and says so behind it: for how long, nobody can tell.
    const started = { ...command, status: 'EXECUTING' as const, started_at_ms: turn.now };
    finish(turn, site, started, { status: 'COMPLETED', reason: 'unmeasured' });
    site.dispatches.deleteOfCommand(turn, command.sequence);
  }
  if (!entry) return;
  site.plan.entries.update(turn, entry, {
    obeyedSinceMs: turn.now,
    verdictAtMs: starts ? verdictAtMs(setpoint, entry, turn.now) : entry.verdictAtMs,
  });
}

/** Something else is told: its dispatch is no more, its time on top is kept for the verdict. */
export function leaveTop(turn: Turn, site: SiteParts, entry: KeptEntry): void {
  site.dispatches.deleteOfCommand(turn, entry.sequence);
  if (entry.obeyedSinceMs === null) return;
  const spans = entry.verdictAtMs === null ? [] : spansOf(entry, turn.now).slice(-LIMIT.planSpans);
  site.plan.entries.update(turn, entry, { obeyedSinceMs: null, spans });
}

/** The verdict, once; the entry stands on. */
export function judgeEntry(turn: Turn, site: SiteParts, entry: KeptEntry): void {
  const command = site.commands.find(entry.sequence);
  const setpoint = setpointOf(command);
  if (site.plan.entries.find(entry.sequence)) {
    site.plan.entries.update(turn, entry, { verdictAtMs: null, spans: [] });
  }
  if (!command || !setpoint || command.status !== 'EXECUTING' || entry.verdictAtMs === null) return;
  const untilMs = Math.min(turn.now, entry.verdictAtMs);
  const spans = spansOf(entry, untilMs);
  const windowMs = entry.verdictAtMs - Math.max(entry.startsAtMs, command.started_at_ms ?? 0);
  const measured = measure(site, spans, setpoint.includeConsumption);
  const verdict = judge(setpoint, spans, settlingMs(windowMs), measured);
  finish(turn, site, command, verdict);
  if (verdict.status === 'DEVIATED') {
    const about = subjectOf(command);
    const alarms = deviationAlarm(about, verdict, site.registry.keyIds, turn.now);
    raise(turn, site, 'SETPOINT_DEVIATION', alarms);
  }
}

/** The times on top up to a moment, of the last day. */
function spansOf({ spans, obeyedSinceMs }: KeptEntry, untilMs: number): Span[] {
  const all: Span[] = obeyedSinceMs === null ? [...spans] : [...spans, [obeyedSinceMs, untilMs]];
  const earliestMs = untilMs - LIMIT.verdictDepthMs;
  return all.flatMap(([fromMs, toMs]) => {
    const span = [Math.max(fromMs, earliestMs), Math.min(toMs, untilMs)] as const;
    return span[0] < span[1] ? [span] : [];
  });
}
