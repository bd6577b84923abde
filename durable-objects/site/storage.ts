/**
 * Every statement of a Site, by name. Callers wrap what belongs together in one `transaction`; nothing here
 * decides anything. Rows written are counted: they are the bill.
 */
import type { DevicePublishTopic } from '../../protocol/topics.ts';
import { migrate } from '../migrate.ts';
import { boundedRow } from '../row-size.ts';
import {
  type CommandRow,
  type DeviceRow,
  type DispatchRow,
  type JournalBlockRow,
  type OutboxRow,
  type ReceivedMessageRow,
  SITE_MIGRATIONS,
} from './schema.ts';

/** The columns of a new command-log row; the sequence is ours. */
export type NewCommand = Omit<CommandRow, 'sequence' | 'actual_value_kw' | 'deviation_kw' | 'started_at_ms'>;
export type NewOutboxRow = Omit<OutboxRow, 'sequence'>;
type Row = Record<string, SqlStorageValue>;

export type FactName = 'identity' | 'registry' | 'config' | 'modeOverride' | 'presence' | 'snapshot';

/** A block is closed at this age or size; a row is never longer than the size and one message. */
export const BLOCK_MS = 5 * 60_000;
export const BLOCK_CHARS = 64 * 1024;

/** Outbox sequences that one write takes in advance; what a wake finds unused is never used. */
const SEQUENCES_AHEAD = 1_000;

