/**
 * Commands that users and API keys send to one device over REST [C-3.4]. They are dispatched, repeated and
 * ended like those that partners publish, but are not in the command log: each device has a list of its own. An
 * open command is a dispatch; its row has the rest. `RestCommands` also owns these dispatches: the acks of the
 * command's one device end the command.
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { RestCommand } from '../../../protocol/device-record.ts';
import type { DeviceAckStatus, DeviceCommandStatus } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { AuditEntry } from '../../../registry/entries.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { RestCommandAnswer, RestCommandSubmission } from '../../rpc.ts';
import { sha256Hex } from '../../secrets/hmac.ts';
import type { Devices } from '../device/devices.ts';
import { DEVICE_FAILED } from '../dispatch/dispatch.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { Departure, Owner } from '../dispatch/owner.ts';
import type { DispatchRow, DispatchState } from '../dispatch/rows.ts';
import { auditRow } from '../event/event-rows.ts';
import type { Outbox } from '../event/outbox.ts';

type RestCommandRow = {
  cmd_id: string;
  device_id: string;
  action: string;
  /** Null while the command is open: its dispatch has the state. */
  status: Extract<DeviceAckStatus, 'COMPLETED' | 'FAILED'> | null;
  reason: string | null;
  idempotency_key: string | null;
  digest: string;
  created_at_ms: number;
};

/** A row with the state of its dispatch; `state` is null if the dispatch has ended. */
type RestCommandWithState = RestCommandRow & { state: DispatchState | null };

const FROM = { owner: 'REST_COMMAND' as const, commandSequence: null };

export interface RestCommandsHost {
  sql: Sql;
  devices: Devices;
  dispatches: Dispatches;
  outbox: Outbox;
}

export class RestCommands implements Owner {
  readonly survivesEmergency = true;
  readonly mayReachAnother = false;
  readonly isNeverDropped = true;
  readonly #host: RestCommandsHost;

  constructor(host: RestCommandsHost) {
    this.#host = host;
  }

  /**
   * Creates a command. If the idempotency key was already used with the same content, returns that first
   * command.
   */
  submit(
    turn: Turn,
    deviceId: string,
    { action, payload, validUntilMs, idempotencyKey, isFit = true }: RestCommandSubmission,
    audit: AuditEntry | undefined,
  ): RestCommandAnswer {
    const { devices, dispatches, outbox } = this.#host;
    const payloadText = signableJson(payload);
    const digest = sha256Hex(JSON.stringify([action, payloadText, validUntilMs]));
    const [known] =
      idempotencyKey === null ? [] : this.#of(deviceId, 'idempotency_key = ?', '', idempotencyKey);
    if (known) return known.digest === digest ? { command: toRestCommand(known) } : { refused: 'reused' };
    if (!isFit) return { refused: 'unfit' };
    if (devices.find(deviceId)?.status !== 'ACTIVE') return { refused: 'inactive' };
    if (validUntilMs !== null && validUntilMs <= turn.now) return { refused: 'expired' };
    if (this.#count(deviceId, 'AND status IS NULL') >= LIMIT.openRestCommands) return { refused: 'full' };
    const window = { notBeforeMs: 0, expiresAtMs: validUntilMs ?? turn.now + LIMIT.deviceCommandWaitMs };
    const sent = dispatches.create(turn, FROM, { deviceId, action, payloadText, items: [] }, window);
    const row: RestCommandRow = {
      cmd_id: sent.cmd_id,
      device_id: deviceId,
      action,
      status: null,
      reason: null,
      idempotency_key: idempotencyKey,
      digest,
      created_at_ms: turn.now,
    };
    turn.insert('rest_command', row);
    if (audit) outbox.emit(turn, auditRow(`${audit.event}|${row.cmd_id}`, audit, turn.now));
    this.#trim(turn, deviceId);
    return { command: toRestCommand({ ...row, state: sent.state }) };
  }

  /** Newest first; `page` from 1. */
  page(deviceId: string, page: number, limit: number): { commands: RestCommand[]; total: number } {
    const rows = this.#of(deviceId, 'TRUE', 'LIMIT ? OFFSET ?', limit, (page - 1) * limit);
    return { commands: rows.map(toRestCommand), total: this.#count(deviceId, '') };
  }

  find(deviceId: string, cmdId: string): RestCommand | undefined {
    const [row] = this.#of(deviceId, 'rest_command.cmd_id = ?', '', cmdId);
    return row && toRestCommand(row);
  }

  // the owner of its dispatches

  acked(turn: Turn, row: DispatchRow, state: DispatchState): void {
    if (state === 'FAILED') this.failed(turn, row, null);
    else if (state === 'COMPLETED') this.#end(turn, row, state, null);
    else this.#host.dispatches.holdForResult(turn, row, state);
  }

  failed(turn: Turn, row: DispatchRow, reason: string | null): void {
    this.#end(turn, row, 'FAILED', reason ?? DEVICE_FAILED);
  }

  deviceGone(turn: Turn, row: DispatchRow, why: Departure): void {
    this.failed(turn, row, why);
  }

  #end(
    turn: Turn,
    { cmd_id: cmdId }: DispatchRow,
    status: 'COMPLETED' | 'FAILED',
    reason: string | null,
  ): void {
    turn.write('UPDATE rest_command SET status = ?, reason = ? WHERE cmd_id = ?', status, reason, cmdId);
    this.#host.dispatches.rows.delete(turn, cmdId);
  }

  /** Commands of a device, newest first. */
  #of(
    deviceId: string,
    where: string,
    limit: '' | 'LIMIT ? OFFSET ?',
    ...bindings: (string | number)[]
  ): RestCommandWithState[] {
    return this.#host.sql.all<RestCommandWithState>(
      `SELECT rest_command.*, dispatch.state FROM rest_command LEFT JOIN dispatch USING (cmd_id)
       WHERE rest_command.device_id = ? AND ${where} ORDER BY sequence DESC ${limit}`,
      deviceId,
      ...bindings,
    );
  }

  #count(deviceId: string, and: '' | 'AND status IS NULL'): number {
    const row = this.#host.sql.one<{ count: number }>(
      `SELECT count(*) AS count FROM rest_command WHERE device_id = ? ${and}`,
      deviceId,
    );
    return row?.count ?? 0;
  }

  /** Deletes the oldest ended commands of a device that exceed the limit. */
  #trim(turn: Turn, deviceId: string): void {
    turn.write(
      `DELETE FROM rest_command WHERE status IS NOT NULL AND sequence IN
         (SELECT sequence FROM rest_command WHERE device_id = ? ORDER BY sequence DESC LIMIT -1 OFFSET ?)`,
      deviceId,
      LIMIT.restCommandsKept,
    );
  }
}

function toRestCommand(row: RestCommandWithState): RestCommand {
  return {
    cmdId: row.cmd_id,
    deviceId: row.device_id,
    action: row.action,
    status: row.status ?? statusOf(row.state),
    ...(row.reason === null ? {} : { reason: row.reason }),
    createdAt: formatInstant(row.created_at_ms),
  };
}

function statusOf(state: DispatchState | null): DeviceCommandStatus {
  return state === null || state === 'WAITING' ? 'PENDING' : state;
}
