/** The command log, and the one effect of each messageId. */
import type { CommandStatus, CommandType } from '../../../protocol/enums.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

export type CommandRow = {
  sequence: number;
  id: string;
  key_id: string;
  key_prefix: string;
  message_id: string;
  correlation_id: string | null;
  command_type: CommandType;
  routing_key: string;
  status: CommandStatus;
  priority: string | null;
  target: string | null;
  payload: string;
  rejection_code: string | null;
  message: string | null;
  results: string | null;
  source: string;
  valid_from_ms: number | null;
  valid_until_ms: number | null;
  target_value_kw: number | null;
  actual_value_kw: number | null;
  deviation_kw: number | null;
  reason: string | null;
  created_at_ms: number;
  acked_at_ms: number | null;
  dispatched_at_ms: number | null;
  started_at_ms: number | null;
  finished_at_ms: number | null;
};

/** The columns of a new row; the sequence is ours. */
export type NewCommand = Omit<CommandRow, 'sequence' | 'actual_value_kw' | 'deviation_kw' | 'started_at_ms'>;

export type CommandOutcome = { status: 'COMPLETED' | 'DEVIATED' | 'FAILED'; reason: string | null };

export type ReceivedMessageRow = { command_sequence: number; acknowledgement: string };

export class CommandRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  find(sequence: number): CommandRow | undefined {
    return this.#sql.one<CommandRow>('SELECT * FROM command WHERE sequence = ?', sequence);
  }

  /** How many rows the log has: without gaps its ends tell, whatever its length. */
  total(): number {
    const ends = this.#sql.one<{ oldest: number | null; newest: number | null }>(
      'SELECT (SELECT min(sequence) FROM command) AS oldest, (SELECT max(sequence) FROM command) AS newest',
    );
    return ends?.newest == null || ends.oldest === null ? 0 : ends.newest - ends.oldest + 1;
  }

  /** Newest first. Sequences have no gaps at the new end, so a page is found without walking to it. */
  page(page: number, pageSize: number): CommandRow[] {
    const newest =
      this.#sql.one<{ newest: number | null }>('SELECT max(sequence) AS newest FROM command')?.newest ?? 0;
    return this.#sql.all<CommandRow>(
      'SELECT * FROM command WHERE sequence <= ? ORDER BY sequence DESC LIMIT ?',
      newest - (page - 1) * pageSize,
      pageSize,
    );
  }

  /** Newest first: those that have not ended, and so have a dispatch. */
  open(limit: number): CommandRow[] {
    return this.#sql.all<CommandRow>(
      'SELECT * FROM command WHERE sequence IN (SELECT command_sequence FROM dispatch) ORDER BY sequence DESC LIMIT ?',
      limit,
    );
  }

  /** Returns its sequence. */
  insert(turn: Turn, command: NewCommand): number {
    const columns = Object.keys(command) as (keyof NewCommand)[];
    const marks = columns.map(() => '?').join(', ');
    return turn.writeReturning<{ sequence: number }>(
      `INSERT INTO command (${columns.join(', ')}) VALUES (${marks}) RETURNING sequence`,
      ...columns.map((column) => command[column] ?? null),
    ).sequence;
  }

  markDispatched(turn: Turn, sequence: number): void {
    turn.write(
      'UPDATE command SET dispatched_at_ms = ? WHERE sequence = ? AND dispatched_at_ms IS NULL',
      turn.now,
      sequence,
    );
  }

  markStarted(turn: Turn, sequence: number): void {
    turn.write(
      `UPDATE command SET status = 'EXECUTING', started_at_ms = ? WHERE sequence = ?`,
      turn.now,
      sequence,
    );
  }

  markEnded(turn: Turn, sequence: number, { status, reason }: CommandOutcome): void {
    turn.write(
      'UPDATE command SET status = ?, reason = ?, finished_at_ms = ? WHERE sequence = ?',
      status,
      reason,
      turn.now,
      sequence,
    );
  }

  // one effect per messageId

  received(keyId: string, messageId: string): ReceivedMessageRow | undefined {
    return this.#sql.one<ReceivedMessageRow>(
      'SELECT command_sequence, acknowledgement FROM received_message WHERE key_id = ? AND message_id = ?',
      keyId,
      messageId,
    );
  }

  remember(turn: Turn, keyId: string, messageId: string, row: ReceivedMessageRow): void {
    turn.write(
      `INSERT INTO received_message (key_id, message_id, command_sequence, acknowledgement, received_at_ms)
       VALUES (?, ?, ?, ?, ?)`,
      keyId,
      messageId,
      row.command_sequence,
      row.acknowledgement,
      turn.now,
    );
  }

  forgetBefore(turn: Turn, receivedAtMs: number): void {
    turn.write('DELETE FROM received_message WHERE received_at_ms < ?', receivedAtMs);
  }
}
