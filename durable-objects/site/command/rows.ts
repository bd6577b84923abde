/** The command log: the oldest rows are deleted first, except those of open commands. */

import type { CommandStatus } from '../../../protocol/enums.ts';
import type { CommandType } from '../../../protocol/routing-keys.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { EMPTY, type Extent, type Trimmable } from '../retention.ts';
import { sentBy } from '../sight.ts';
import { LogPages } from './log-pages.ts';

export type CommandRow = {
  sequence: number;
  id: string;
  /** Empty if the command was not sent with a key. */
  key_id: string;
  key_prefix: string;
  /** The partner of the key; empty if the command was not sent with a key. */
  partner_id: string;
  /** Grows by one from one row of the partner to the next. */
  partner_place: number;
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
  /** JSON of `Decision`; null for a configuration that no partner sent. */
  decision: string | null;
  /** When the platform got it; null: before the platform recorded this. */
  published_at_ms: number | null;
  /** When a device said that it works on it. */
  device_started_at_ms: number | null;
  /** JSON of the times in which the plant followed a setpoint, until its command ended. */
  spans: string | null;
  /** JSON of `JudgementInputs`. */
  inputs: string | null;
  /** The reason and the decision for those who see all commands; null: they are the same for everybody. */
  full_reason: string | null;
  full_decision: string | null;
  starts_at: number;
  size: number;
};

/** Required columns of a new row. */
type FirstColumn =
  | 'id'
  | 'key_id'
  | 'key_prefix'
  | 'partner_id'
  | 'command_type'
  | 'message_id'
  | 'routing_key'
  | 'status'
  | 'payload'
  | 'source'
  | 'created_at_ms'
  | 'acked_at_ms';
/** Columns that are computed here or set later. */
type LaterColumn =
  | 'sequence'
  | 'partner_place'
  | 'actual_value_kw'
  | 'deviation_kw'
  | 'started_at_ms'
  | 'device_started_at_ms'
  | 'spans'
  | 'full_reason'
  | 'starts_at'
  | 'size';

/** What the caller gives for a new row; optional columns that it omits are null. */
export type NewCommand = Pick<CommandRow, FirstColumn> & Partial<Omit<CommandRow, FirstColumn | LaterColumn>>;

/** How a command ended; for a setpoint with the measured values. */
export type CommandOutcome = {
  status: 'COMPLETED' | 'DEVIATED' | 'FAILED';
  reason: string | null;
  /** The reason for those who see all commands, if it differs. */
  fullReason?: string;
  actualValueKw?: number;
  deviationKw?: number;
};

/** Rows that are kept whatever their age: a dispatch, a plan entry or an open schedule still needs them. */
const HELD = `SELECT command_sequence FROM dispatch WHERE command_sequence IS NOT NULL UNION SELECT command_sequence FROM plan_entry
  UNION SELECT command_sequence FROM schedule WHERE ended_at_ms IS NULL`;

/** Bytes counted per row in addition to its texts. */
const ROW_BYTES = 400;

