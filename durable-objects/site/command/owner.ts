/**
 * The owners of commands: the rules that say what the acks and failures of a dispatch mean for its command.
 * `CommandOwner` is the rule of a command that its devices' acks end; the nouns (plan, schedule,
 * configuration) extend it with what their commands do to the site.
 */
import { type CommandPayload, parseCommand } from '../../../protocol/command.ts';
import type { CommandType } from '../../../protocol/routing-keys.ts';
import type { Turn } from '../../object/turn.ts';
import {
  type DispatchWindow,
  hasEnded,
  outcomeOf,
  type PlannedDispatch,
  siteNames,
} from '../dispatch/dispatch.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { Departure, Owner } from '../dispatch/owner.ts';
import type { DispatchRow, DispatchState } from '../dispatch/rows.ts';
import type { Events } from '../event/events.ts';
import { type Refusal, refusal } from '../refusal.ts';
import type { SiteView, ViewOf } from '../site-view.ts';
import { type Commands, subjectOf } from './commands.ts';
import type { JudgedItem, Kind } from './kind/kind.ts';
import type { CommandOutcome, CommandRow } from './rows.ts';

/** A valid command that is not in the log yet. */
export interface NewlyAccepted<Payload> {
  /** The partner that sent it; empty: a person. */
  partnerId: string;
  payload: Payload;
  items: readonly JudgedItem[];
  planned: readonly PlannedDispatch[];
  window: DispatchWindow;
  view: SiteView;
}

/** A command that is in the log now. */
export interface Recorded<Payload> extends NewlyAccepted<Payload> {
  sequence: number;
  id: string;
}

/** Whether a new command must wait, and what its log row says about its place in the plan. */
export interface Outlook {
  waits: boolean;
  planFacts?: Record<string, unknown>;
  /** The same for those who see all commands, if it differs. */
  fullPlanFacts?: Record<string, unknown>;
}

export interface CommandOwnerHost {
  commands: Commands;
  dispatches: Dispatches;
  events: Events;
  view: ViewOf;
}

export class CommandOwner<Type extends CommandType> implements Owner {
  readonly type: Type;
  readonly survivesEmergency: boolean = false;
  readonly mayReachAnother: boolean = false;
  readonly isNeverDropped: boolean = false;
  protected readonly host: CommandOwnerHost;
  readonly #kind: Kind<CommandPayload<Type>>;

  constructor(type: Type, kind: Kind<CommandPayload<Type>>, host: CommandOwnerHost) {
    this.type = type;
    this.#kind = kind;
    this.host = host;
  }

  // the beginning and the end of a command

  /** Whether a new command waits although its devices are there. */
  outlook(turn: Turn, _accepted: NewlyAccepted<CommandPayload<Type>>): Outlook {
    return { waits: this.isHeldBack(turn) };
  }

  /** Whether the plant follows the command from now on; null: it has no place in the plan, or gets it at an acknowledgement. */
  isOnTop(_turn: Turn, _sequence: number): boolean | null {
    return null;
  }

  /** The command is in the log: sends it to its devices. The owner of a command that changes the site extends this. */
  recorded(turn: Turn, { sequence, planned, window }: Recorded<CommandPayload<Type>>): void {
    const from = { owner: this.type, commandSequence: sequence };
    for (const one of planned) this.host.dispatches.create(turn, from, one, window);
  }

  /** The command has failed: removes what the site keeps for it. */
  forget(_turn: Turn, _sequence: number): void {}

  /** All dispatches of a command have ended, and at least one of them has failed. */
  protected commandFailed(turn: Turn, command: CommandRow, outcome: CommandOutcome): void {
    this.host.commands.fail(turn, command.sequence, outcome.reason);
  }

  /** The names that a failed dispatch adds to its command's reason. */
  protected namesOf(row: DispatchRow): readonly string[] {
    return siteNames(row);
  }

  // a dispatch of a command

  isHeldBack(_turn: Turn): boolean {
    return false;
  }

  sending(_turn: Turn, _row: DispatchRow): void {}

