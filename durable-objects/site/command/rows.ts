/** The command log: rows leave at the old end, but for those of commands that are open. */
import type { CommandStatus, CommandType } from '../../../protocol/enums.ts';
import { EMPTY, type Extent } from '../../object/extent.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { Kept } from '../retention.ts';

export type CommandRow = {
  sequence: number;
  id: string;
  /** Empty where no key sent it. */
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
  publish_id: string | null;
  /** JSON of what decided, and what it saw. Null in rows from before. */
  decision: string | null;
  starts_at: number;
  size: number;
};

/** What a new row has in any case. */
type FirstColumn =
  | 'id'
  | 'key_id'
  | 'key_prefix'
  | 'command_type'
  | 'message_id'
  | 'routing_key'
  | 'status'
  | 'payload'
  | 'source'
  | 'created_at_ms'
  | 'acked_at_ms';
/** Its place, and what only comes later. */
type LaterColumn = 'sequence' | 'actual_value_kw' | 'deviation_kw' | 'started_at_ms' | 'starts_at' | 'size';

/** The columns of a new row; one that is left out is null. */
export type NewCommand = Pick<CommandRow, FirstColumn> & Partial<Omit<CommandRow, FirstColumn | LaterColumn>>;

/** How a command ended; of a setpoint what was measured, too. */
export type CommandOutcome = {
  status: 'COMPLETED' | 'DEVIATED' | 'FAILED';
  reason: string | null;
  actualValueKw?: number;
  deviationKw?: number;
};

/** Rows that stay whatever their age: something under way or standing is told from them. */
const HELD = `SELECT command_sequence FROM dispatch UNION SELECT command_sequence FROM plan_entry
  UNION SELECT command_sequence FROM schedule WHERE ended_at_ms IS NULL`;

/** What a row takes beside its texts. */
const ROW_BYTES = 400;

