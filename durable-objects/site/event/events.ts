/** The events of commands: acknowledgements, executions and alarms, written to the outbox and counted. */
import type { ExecutionStatus } from '../../../protocol/enums.ts';
import type { Acknowledgement, Alarm } from '../../../protocol/event.ts';
import type { OwnCounts } from '../../figures/counts.ts';
import type { Turn } from '../../object/turn.ts';
import type { Violation } from '../refusal.ts';
import {
  acknowledgementEvent,
  deviationAlarm,
  droppedAlarm,
  type EventSubject,
  type ExecutionDetails,
  executionEvent,
  expiryAlarm,
  violationAlarms,
} from './event-rows.ts';
import type { Outbox } from './outbox.ts';
import type { NewOutboxRow } from './rows.ts';
import { ViolationDamping } from './violation-damping.ts';

export interface EventsHost {
  outbox: Outbox;
  counts: OwnCounts;
  /** The keys that may see the plant [C-8.1]. */
  registry: { readonly keyIds: readonly string[] };
}

export class Events {
  readonly #host: EventsHost;
  readonly #damping = new ViolationDamping();

  constructor(host: EventsHost) {
    this.#host = host;
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
    this.#violations(turn, about, violations);
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

  /** A command broke a limit. `skipped`: a slot did, and its schedule goes on. */
  violated(turn: Turn, about: EventSubject, violation: Violation, outcome?: 'rejected' | 'skipped'): void {
    this.#violations(turn, about, [violation], outcome);
  }

  /** A command expired before it was sent to its device. */
  expired(turn: Turn, about: EventSubject, deviceId: string | undefined): void {
    this.#raise(turn, 'COMMAND_EXPIRED', expiryAlarm(about, deviceId, this.#host.registry.keyIds, turn.now));
  }

  /** The plant no longer follows a setpoint that had its verdict already, or rejected a slot. */
  dropped(turn: Turn, about: EventSubject, reason: string | null, slot?: number): void {
    const { keyIds } = this.#host.registry;
    this.#raise(turn, 'SETPOINT_DEVIATION', droppedAlarm(about, reason, keyIds, turn.now, slot));
  }

  deviated(turn: Turn, about: EventSubject, details: ExecutionDetails): void {
    const { keyIds } = this.#host.registry;
    this.#raise(turn, 'SETPOINT_DEVIATION', deviationAlarm(about, details, keyIds, turn.now));
  }

  #violations(
    turn: Turn,
    about: EventSubject,
    violations: readonly Violation[],
    outcome?: 'rejected' | 'skipped',
  ): void {
    const { keyIds } = this.#host.registry;
    const keysFor = (constraint: string) => this.#damping.keysFor(turn, constraint, about.keyId, keyIds);
    this.#raise(turn, 'CONSTRAINT_VIOLATION', violationAlarms(about, violations, keysFor, turn.now, outcome));
  }

  /** An alarm goes to several keys and counts once. */
  #raise(turn: Turn, type: Alarm['type'], rows: readonly NewOutboxRow[]): void {
    this.#host.outbox.emit(turn, ...rows);
    const alarms = new Set(rows.map((row) => row.message_id));
    this.#host.counts.add(turn, `alarms/${type}`, alarms.size);
  }
}