export class SiteStorage {
  rowsWritten = 0;
  #dispatchDueMs: number | undefined;
  #outboxSequence: number;
  #outboxSequenceEnd: number;
  readonly #storage: DurableObjectStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    migrate(storage, SITE_MIGRATIONS);
    this.reviseDispatchDue();
    this.#outboxSequence =
      this.#one<{ last: number }>('SELECT outbox_sequence AS last FROM counters')?.last ?? 0;
    this.#outboxSequenceEnd = this.#outboxSequence;
  }

  transaction<Value>(work: () => Value): Value {
    return this.#storage.transactionSync(work);
  }

  #all<R extends Row>(sql: string, ...bindings: SqlStorageValue[]): R[] {
    return this.#storage.sql.exec<R>(sql, ...bindings).toArray();
  }

  #one<R extends Row>(sql: string, ...bindings: SqlStorageValue[]): R | undefined {
    return this.#all<R>(sql, ...bindings)[0];
  }

  #write(sql: string, ...bindings: SqlStorageValue[]): void {
    this.rowsWritten += this.#storage.sql.exec(sql, ...bindings).rowsWritten;
  }

  // facts and counters

  fact<Value>(name: FactName): Value | undefined {
    const row = this.#one<{ value: string }>('SELECT value FROM fact WHERE name = ?', name);
    return row && (JSON.parse(row.value) as Value);
  }

  setFact(name: FactName, value: unknown): void {
    this.#write(
      'INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)',
      name,
      boundedRow(JSON.stringify(value)),
    );
  }

  nextEpoch(): number {
    this.#write('UPDATE counters SET epoch = epoch + 1');
    return this.#one<{ epoch: number }>('SELECT epoch FROM counters')?.epoch ?? 0;
  }

  // devices

  device(id: string): DeviceRow | undefined {
    return this.#one<DeviceRow>('SELECT * FROM device WHERE id = ?', id);
  }

  devices(): DeviceRow[] {
    return this.#all<DeviceRow>('SELECT * FROM device ORDER BY id');
  }

  /** A device that is new, or has another secret or type; its status stays. */
  putDevice(device: Pick<DeviceRow, 'id' | 'type' | 'secret_sealed' | 'secret_form'>): void {
    this.#write(
      `INSERT INTO device (id, type, status, secret_sealed, secret_form) VALUES (?, ?, 'ACTIVE', ?, ?)
       ON CONFLICT (id) DO UPDATE SET type = excluded.type, secret_sealed = excluded.secret_sealed,
         secret_form = excluded.secret_form`,
      device.id,
      device.type,
      device.secret_sealed,
      device.secret_form,
    );
  }

  setDeviceStatus(id: string, status: DeviceRow['status']): void {
    this.#write('UPDATE device SET status = ? WHERE id = ?', status, id);
  }

  /** Permanent: what it could sign with is gone. */
  decommissionDevice(id: string): void {
    this.#write(`UPDATE device SET status = 'DECOMMISSIONED', secret_sealed = '' WHERE id = ?`, id);
  }

  setSecretForm(id: string, form: DeviceRow['secret_form']): void {
    this.#write('UPDATE device SET secret_form = ? WHERE id = ?', form, id);
  }

  setReportedStatus(id: string, status: string): void {
    this.#write('UPDATE device SET reported_status = ? WHERE id = ?', status, id);
  }

  openSession(
    session: Required<
      Pick<
        DeviceRow,
        'id' | 'epoch' | 'connection_id' | 'bridge_id' | 'bridge_boot' | 'session_expires_at_ms'
      >
    >,
    now: number,
  ): void {
    this.#write(
      `UPDATE device SET epoch = ?, connection_id = ?, bridge_id = ?, bridge_boot = ?, connected_at_ms = ?,
         session_expires_at_ms = ?, disconnected_at_ms = NULL WHERE id = ?`,
      session.epoch,
      session.connection_id,
      session.bridge_id,
      session.bridge_boot,
      now,
      session.session_expires_at_ms,
      session.id,
    );
  }

  /** Ends the session of that epoch; a newer one stays. */
  closeSession(id: string, epoch: number, now: number): void {
    this.#write(
      `UPDATE device SET connection_id = NULL, session_expires_at_ms = NULL, disconnected_at_ms = ?
       WHERE id = ? AND epoch = ? AND connection_id IS NOT NULL`,
      now,
      id,
      epoch,
    );
  }

  hasSeenConnection(id: string): boolean {
    return this.#one('SELECT 1 FROM seen_connection WHERE id = ?', id) !== undefined;
  }

  rememberConnection(id: string, now: number, forgetBefore: number): void {
    this.#write('DELETE FROM seen_connection WHERE at_ms < ?', forgetBefore);
    this.#write('INSERT INTO seen_connection (id, at_ms) VALUES (?, ?)', id, now);
  }

  countDropped(deviceId: string, reason: string, count: number, now: number): void {
    this.#write(
      `INSERT INTO dropped_message (device_id, reason, count, last_at_ms) VALUES (?, ?, ?, ?)
       ON CONFLICT (device_id, reason) DO UPDATE SET count = count + excluded.count, last_at_ms = excluded.last_at_ms`,
      deviceId,
      reason,
      count,
      now,
    );
  }

  droppedMessages(deviceId: string): { reason: string; count: number; last_at_ms: number }[] {
    return this.#all('SELECT reason, count, last_at_ms FROM dropped_message WHERE device_id = ?', deviceId);
  }

  // journal

  openBlock(): Omit<JournalBlockRow, 'data'> | undefined {
    return this.#one(
      'SELECT id, opened_at_ms, last_at_ms, size, event_at_ms FROM journal_block ORDER BY id DESC LIMIT 1',
    );
  }

  /** Blocks written to since then, oldest first; walks back from the newest and stops, whatever the history. */
  blocksSince(sinceMs: number): JournalBlockRow[] {
    const blocks: JournalBlockRow[] = [];
    for (const block of this.#storage.sql.exec<JournalBlockRow>(
      'SELECT * FROM journal_block ORDER BY id DESC',
    )) {
      if (block.last_at_ms < sinceMs) break;
      blocks.push(block);
    }
    return blocks.reverse();
  }

  appendToBlock(id: number, lines: string, now: number, eventAtMs: number): void {
    this.#write(
      `UPDATE journal_block SET data = data || ?, size = size + ?, last_at_ms = ?, event_at_ms = ? WHERE id = ?`,
      boundedRow(lines),
      lines.length,
      now,
      eventAtMs,
      id,
    );
  }

  insertBlock(block: Omit<JournalBlockRow, 'size'>): void {
    this.#write(
      'INSERT INTO journal_block (id, opened_at_ms, last_at_ms, size, event_at_ms, data) VALUES (?, ?, ?, ?, ?, ?)',
      block.id,
      block.opened_at_ms,
      block.last_at_ms,
      block.data.length,
      block.event_at_ms,
      block.data,
    );
  }

  /** Drops the oldest blocks while they are older than that, a few at a time. */
  deleteBlocksBefore(lastAtMs: number): void {
    this.#write(
      'DELETE FROM journal_block WHERE id IN (SELECT id FROM journal_block ORDER BY id LIMIT 8) AND last_at_ms < ?',
      lastAtMs,
    );
  }

  // command log

  /** How many rows the log has: without gaps its ends tell, whatever its length. */
  commandTotal(): number {
    const ends = this.#one<{ oldest: number | null; newest: number | null }>(
      'SELECT (SELECT min(sequence) FROM command) AS oldest, (SELECT max(sequence) FROM command) AS newest',
    );
    return ends?.newest == null || ends.oldest === null ? 0 : ends.newest - ends.oldest + 1;
  }

  /** Adds a log row; returns its sequence. */
  insertCommand(command: NewCommand): number {
    const columns = Object.keys(command) as (keyof NewCommand)[];
    const marks = columns.map(() => '?').join(', ');
    const row = this.#storage.sql.exec<{ sequence: number }>(
      `INSERT INTO command (${columns.join(', ')}) VALUES (${marks}) RETURNING sequence`,
      ...columns.map((column) => command[column] ?? null),
    );
    const { sequence } = row.one();
    this.rowsWritten += row.rowsWritten;
    return sequence;
  }

  command(sequence: number): CommandRow | undefined {
    return this.#one<CommandRow>('SELECT * FROM command WHERE sequence = ?', sequence);
  }

  /** Newest first. Sequences have no gaps at the new end, so a page is found without walking to it. */
  commandPage(page: number, pageSize: number): CommandRow[] {
    const newest =
      this.#one<{ newest: number | null }>('SELECT max(sequence) AS newest FROM command')?.newest ?? 0;
    return this.#all<CommandRow>(
      'SELECT * FROM command WHERE sequence <= ? ORDER BY sequence DESC LIMIT ?',
      newest - (page - 1) * pageSize,
      pageSize,
    );
  }

  /** Newest first: those that have not ended, and so have a dispatch. */
  openCommands(limit: number): CommandRow[] {
    return this.#all<CommandRow>(
      `SELECT * FROM command WHERE sequence IN (SELECT command_sequence FROM dispatch) ORDER BY sequence DESC LIMIT ?`,
      limit,
    );
  }

  markDispatched(sequence: number, now: number): void {
    this.#write(
      'UPDATE command SET dispatched_at_ms = ? WHERE sequence = ? AND dispatched_at_ms IS NULL',
      now,
      sequence,
    );
  }

  markStarted(sequence: number, now: number): void {
    this.#write(
      `UPDATE command SET status = 'EXECUTING', started_at_ms = ? WHERE sequence = ?`,
      now,
      sequence,
    );
  }

  markEnded(
    sequence: number,
    status: 'COMPLETED' | 'DEVIATED' | 'FAILED',
    reason: string | null,
    now: number,
  ): void {
    this.#write(
      'UPDATE command SET status = ?, reason = ?, finished_at_ms = ? WHERE sequence = ?',
      status,
      reason,
      now,
      sequence,
    );
  }

  // one effect per messageId

  receivedMessage(keyId: string, messageId: string): ReceivedMessageRow | undefined {
    return this.#one<ReceivedMessageRow>(
      'SELECT command_sequence, acknowledgement FROM received_message WHERE key_id = ? AND message_id = ?',
      keyId,
      messageId,
    );
  }

  rememberMessage(keyId: string, messageId: string, row: ReceivedMessageRow, now: number): void {
    this.#write(
      `INSERT INTO received_message (key_id, message_id, command_sequence, acknowledgement, received_at_ms)
       VALUES (?, ?, ?, ?, ?)`,
      keyId,
      messageId,
      row.command_sequence,
      row.acknowledgement,
      now,
    );
  }

  forgetMessagesBefore(receivedAtMs: number): void {
    this.#write('DELETE FROM received_message WHERE received_at_ms < ?', receivedAtMs);
  }

  // dispatches

  insertDispatch(dispatch: DispatchRow): void {
    this.#noteDispatchDue(dispatch.due_at_ms);
    this.#write(
      `INSERT INTO dispatch (cmd_id, command_sequence, device_id, action, payload, state, tries, not_before_ms,
         expires_at_ms, due_at_ms, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      dispatch.cmd_id,
      dispatch.command_sequence,
      dispatch.device_id,
      dispatch.action,
      dispatch.payload,
      dispatch.state,
      dispatch.tries,
      dispatch.not_before_ms,
      dispatch.expires_at_ms,
      dispatch.due_at_ms,
      dispatch.reason,
    );
  }

  dispatch(cmdId: string): DispatchRow | undefined {
    return this.#one<DispatchRow>('SELECT * FROM dispatch WHERE cmd_id = ?', cmdId);
  }

  dispatchesOf(commandSequence: number): DispatchRow[] {
    return this.#all<DispatchRow>('SELECT * FROM dispatch WHERE command_sequence = ?', commandSequence);
  }

  /** What a device has not acknowledged yet, oldest first. */
  unacknowledged(deviceId: string): DispatchRow[] {
    return this.#all<DispatchRow>(
      `SELECT * FROM dispatch WHERE device_id = ? AND state IN ('WAITING', 'SENT') ORDER BY command_sequence`,
      deviceId,
    );
  }

  dueDispatches(now: number, limit: number): DispatchRow[] {
    return this.#all<DispatchRow>(
      'SELECT * FROM dispatch WHERE due_at_ms <= ? ORDER BY due_at_ms LIMIT ?',
      now,
      limit,
    );
  }

  setDispatch(cmdId: string, change: Pick<DispatchRow, 'state' | 'tries' | 'due_at_ms' | 'reason'>): void {
    this.#noteDispatchDue(change.due_at_ms);
    this.#write(
      'UPDATE dispatch SET state = ?, tries = ?, due_at_ms = ?, reason = ? WHERE cmd_id = ?',
      change.state,
      change.tries,
      change.due_at_ms,
      change.reason,
      cmdId,
    );
  }

  deleteDispatchesOf(commandSequence: number): void {
    this.#write('DELETE FROM dispatch WHERE command_sequence = ?', commandSequence);
  }

  /** No dispatch is due earlier; one may be later, or gone: whoever finds nothing due at that moment revises it. */
  get dispatchDueMs(): number | undefined {
    return this.#dispatchDueMs;
  }

  reviseDispatchDue(): void {
    const row = this.#one<{ due: number | null }>('SELECT min(due_at_ms) AS due FROM dispatch');
    this.#dispatchDueMs = row?.due ?? undefined;
  }

  #noteDispatchDue(dueMs: number | null): void {
    if (dueMs !== null) this.#dispatchDueMs = Math.min(this.#dispatchDueMs ?? dueMs, dueMs);
  }

  // outbox

  /** The rows with their sequences. */
  insertOutbox(rows: readonly NewOutboxRow[]): OutboxRow[] {
    if (rows.length === 0) return [];
    const numbered = rows.map((row) => ({ ...row, sequence: ++this.#outboxSequence }));
    if (this.#outboxSequence > this.#outboxSequenceEnd) {
      this.#outboxSequenceEnd = this.#outboxSequence + SEQUENCES_AHEAD;
      this.#write('UPDATE counters SET outbox_sequence = ?', this.#outboxSequenceEnd);
    }
    for (const row of numbered) {
      this.#write(
        'INSERT INTO outbox (sequence, lane, kind, message_id, correlation_id, at_ms, payload) VALUES (?, ?, ?, ?, ?, ?, ?)',
        row.sequence,
        row.lane,
        row.kind,
        row.message_id,
        row.correlation_id,
        row.at_ms,
        row.payload,
      );
    }
    return numbered;
  }

  outboxLanes(): string[] {
    return this.#all<{ lane: string }>('SELECT DISTINCT lane FROM outbox').map((row) => row.lane);
  }

  outboxOf(lane: string, afterSequence: number, limit: number): OutboxRow[] {
    return this.#all<OutboxRow>(
      'SELECT * FROM outbox WHERE lane = ? AND sequence > ? ORDER BY sequence LIMIT ?',
      lane,
      afterSequence,
      limit,
    );
  }

  deleteOutbox(lane: string, throughSequence: number): void {
    this.#write('DELETE FROM outbox WHERE lane = ? AND sequence <= ?', lane, throughSequence);
  }

  deleteLane(lane: string): void {
    this.#write('DELETE FROM outbox WHERE lane = ?', lane);
  }
}

/** A journal line: when it came, what it was, and all that its nonce and data say. */
export interface JournalEntry {
  receivedMs: number;
  deviceId: string;
  topic: Exclude<DevicePublishTopic, 'ack'>;
  ts: number;
  nonce: string;
  /** The first 16 hex characters of the signature: tells a re-send from a replay. */
  digest: string;
  /** Raw JSON: `data` of a telemetry message, the status of a status message. */
  dataText: string;
}
