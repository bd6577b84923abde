/** Dispatches: each is one MQTT command for one device, of a command, of the plan or sent over REST. */
import type { CommandType } from '../../../protocol/routing-keys.ts';
import { earliest } from '../../object/agenda.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

/**
 * A partner's or admin's command by its type; RELEASE: a mode change that only releases a device from an
 * emergency; PLAN: the plan itself, for a slot, the mode in force or a repeated emergency; REST_COMMAND: a
 * command to one device over REST [C-3.4].
 */
export type OwnerName = CommandType | 'RELEASE' | 'PLAN' | 'REST_COMMAND';

export type DispatchState = 'WAITING' | 'SENT' | 'RECEIVED' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED';

export type DispatchRow = {
  cmd_id: string;
  owner: OwnerName;
  /** Null where the owner is no command. */
  command_sequence: number | null;
  device_id: string;
  action: string;
  payload: string;
  state: DispatchState;
  tries: number;
  not_before_ms: number;
  expires_at_ms: number | null;
  due_at_ms: number | null;
  reason: string | null;
};

/** The columns that change. */
type DispatchChange = Partial<
  Pick<DispatchRow, 'device_id' | 'payload' | 'state' | 'tries' | 'due_at_ms' | 'reason'>
>;

/** A command that waits for its devices; it may have several dispatches. */
type WaitingCommand = { sequence: number; owner: OwnerName };

export class DispatchRows {
  readonly #sql: Sql;
  /**
   * The earliest due time, or a time before it. Kept in memory because an index would cost a row write for
   * each dispatch. It may still be the due time of a dispatch that has ended, until the next alarm reads the
   * due times again.
   */
  #due: { atMs: number | undefined } | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  find(cmdId: string): DispatchRow | undefined {
    return this.#where('cmd_id = ?', cmdId)[0];
  }

  // lists of several commands, except `due`: first those of no command, then by command, oldest first

  ofCommand(commandSequence: number): DispatchRow[] {
    return this.#where('command_sequence = ?', commandSequence);
  }

  ofOwner(owner: OwnerName): DispatchRow[] {
    return this.#where('owner = ? ORDER BY command_sequence', owner);
  }

  /** All waiting dispatches, and the dispatches of this device that have not ended. */
  openFor(deviceId: string): DispatchRow[] {
    return this.#where(
      `state = 'WAITING' OR (device_id = ? AND state IN ('SENT', 'RECEIVED', 'IN_PROGRESS')) ORDER BY command_sequence`,
      deviceId,
    );
  }

  /** All dispatches of one device, those that have ended included. */
  ofDevice(deviceId: string): DispatchRow[] {
    return this.#where('device_id = ? ORDER BY command_sequence', deviceId);
  }

  waiting(): DispatchRow[] {
    return this.#where(`state = 'WAITING' ORDER BY command_sequence`);
  }

  all(): DispatchRow[] {
    return this.#where('TRUE ORDER BY command_sequence');
  }

  /** Commands with a waiting dispatch, oldest first. */
  waitingCommands(): WaitingCommand[] {
    return this.#sql.all<WaitingCommand>(
      `SELECT DISTINCT command_sequence AS sequence, owner FROM dispatch
       WHERE state = 'WAITING' AND command_sequence IS NOT NULL ORDER BY command_sequence`,
    );
  }

  due(now: number, limit: number): DispatchRow[] {
    return this.#where('due_at_ms <= ? ORDER BY due_at_ms LIMIT ?', now, limit);
  }

  /** The earliest due time, or an earlier time at which nothing is due. */
  dueMs(): number | undefined {
    this.#due ??= { atMs: this.#readDue() };
    return this.#due.atMs;
  }

  /** Makes the next call of `dueMs` read the due times from storage. */
  forgetDue(): void {
    this.#due = undefined;
  }

  insert(turn: Turn, dispatch: DispatchRow): void {
    this.#noteDue(turn, dispatch);
    turn.insert('dispatch', dispatch);
  }

  /** Returns the changed row. */
  update(turn: Turn, row: DispatchRow, change: DispatchChange): DispatchRow {
    const next = { ...row, ...change };
    this.#noteDue(turn, next);
    turn.write(
      `UPDATE dispatch SET device_id = ?, payload = ?, state = ?, tries = ?, due_at_ms = ?, reason = ?
       WHERE cmd_id = ?`,
      next.device_id,
      next.payload,
      next.state,
      next.tries,
      next.due_at_ms,
      next.reason,
      next.cmd_id,
    );
    return next;
  }

  deleteOfCommand(turn: Turn, commandSequence: number): void {
    turn.write('DELETE FROM dispatch WHERE command_sequence = ?', commandSequence);
  }

  deleteOfOwner(turn: Turn, owner: OwnerName): void {
    turn.write('DELETE FROM dispatch WHERE owner = ?', owner);
  }

  delete(turn: Turn, cmdId: string): void {
    turn.write('DELETE FROM dispatch WHERE cmd_id = ?', cmdId);
  }

  #noteDue(turn: Turn, { due_at_ms: dueAtMs }: DispatchRow): void {
    const before = this.#due;
    if (!before) return;
    turn.undo(() => {
      this.#due = before;
    });
    this.#due = { atMs: earliest([before.atMs, dueAtMs]) };
  }

  #where(condition: string, ...bindings: (string | number)[]): DispatchRow[] {
    return this.#sql.all<DispatchRow>(`SELECT * FROM dispatch WHERE ${condition}`, ...bindings);
  }

  #readDue(): number | undefined {
    const row = this.#sql.one<{ due: number | null }>(
      'SELECT min(due_at_ms) AS due FROM dispatch WHERE due_at_ms IS NOT NULL',
    );
    return earliest([row?.due]);
  }
}
