/**
 * Commands that admins send to one device over REST [C-3.4]. They are dispatched, repeated and ended like a partner's,
 * but have a list of their own, which no partner sees.
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { RestCommand } from '../../../protocol/device-record.ts';
import type { DeviceCommandStatus } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Turn } from '../../object/turn.ts';
import type { AuditEntry } from '../../registry/entries.ts';
import type { RestCommandAnswer, RestCommandSubmission } from '../../rpc.ts';
import { sha256Hex } from '../../secrets/hmac.ts';
import type { Devices } from '../device/devices.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { DispatchState } from '../dispatch/rows.ts';
import type { Outbox } from '../event/outbox.ts';
import { auditRow } from '../event/registry-rows.ts';
import type { RestCommandRows, RestCommandWithState } from './rows.ts';

const FROM = { owner: 'REST_COMMAND' as const, commandSequence: null };

export interface RestCommandsHost {
  rows: RestCommandRows;
  devices: Devices;
  dispatches: Dispatches;
  outbox: Outbox;
}

export class RestCommands {
  readonly #host: RestCommandsHost;

  constructor(host: RestCommandsHost) {
    this.#host = host;
  }

  /** The same idempotency key with the same content answers with the first command. */
  submit(
    turn: Turn,
    deviceId: string,
    { action, payload, validUntilMs, idempotencyKey }: RestCommandSubmission,
    audit: AuditEntry | undefined,
  ): RestCommandAnswer {
    const { rows, devices, dispatches, outbox } = this.#host;
    const payloadText = signableJson(payload);
    const digest = sha256Hex(JSON.stringify([action, payloadText, validUntilMs]));
    const known = idempotencyKey === null ? undefined : rows.findByKey(deviceId, idempotencyKey);
    if (known) return known.digest === digest ? { command: toRestCommand(known) } : { refused: 'reused' };
    if (devices.find(deviceId)?.status !== 'ACTIVE') return { refused: 'inactive' };
    if (validUntilMs !== null && validUntilMs <= turn.now) return { refused: 'expired' };
    if (rows.countOpen(deviceId) >= LIMIT.openRestCommands) return { refused: 'full' };
    const window = { notBeforeMs: 0, expiresAtMs: validUntilMs ?? turn.now + LIMIT.deviceCommandWaitMs };
    const sent = dispatches.create(turn, FROM, { deviceId, action, payloadText, items: [] }, window);
    const row = {
      cmd_id: sent.cmd_id,
      device_id: deviceId,
      action,
      status: null,
      reason: null,
      idempotency_key: idempotencyKey,
      digest,
      created_at_ms: turn.now,
    };
    rows.insert(turn, row);
    if (audit) outbox.emit(turn, auditRow(`${audit.event}|${row.cmd_id}`, audit, turn.now));
    rows.trim(turn, deviceId, LIMIT.restCommandsKept);
    return { command: toRestCommand({ ...row, state: sent.state }) };
  }

  /** Newest first; `page` from 1. */
  page(deviceId: string, page: number, limit: number): { commands: RestCommand[]; total: number } {
    const { rows, total } = this.#host.rows.page(deviceId, (page - 1) * limit, limit);
    return { commands: rows.map(toRestCommand), total };
  }

  find(deviceId: string, cmdId: string): RestCommand | undefined {
    const row = this.#host.rows.find(deviceId, cmdId);
    return row && toRestCommand(row);
  }

  end(turn: Turn, cmdId: string, status: 'COMPLETED' | 'FAILED', reason: string | null): void {
    this.#host.rows.end(turn, cmdId, status, reason);
    this.#host.dispatches.rows.delete(turn, cmdId);
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
