/**
 * The events of commands (acknowledgements, executions, alarms) and the alarms of states, written to the
 * outbox. Repeated acknowledgements, EXECUTING and CLEARED are not counted in the metrics.
 */
import type { ExecutionStatus } from '../../../protocol/enums.ts';
import type { Acknowledgement } from '../../../protocol/event.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { EventKey, PlantCopy } from '../../../registry/plant-copy.ts';
import type { OwnCounts } from '../../metrics/counts.ts';
import type { KeyValues } from '../../object/key-values.ts';
import type { Turn } from '../../object/turn.ts';
import { type Violation, violationText } from '../refusal.ts';
import { Fact, type SiteFact } from '../stored.ts';
import {
  type AlarmContent,
  acknowledgementEvent,
  commandAlarm,
  type EventSubject,
  type ExecutionDetails,
  executionEvent,
  type OpenAlarm,
  type State,
  standingAlarmEvents,
} from './event-rows.ts';
import type { Outbox } from './outbox.ts';

export interface EventsHost {
  values: KeyValues<SiteFact>;
  outbox: Outbox;
  counts: OwnCounts;
  /** The keys that may see the plant [C-8.1]. */
  registry: Pick<PlantCopy, 'keys' | 'keyIds'>;
}

export class Events {
  readonly #host: EventsHost;
  readonly #damping = new ViolationDamping();
  /** The open alarms of states. */
  readonly #open: Fact<readonly OpenAlarm[]>;

  constructor(host: EventsHost) {
    this.#host = host;
    this.#open = new Fact<readonly OpenAlarm[]>(host.values, 'alarms', []);
  }

  /** Sends an acknowledgement again, as it was. */
  acknowledgeAgain(turn: Turn, about: EventSubject, acknowledgement: Acknowledgement): void {
    this.#host.outbox.emit(turn, acknowledgementEvent(about, acknowledgement, turn.now));
  }

  acknowledged(
    turn: Turn,
    about: EventSubject,
    acknowledgement: Acknowledgement,
    violations: readonly Violation[],
  ): void {
    const { status, rejectionCode } = acknowledgement;
    if (status !== 'REJECTED') this.#host.counts.add(turn, `acknowledgements/${status}/`);
    else if (rejectionCode) this.#host.counts.add(turn, `acknowledgements/REJECTED/${rejectionCode}`);
    this.acknowledgeAgain(turn, about, acknowledgement);
    for (const violation of perLimit(violations)) this.violated(turn, about, violation);
  }

  executing(turn: Turn, about: EventSubject, details: ExecutionDetails = {}): void {
    this.#host.outbox.emit(turn, executionEvent(about, 'EXECUTING', details, turn.now));
  }

  ended(
    turn: Turn,
    about: EventSubject,
    status: Exclude<ExecutionStatus, 'EXECUTING'>,
    details: ExecutionDetails,
  ): void {
    this.#host.counts.add(turn, `executions/${status}`);
    this.#host.outbox.emit(turn, executionEvent(about, status, details, turn.now));
  }

  /**
   * Raises an alarm because a command violates a limit. `skipped`: only a slot of a schedule does; the slot
   * is skipped and the schedule continues.
   */
  violated(
    turn: Turn,
    about: EventSubject,
    violation: Violation,
    outcome: 'rejected' | 'skipped' = 'rejected',
  ): void {
    const { constraint, limit, value, unit, deviceId, slot } = violation;
    // Each skipped slot gets a separate alarm.
    const what = slot === undefined ? constraint : `${slot}|${constraint}`;
    const keys = this.#damping.isDue(turn, constraint) ? this.#host.registry.keys : [];
    const message = `${about.commandType} ${outcome}: ${violationText(violation)}`;
    const details = {
      message,
      constraint,
      limit,
      ...(value === undefined ? {} : { value }),
      unit,
      ...(deviceId ? { deviceId } : {}),
    };
    const alarm: AlarmContent = { type: 'CONSTRAINT_VIOLATION', ...details };
    this.#raise(turn, about, `violation|${about.commandId}|${what}`, alarm, keys);
  }

  /** Raises an alarm because a command expired unsent. */
  expired(turn: Turn, about: EventSubject, deviceId: string | undefined): void {
    const message = `${about.commandType} expired before it could be delivered to the device`;
    const alarm: AlarmContent = { type: 'COMMAND_EXPIRED', message, ...(deviceId ? { deviceId } : {}) };
    this.#raise(turn, about, `expiry|${about.commandId}|${deviceId}`, alarm);
  }

