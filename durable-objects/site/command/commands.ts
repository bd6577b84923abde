/** The commands of a site: their log, and the end of each command, which happens once [C-7.8]. */
import type { Turn } from '../../object/turn.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { EventSubject } from '../event/event-rows.ts';
import type { Events } from '../event/events.ts';
import { mayName } from '../sight.ts';
import type { CommandOutcome, CommandRow, CommandRows } from './rows.ts';

/** A command that has ended, and why, for those who see all commands. */
export interface EndedCommand {
  command: CommandRow;
  reason: string | null;
}

export interface CommandsHost {
  rows: CommandRows;
  events: Events;
  dispatches: Dispatches;
  /** The times in which the plant has followed a setpoint. */
  spansOf(sequence: number, now: number): readonly (readonly [number, number])[];
  /** Removes what the nouns of the site keep for a failed command. */
  forget(turn: Turn, sequence: number): void;
}

export class Commands {
  readonly rows: CommandRows;
  readonly #host: CommandsHost;
  readonly #ended = new WeakMap<Turn, readonly EndedCommand[]>();

  constructor(host: CommandsHost) {
    this.#host = host;
    this.rows = host.rows;
  }

  find(sequence: number): CommandRow | undefined {
    return this.rows.find(sequence);
  }

  /** The commands that have ended in this turn so far. */
  endedIn(turn: Turn): readonly EndedCommand[] {
    return this.#ended.get(turn) ?? [];
  }

  /**
   * Ends an open command: its row and its event. The caller ends what is still open for it. `spans`: the times in which the
   * plant followed it.
   */
  finish(
    turn: Turn,
    command: CommandRow,
    outcome: CommandOutcome,
    spans = this.#host.spansOf(command.sequence, turn.now),
  ): void {
    if (!isOpen(command)) return;
    this.rows.markEnded(turn, command, outcome, spans);
    const before = this.endedIn(turn);
    turn.undo(() => this.#ended.set(turn, before));
    this.#ended.set(turn, [...before, { command, reason: outcome.fullReason ?? outcome.reason }]);
    const details = { targetValueKw: command.target_value_kw, ...outcome };
    this.#host.events.ended(turn, subjectOf(command), outcome.status, details);
  }

  /** Fails a command if it is open, and ends everything that is open or active for it. */
  fail(
    turn: Turn,
    sequence: number,
    reason: string | null,
    more: Pick<CommandOutcome, 'fullReason'> = {},
  ): void {
    const command = this.find(sequence);
    if (command) this.finish(turn, command, { status: 'FAILED', reason, ...more });
    this.#host.dispatches.rows.deleteOfCommand(turn, sequence);
    this.#host.forget(turn, sequence);
  }

  /** A newer command replaces it. Its partner reads the id of the newer one only if it sees that command [C-15.1]. */
  supersede(turn: Turn, sequence: number, bySequence: number): void {
    const [command, by] = [this.find(sequence), this.find(bySequence)];
    if (!command || !by) {
      this.fail(turn, sequence, 'SUPERSEDED');
      return;
    }
    const fullReason = `SUPERSEDED by ${by.id}`;
    if (mayName(command.partner_id, by.partner_id)) this.fail(turn, sequence, fullReason);
    else this.fail(turn, sequence, 'SUPERSEDED by another partner', { fullReason });
  }

  /** The window of a command has closed and its plant never acknowledged it. */
  expire(turn: Turn, command: CommandRow, gatewayId: string | undefined): void {
    const wasSent = command.dispatched_at_ms !== null;
    if (!wasSent) this.#host.events.expired(turn, subjectOf(command), gatewayId);
    this.finish(turn, command, { status: 'FAILED', reason: wasSent ? 'NO_ACK' : 'EXPIRED' });
  }
}

export function isOpen({ status }: CommandRow): boolean {
  return status === 'PENDING' || status === 'EXECUTING';
}

/** The events of a command echo its correlationId, or its messageId when it had none [C-8.1]. */
export function subjectOf(command: CommandRow): EventSubject {
  return {
    commandId: command.id,
    keyId: command.key_id,
    partnerId: command.partner_id,
    correlationId: command.correlation_id ?? command.message_id,
    commandType: command.command_type,
  };
}