  acked(turn: Turn, row: DispatchRow, state: DispatchState): void {
    const { commands, dispatches, events } = this.host;
    const logged = this.commandOf(row);
    const starts = state !== 'FAILED' && logged.status === 'PENDING';
    const command = starts ? { ...logged, started_at_ms: turn.now } : logged;
    if (starts) {
      events.executing(turn, subjectOf(command), { targetValueKw: command.target_value_kw });
    }
    if (state === 'COMPLETED' || state === 'FAILED') {
      if (this.#endDispatch(turn, command, row, { state, reason: row.reason })) return;
    } else dispatches.holdForResult(turn, row, state);
    if (starts) commands.rows.markStarted(turn, command.sequence, state !== 'RECEIVED');
    else if (state === 'IN_PROGRESS') commands.rows.markAtWork(turn, command.sequence);
  }

  failed(turn: Turn, row: DispatchRow, reason: string | null, why?: Refusal): void {
    const command = this.commandOf(row);
    const about = subjectOf(command);
    if (why?.violation) this.host.events.violated(turn, about, why.violation);
    if (reason === 'EXPIRED') this.host.events.expired(turn, about, row.device_id);
    this.#endDispatch(turn, command, row, { state: 'FAILED', reason });
  }

  replan(turn: Turn, row: DispatchRow): PlannedDispatch[] {
    const payload = this.payloadOf(this.commandOf(row));
    return payload ? this.#kind.replan(payload, waitingOf(row), this.host.view(turn)) : [];
  }

  recheck(turn: Turn, row: DispatchRow, isSent: boolean): Refusal | undefined {
    const payload = this.payloadOf(this.commandOf(row));
    if (!payload) return refusal('INVALID_PAYLOAD', 'the stored command cannot be read');
    return this.#kind.recheck(payload, waitingOf(row), this.host.view(turn), isSent);
  }

  deviceGone(turn: Turn, row: DispatchRow, _why: Departure): void {
    const { dispatches } = this.host;
    if (row.state === 'WAITING') {
      if (row.not_before_ms <= turn.now) dispatches.sendWaiting(turn, row.cmd_id);
    } else if (this.mayReachAnother) dispatches.requeue(turn, row);
    // The device was sent the command and may have obeyed it, so no other device may get it.
    else dispatches.fail(turn, row, 'DEVICE_GONE');
  }

  protected commandOf(row: DispatchRow): CommandRow {
    const command = row.command_sequence === null ? undefined : this.host.commands.find(row.command_sequence);
    if (!command) throw new Error(`the command log has no row for the command of dispatch ${row.cmd_id}`);
    return command;
  }

  /** Undefined when the row's payload is not valid any more. */
  protected payloadOf(command: CommandRow | undefined): CommandPayload<Type> | undefined {
    const parsed = command && parseCommand(command.command_type, command.payload);
    return parsed?.ok ? (parsed.value.payload as CommandPayload<Type>) : undefined;
  }

  /** Ends one dispatch; when all of its command have ended, the command ends. Returns whether it did. */
  #endDispatch(
    turn: Turn,
    command: CommandRow,
    row: DispatchRow,
    how: { state: 'COMPLETED' | 'FAILED'; reason: string | null },
  ): boolean {
    const { commands, dispatches } = this.host;
    const rows = dispatches.rows
      .ofCommand(command.sequence)
      .map((one) => (one.cmd_id === row.cmd_id ? { ...one, ...how } : one));
    const isLast = rows.every((one) => hasEnded(one.state));
    if (!isLast) {
      dispatches.rows.update(turn, row, { ...how, due_at_ms: null });
      return false;
    }
    const outcome = outcomeOf(rows, (one) => this.namesOf(one));
    if (outcome.status === 'FAILED') this.commandFailed(turn, command, outcome);
    else {
      commands.finish(turn, command, outcome);
      dispatches.rows.deleteOfCommand(turn, command.sequence);
    }
    return true;
  }
}

/** One owner for each command type: a type without one does not compile. */
export type CommandOwners = { readonly [Type in CommandType]: CommandOwner<Type> };

function waitingOf({ device_id: deviceId, action, payload: payloadText }: DispatchRow) {
  return { deviceId, action, payloadText };
}