  /**
   * Raises an alarm because the plant no longer follows a setpoint that already has its verdict, or because
   * the plant rejected or never acknowledged a slot of a schedule.
   */
  dropped(turn: Turn, about: EventSubject, reason: string | null, slot?: number): void {
    const what = slot === undefined ? '' : ` slot ${slot}`;
    const message = `${about.commandType}${what} is no longer active: ${reason ?? 'FAILED'}`;
    this.#raise(turn, about, `dropped|${about.commandId}${what}`, { type: 'SETPOINT_DEVIATION', message });
  }

  /** Raises an alarm because the measured values deviate from a setpoint. */
  deviated(turn: Turn, about: EventSubject, measured: ExecutionDetails): void {
    const { actualValueKw, targetValueKw, actualValueKwh, targetValueKwh } = measured;
    const isEnergy = typeof actualValueKwh === 'number';
    const unit = isEnergy ? 'kWh' : 'kW';
    const value = (isEnergy ? actualValueKwh : actualValueKw) ?? 0;
    const limit = (isEnergy ? targetValueKwh : targetValueKw) ?? 0;
    const message = `${about.commandType} missed: measured ${value} ${unit}, target ${limit} ${unit}`;
    const alarm: AlarmContent = { type: 'SETPOINT_DEVIATION', message, limit, value, unit };
    this.#raise(turn, about, `deviation|${about.commandId}`, alarm);
  }

  /**
   * Compares the current states with the open alarms, at most one per type and device. Sends RAISED once when
   * a state begins and CLEARED once when it ends, to every key that may see the plant [C-8.3].
   */
  updateStates(turn: Turn, states: readonly State[]): void {
    const { outbox, counts, registry } = this.#host;
    const open = this.#open.value;
    const begun = states.filter((state) => !open.some((alarm) => isSame(alarm, state)));
    const ended = open.filter((alarm) => !states.some((state) => isSame(alarm, state)));
    if (begun.length + ended.length === 0) return;
    const raised = begun.map((state) => ({ ...state, raisedAtMs: turn.now, alarmId: crypto.randomUUID() }));
    for (const alarm of ended)
      outbox.emit(turn, ...standingAlarmEvents(alarm, turn.now, registry.keyIds, turn.now));
    for (const alarm of raised) {
      counts.add(turn, `alarms/${alarm.type}`);
      outbox.emit(turn, ...standingAlarmEvents(alarm, null, registry.keyIds, turn.now));
    }
    this.#open.set(turn, [...open.filter((alarm) => !ended.includes(alarm)), ...raised]);
  }

  /** Sends an alarm to several keys; the metrics count it once. */
  #raise(
    turn: Turn,
    about: EventSubject,
    cause: string,
    alarm: AlarmContent,
    keys: readonly EventKey[] = this.#host.registry.keys,
  ): void {
    this.#host.outbox.emit(turn, ...commandAlarm(about, cause, alarm, keys, turn.now));
    this.#host.counts.add(turn, `alarms/${alarm.type}`);
  }
}

/** Keeps one violation of each limit. */
function perLimit(violations: readonly Violation[]): Iterable<Violation> {
  return new Map(violations.map((violation) => [violation.constraint, violation])).values();
}

function isSame(one: State, other: State): boolean {
  return one.type === other.type && one.deviceId === other.deviceId;
}

/**
 * Says when all keys get an alarm for a violated limit: at most once per limit and ten seconds, so that one partner's
 * mistakes do not fill other partners' queues. The key that violated it gets it every time [C-8.3].
 */
export class ViolationDamping {
  /**
   * When the last alarm was sent to all keys, by constraint. The map has at most one entry per limit of a
   * site.
   */
  readonly #sentAtMs = new Map<string, number>();

  isDue(turn: Turn, constraint: string): boolean {
    const { now } = turn;
    const sentAtMs = this.#sentAtMs.get(constraint);
    // `abs`, because after the clock went back `sentAtMs` may be in the future, and it must not suppress
    // alarms until then.
    if (sentAtMs !== undefined && Math.abs(now - sentAtMs) < LIMIT.violationDampingMs) return false;
    turn.undo(() => this.#sentAtMs.delete(constraint));
    this.#sentAtMs.set(constraint, now);
    return true;
  }
}