export class CommandRows implements Trimmable {
  /** The rows by their place and time. */
  readonly log: LogPages<CommandRow>;
  readonly #sql: Sql;
  #extent: Extent | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
    this.log = new LogPages(sql);
  }

  find(sequence: number): CommandRow | undefined {
    return this.#sql.one<CommandRow>('SELECT * FROM command WHERE sequence = ?', sequence);
  }

  /** The row of a publish that was rejected without reserving its messageId. */
  ofPublish(publishId: string): CommandRow | undefined {
    return this.#sql.one<CommandRow>(
      'SELECT * FROM command WHERE publish_id = ? AND publish_id IS NOT NULL',
      publishId,
    );
  }

  /**
   * Open commands of these partners (undefined: of all), newest first. Each has a dispatch, a plan entry or an open
   * schedule.
   */
  open(limit: number, partners: readonly string[] | undefined): CommandRow[] {
    const { sql, bindings } = sentBy(partners);
    return this.#sql.all<CommandRow>(
      `SELECT * FROM command WHERE sequence IN (${HELD}) AND status IN ('PENDING', 'EXECUTING') AND ${sql}
       ORDER BY sequence DESC LIMIT ?`,
      ...bindings,
      limit,
    );
  }

  /** Inserts a command; returns its sequence. */
  insert(turn: Turn, command: NewCommand): number {
    const columns = Object.keys(command) as (keyof NewCommand)[];
    const marks = columns.map(() => '?').join(', ');
    const extent = this.extent();
    const { payload, results, source, message, correlation_id: correlationId, decision, inputs } = command;
    const { partner_id: partnerId, full_decision: fullDecision } = command;
    const texts = [
      payload,
      results,
      source,
      message,
      correlationId,
      decision,
      inputs,
      partnerId,
      fullDecision,
    ];
    const size = ROW_BYTES + texts.reduce((sum, text) => sum + (text?.length ?? 0), 0);
    turn.undo(() => {
      this.#extent = extent;
    });
    this.#extent = { ...extent, endsAt: extent.endsAt + size };
    return turn.writeReturning<{ sequence: number }>(
      `INSERT INTO command (${columns.join(', ')}, starts_at, size, partner_place)
       VALUES (${marks}, ?, ?, 1 + ifnull((SELECT partner_place FROM command WHERE partner_id = ?
         ORDER BY sequence DESC LIMIT 1), 0)) RETURNING sequence`,
      ...columns.map((column) => command[column] ?? null),
      extent.endsAt,
      size,
      partnerId,
    ).sequence;
  }

  markDispatched(turn: Turn, sequence: number | null): void {
    turn.write(
      'UPDATE command SET dispatched_at_ms = ? WHERE sequence = ? AND dispatched_at_ms IS NULL',
      turn.now,
      sequence,
    );
  }

  /** `isAtWork`: the device says that it works on the command, and not only that it has it. */
  markStarted(turn: Turn, sequence: number, isAtWork = false): void {
    turn.write(
      `UPDATE command SET status = 'EXECUTING', started_at_ms = ?, device_started_at_ms = ? WHERE sequence = ?`,
      turn.now,
      isAtWork ? turn.now : null,
      sequence,
    );
  }

  markAtWork(turn: Turn, sequence: number): void {
    turn.write(
      'UPDATE command SET device_started_at_ms = ? WHERE sequence = ? AND device_started_at_ms IS NULL',
      turn.now,
      sequence,
    );
  }

  /** `command`: the current state of the row; its start time may be set in this turn and not be stored yet. */
  markEnded(
    turn: Turn,
    command: CommandRow,
    outcome: CommandOutcome,
    spans: readonly (readonly [number, number])[] = [],
  ): void {
    turn.write(
      `UPDATE command SET status = ?, reason = ?, full_reason = ?, actual_value_kw = ?, deviation_kw = ?, started_at_ms = ?,
         finished_at_ms = ?, spans = ? WHERE sequence = ?`,
      outcome.status,
      outcome.reason,
      outcome.fullReason ?? null,
      outcome.actualValueKw ?? null,
      outcome.deviationKw ?? null,
      command.started_at_ms,
      turn.now,
      spans.length === 0 ? null : JSON.stringify(spans),
      command.sequence,
    );
  }

  extent(): Extent {
    this.#extent ??= this.#readExtent();
    return this.#extent;
  }

  /** Deletes the oldest rows, except those of open commands and the newest row. */
  trim(turn: Turn, place: number, _beforeMs: number, limit: number): number {
    this.#extent = undefined;
    turn.undo(() => {
      this.#extent = undefined;
    });
    const last = this.#number(
      `SELECT max(sequence) AS number FROM (SELECT sequence FROM command WHERE starts_at < ?
         AND sequence NOT IN (${HELD})
         AND sequence < (SELECT max(sequence) FROM command) ORDER BY sequence LIMIT ?)`,
      ...[place, limit],
    );
    if (last === undefined) return 0;
    const left = turn.write(`DELETE FROM command WHERE sequence <= ? AND sequence NOT IN (${HELD})`, last);
    turn.write('UPDATE counters SET log_start = max(log_start, ?)', last + 1);
    return left;
  }

  /** Sequence of the last accepted emergency: of older commands a returning device gets only those that survive it. */
  lastEmergency(): number {
    return this.#number('SELECT emergency_sequence AS number FROM counters') ?? 0;
  }

  noteEmergency(turn: Turn, sequence: number): void {
    turn.write('UPDATE counters SET emergency_sequence = ?', sequence);
  }

  /**
   * The value of the column `number` of a query's only row; undefined if the value is null or the query
   * returns no row.
   */
  #number(query: `SELECT ${string}`, ...bindings: number[]): number | undefined {
    return this.#sql.one<{ number: number | null }>(query, ...bindings)?.number ?? undefined;
  }

  #readExtent(): Extent {
    const newest = this.find(this.log.newest());
    // The oldest row that may be deleted.
    const first = this.#number(
      `SELECT sequence AS number FROM command WHERE sequence NOT IN (${HELD}) ORDER BY sequence LIMIT 1`,
    );
    if (!newest) return EMPTY;
    const endsAt = newest.starts_at + newest.size;
    const startsAt = first === undefined ? endsAt : (this.find(first)?.starts_at ?? endsAt);
    return { startsAt, endsAt, oldestMs: undefined };
  }
}
