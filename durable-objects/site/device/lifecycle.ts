/**
 * The life of a device where it is served (spec: Device lifecycle): its status takes effect here at once, and the
 * registry follows by its lane. What a device that is gone had under way goes to who serves in its place, or ends.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { Turn } from '../../object/turn.ts';
import type { AuditEntry, RegistryWrite } from '../../registry/entries.ts';
import type { RefusedLogin, SecretRotation } from '../../rpc.ts';
import { tellAgreed } from '../config/apply.ts';
import { fail } from '../dispatch/ends.ts';
import { handOver } from '../dispatch/execution.ts';
import { OWN } from '../dispatch/rows.ts';
import { auditRow, statusRow, toRegistryWrite } from '../event/registry-rows.ts';
import type { SiteParts } from '../parts.ts';
import { tellAgain } from '../plan/settle.ts';
import { removeDevice } from './remove.ts';
import type { DeviceRow } from './rows.ts';

/** Why a device serves nothing here any more. */
type Gone = 'DEVICE_GONE' | 'MOVED';

/** From which states each is entered (spec: Device lifecycle). */
const FROM: Record<DeviceRow['status'], DeviceRow['status']> = {
  SUSPENDED: 'ACTIVE',
  ACTIVE: 'SUSPENDED',
  DECOMMISSIONED: 'ACTIVE',
};

/** Returns what the registry is told; undefined where the device is not, or is in no state that leads there. */
export function setDeviceStatus(
  site: SiteParts,
  deviceId: string,
  status: DeviceRow['status'],
  reason: string | null,
  audit?: AuditEntry,
): RegistryWrite[] | undefined {
  const device = site.devices.find(deviceId);
  if (device?.status !== FROM[status]) return undefined;
  const told = site.turns.run((turn) => changeStatus(turn, site, device, { status, reason, audit }));
  if (status === 'DECOMMISSIONED') leaveToOthers(site, deviceId, 'DEVICE_GONE');
  return told;
}

interface StatusChange {
  status: DeviceRow['status'];
  reason: string | null;
  audit: AuditEntry | undefined;
}

function changeStatus(
  turn: Turn,
  site: SiteParts,
  device: DeviceRow,
  { status, reason, audit }: StatusChange,
): RegistryWrite[] {
  const { id } = device;
  const atMs = site.devices.setStatus(turn, device, status, reason);
  const isSuspended = status === 'SUSPENDED';
  const columns = {
    status,
    statusAtMs: atMs,
    suspendedAtMs: isSuspended ? atMs : null,
    suspendReason: isSuspended ? reason : null,
    updatedAtMs: turn.now,
  };
  const told = [statusRow('device', id, columns, turn.now)];
  if (audit) told.push(auditRow(`${audit.event}|${id}|${atMs}`, audit, turn.now));
  site.outbox.emit(turn, ...told);
  if (status !== 'ACTIVE') site.sessions.cut(turn, id, CLOSE_CODES.revoked, status, turn.now);
  else site.diagnostics.clearFailures(turn, id);
  site.presence.update(turn);
  return told.map(toRegistryWrite);
}

/** A new secret, beside which the one of before is good for a while [C-3.3]. */
export function rotateSecret(
  site: SiteParts,
  deviceId: string,
  hmacSecret: string,
  audit: AuditEntry | undefined,
): SecretRotation | undefined {
  if (site.devices.find(deviceId)?.status !== 'ACTIVE') return undefined;
  return site.turns.run((turn) => {
    const { version, graceUntilMs } = site.secrets.rotate(turn, deviceId, hmacSecret);
    const columns = { hmacGraceUntilMs: graceUntilMs, updatedAtMs: turn.now };
    const told = [statusRow('device', deviceId, columns, turn.now)];
    if (audit) told.push(auditRow(`${audit.event}|${deviceId}|${version}`, audit, turn.now));
    site.outbox.emit(turn, ...told);
    return { rotatedAtMs: turn.now, graceUntilMs, told: told.map(toRegistryWrite) };
  });
}

/** One that repeats the last within this time and does not count is not written. */
const REPEAT_MS = 60_000;

/** A login that was refused: kept for who looks, and counted where it counts [C-3.11]. */
export function noteRefusedLogin(site: SiteParts, deviceId: string, refused: RefusedLogin): void {
  const device = site.devices.find(deviceId);
  if (!device) return;
  const { address, reason } = refused;
  const counts = refused.counts && device.status === 'ACTIVE';
  const [last] = site.diagnostics.connects(deviceId);
  const isRepeat = last?.address === address && last.reason === reason && last.outcome === 'REFUSED';
  if (!counts && isRepeat && site.clock.now() - last.at_ms < REPEAT_MS) return;
  site.turns.run((turn) => {
    site.diagnostics.addConnect(turn, deviceId, { address, outcome: 'REFUSED', reason });
    if (counts) countFailure(turn, site, device, refused);
  });
}

/** Ten within five minutes (spec: Device lifecycle). */
function countFailure(
  turn: Turn,
  site: SiteParts,
  device: DeviceRow,
  { address, organizationId }: RefusedLogin,
): void {
  const sinceMs = turn.now - LIMIT.authFailuresMs;
  const addresses = site.diagnostics.addFailure(turn, device.id, address, sinceMs);
  if (addresses.length < LIMIT.authFailures) return;
  const minutes = LIMIT.authFailuresMs / 60_000;
  const from = [...new Set(addresses)].join(', ');
  const reason = `${addresses.length} failed logins within ${minutes} minutes, from ${from}`;
  const audit: AuditEntry = {
    organizationId,
    event: 'device.suspended',
    actor: { type: 'SYSTEM', id: 'authentication', name: 'authentication' },
    target: { type: 'DEVICE', id: device.id },
    address,
    outcome: 'SUCCESS',
    details: { reason },
  };
  changeStatus(turn, site, device, { status: 'SUSPENDED', reason, audit });
}

/** What it had under way: its own commands end, a plant's go to the then serving device, or end. */
export function leaveToOthers(site: SiteParts, deviceId: string, why: Gone): void {
  site.turns.run((turn) => {
    // Before anything of it goes to another.
    const owed = site.devices.all().filter(({ id }) => site.configuration.isOwedTo(id));
    for (const row of site.dispatches.ofDevice(deviceId)) {
      turn.step(() => {
        if (row.command_sequence === OWN) fail(turn, site, row, why);
        else handOver(turn, site, row.cmd_id);
      });
    }
    // Who serves in its place is told what was agreed, and what the plan says.
    const { gatewayId } = site.facts(turn);
    if (gatewayId && site.sessions.isLive(gatewayId, turn.now)) {
      if (owed.some(({ id }) => id === gatewayId)) tellAgreed(turn, site, gatewayId);
      tellAgain(turn, site, gatewayId);
    }
    site.presence.update(turn);
  });
}

/** Nothing of a device is left here: its credentials, its history, what it had under way. */
export function forgetDevice(site: SiteParts, deviceId: string): void {
  const device = site.devices.find(deviceId);
  if (!device) return;
  site.turns.run((turn) => {
    changeStatus(turn, site, device, { status: 'DECOMMISSIONED', reason: null, audit: undefined });
  });
  leaveToOthers(site, deviceId, 'DEVICE_GONE');
  site.turns.run((turn) => {
    removeDevice(turn, site, deviceId);
    site.presence.update(turn);
  });
}
