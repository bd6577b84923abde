/**
 * Commands to a device over REST [C-3.4]: a list of their own, which no partner sees; dispatched, repeated and ended as
 * a partner's are, at least once by their `cmdId`.
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { OwnCommand } from '../../../protocol/device-record.ts';
import type { DeviceCommandStatus } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Turn } from '../../object/turn.ts';
import type { AuditEntry } from '../../registry/entries.ts';
import type { OwnCommandAnswer, OwnCommandSubmission } from '../../rpc.ts';
import { sha256Hex } from '../../secrets/hmac.ts';
import { type DispatchState, OWN } from '../dispatch/rows.ts';
import { dispatch } from '../dispatch/send-command.ts';
import { auditRow } from '../event/registry-rows.ts';
import type { SiteParts } from '../parts.ts';
import type { KnownOwnCommand } from './rows.ts';

export function submitOwnCommand(
  turn: Turn,
  site: SiteParts,
  deviceId: string,
  { action, payload, validUntilMs, idempotencyKey }: OwnCommandSubmission,
  audit: AuditEntry | undefined,
): OwnCommandAnswer {
  const payloadText = signableJson(payload);
  const digest = sha256Hex(JSON.stringify([action, payloadText, validUntilMs]));
  const known = idempotencyKey === null ? undefined : site.ownCommands.findByKey(deviceId, idempotencyKey);
  if (known) return known.digest === digest ? { command: toOwnCommand(known) } : { refused: 'reused' };
  if (site.devices.find(deviceId)?.status !== 'ACTIVE') return { refused: 'inactive' };
  if (validUntilMs !== null && validUntilMs <= turn.now) return { refused: 'expired' };
  if (site.ownCommands.countOpen(deviceId) >= LIMIT.openOwnCommands) return { refused: 'full' };
  const window = { notBeforeMs: 0, expiresAtMs: validUntilMs ?? turn.now + LIMIT.deviceCommandWaitMs };
  const sent = dispatch(turn, site, OWN, { deviceId, action, payloadText, items: [] }, window);
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
  site.ownCommands.insert(turn, row);
  if (audit) site.outbox.emit(turn, auditRow(`${audit.event}|${row.cmd_id}`, audit, turn.now));
  site.ownCommands.trim(turn, deviceId, LIMIT.ownCommandsKept);
  return { command: toOwnCommand({ ...row, state: sent.state }) };
}

export function pageOwnCommands(
  site: SiteParts,
  deviceId: string,
  page: number,
  limit: number,
): { commands: OwnCommand[]; total: number } {
  const { rows, total } = site.ownCommands.page(deviceId, (page - 1) * limit, limit);
  return { commands: rows.map(toOwnCommand), total };
}

export function findOwnCommand(site: SiteParts, deviceId: string, cmdId: string): OwnCommand | undefined {
  const row = site.ownCommands.find(deviceId, cmdId);
  return row && toOwnCommand(row);
}

function toOwnCommand(row: KnownOwnCommand): OwnCommand {
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