export class CommandRows implements Kept {
  readonly #sql: Sql;
  #extent: Extent | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  find(sequence: number): CommandRow | undefined {
    return this.#sql.one<CommandRow>('SELECT * FROM command WHERE sequence = ?', sequence);
  }

  /** The rejection, without a messageId of its own, that a publish got. */
  ofPublish(publishId: string): CommandRow | undefined {
    return this.#sql.one<CommandRow>(
      'SELECT * FROM command WHERE publish_id = ? AND publish_id IS NOT NULL',
      publishId,
    );
  }

  /** How many rows the log has: from some row on there are no gaps, and those before are few. */
  total(): number {
    const first = this.#gaplessFrom();
    const kept =
      this.#sql.one<{ count: number }>('SELECT count(*) AS count FROM command WHERE sequence < ?', first)
        ?.count ?? 0;
    return Math.max(0, this.#newest() - first + 1) + kept;
  }

  /** Newest first. Sequences have no gaps at the new end, so a page is found without walking to it. */
  page(page: number, pageSize: number): CommandRow[] {
    const first = this.#gaplessFrom();
    const from = this.#newest() - (page - 1) * pageSize;
    const rows = this.#sql.all<CommandRow>(
      'SELECT * FROM command WHERE sequence <= ? AND sequence >= ? ORDER BY sequence DESC LIMIT ?',
      from,
      first,
      pageSize,
    );
    if (rows.length === pageSize) return rows;
    const kept = this.#sql.all<CommandRow>(
      'SELECT * FROM command WHERE sequence < ? ORDER BY sequence DESC LIMIT ? OFFSET ?',
      first,
      pageSize - rows.length,
      Math.max(0, first - 1 - from),
    );
    return [...rows, ...kept];
  }

  /** Newest first: those that have not ended. Each has a dispatch or stands in the plan. */
  open(limit: number): CommandRow[] {
    return this.#sql.all<CommandRow>(
      `SELECT * FROM command WHERE sequence IN (${HELD}) AND status IN ('PENDING', 'EXECUTING')
       ORDER BY sequence DESC LIMIT ?`,
      limit,
    );
  }

  /** Returns its sequence. */
  insert(turn: Turn, command: NewCommand): number {
    const columns = Object.keys(command) as (keyof NewCommand)[];
    const marks = columns.map(() => '?').join(', ');
    const extent = this.extent();
    const { payload, results, source, message, correlation_id: correlationId, decision } = command;
    const texts = [payload, results, source, message, correlationId, decision];
    const size = ROW_BYTES + texts.reduce((sum, text) => sum + (text?.length ?? 0), 0);
    turn.undo(() => {
      this.#extent = undefined;
    });
    this.#extent = { ...extent, endsAt: extent.endsAt + size };
    return turn.writeReturning<{ sequence: number }>(
      `INSERT INTO command (${columns.join(', ')}, starts_at, size) VALUES (${marks}, ?, ?) RETURNING sequence`,
      ...columns.map((column) => command[column] ?? null),
      extent.endsAt,
      size,
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

  /** `command`: as it stands; its start may be of this turn. */
  markEnded(turn: Turn, command: CommandRow, outcome: CommandOutcome): void {
    turn.write(
      `UPDATE command SET status = ?, reason = ?, actual_value_kw = ?, deviation_kw = ?, started_at_ms = ?,
         finished_at_ms = ? WHERE sequence = ?`,
      outcome.status,
      outcome.reason,
      outcome.actualValueKw ?? null,
      outcome.deviationKw ?? null,
      command.started_at_ms,
      turn.now,
      command.sequence,
    );
  }

  extent(): Extent {
    this.#extent ??= this.#readExtent();
    return this.#extent;
  }

  /** An open command keeps its row, and so does the newest. */
  trim(turn: Turn, place: number, _beforeMs: number, limit: number): number {
    this.#extent = undefined;
    const last = this.#sql.one<{ last: number | null }>(
      `SELECT max(sequence) AS last FROM (SELECT sequence FROM command WHERE starts_at < ?
         AND sequence NOT IN (${HELD})
         AND sequence < (SELECT max(sequence) FROM command) ORDER BY sequence LIMIT ?)`,
      place,
      limit,
    )?.last;
    if (last == null) return 0;
    const left = turn.write(`DELETE FROM command WHERE sequence <= ? AND sequence NOT IN (${HELD})`, last);
    turn.write('UPDATE counters SET log_start = max(log_start, ?)', last + 1);
    return left;
  }

  /** The last emergency that was taken: it is told to a device that comes back, and nothing older is. */
  lastEmergency(): number {
    return (
      this.#sql.one<{ sequence: number }>('SELECT emergency_sequence AS sequence FROM counters')?.sequence ??
      0
    );
  }

  noteEmergency(turn: Turn, sequence: number): void {
    turn.write('UPDATE counters SET emergency_sequence = ?', sequence);
  }

  #gaplessFrom(): number {
    const start = this.#sql.one<{ start: number }>('SELECT log_start AS start FROM counters')?.start ?? 0;
    const oldest =
      this.#sql.one<{ oldest: number | null }>('SELECT min(sequence) AS oldest FROM command')?.oldest ??
      this.#newest() + 1;
    return Math.max(start, oldest);
  }

  /** The first row that is no open command's: it would leave first. */
  #first(): number | undefined {
    return this.#sql.one<{ sequence: number }>(
      `SELECT sequence FROM command WHERE sequence NOT IN (${HELD})
       ORDER BY sequence LIMIT 1`,
    )?.sequence;
  }

  #newest(): number {
    return (
      this.#sql.one<{ newest: number | null }>('SELECT max(sequence) AS newest FROM command')?.newest ?? 0
    );
  }

  #readExtent(): Extent {
    const newest = this.find(this.#newest());
    const first = this.#first();
    if (!newest) return EMPTY;
    const endsAt = newest.starts_at + newest.size;
    const startsAt = first === undefined ? endsAt : (this.find(first)?.starts_at ?? endsAt);
    return { startsAt, endsAt, oldestMs: undefined };
  }
}
