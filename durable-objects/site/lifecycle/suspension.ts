/**
 * The status of a site's devices: suspended by people or by failed logins, active again, or gone (spec: Device lifecycle).
 * A new status takes effect here at once and reaches the registry through the outbox.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { AuditEntry, RegistryWrite } from '../../../registry/entries.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import type { Clock } from '../../object/clock.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { RefusedLogin } from '../../rpc.ts';
import { organizationOf, type SiteStanding } from '../../standing-rpc.ts';
import type { Devices } from '../device/devices.ts';
import type { Diagnostics } from '../device/diagnostics.ts';
import type { DeviceRow } from '../device/rows.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import { auditRow, statusRow, toRegistryWrite } from '../event/event-rows.ts';
import type { Outbox } from '../event/outbox.ts';
import type { Presence } from '../presence/presence.ts';
import type { Lifecycle } from './lifecycle.ts';

/** For each status, the one status from which `setStatus` enters it (spec: Device lifecycle). */
const FROM: Record<DeviceRow['status'], DeviceRow['status']> = {
  SUSPENDED: 'ACTIVE',
  ACTIVE: 'SUSPENDED',
  DECOMMISSIONED: 'ACTIVE',
};

/**
 * A rejected login that repeats the previous one within this time, and does not count toward suspension, is
 * not stored.
 */
const REPEAT_MS = 60_000;

interface StatusChange {
  status: DeviceRow['status'];
  reason: string | null;
  audit: AuditEntry | undefined;
}

export interface SuspensionHost {
  clock: Pick<Clock, 'now'>;
  turns: Turns;
  registry: PlantCopy;
  devices: Devices;
  sessions: DeviceSessions;
  diagnostics: Diagnostics;
  presence: Presence;
  outbox: Outbox;
  lifecycle: Pick<Lifecycle, 'leave' | 'remove'>;
}

export class Suspension {
  readonly #host: SuspensionHost;

  constructor(host: SuspensionHost) {
    this.#host = host;
  }

  /** What a D1 that was set back may have lost. */
  standing(): SiteStanding {
    const { devices, registry } = this.#host;
    return {
      devices: devices.all().map(({ id, status, status_at_ms, suspend_reason }) => ({
        ...{ id, status, statusAtMs: status_at_ms, suspendReason: suspend_reason },
      })),
      organization: organizationOf(registry.record),
    };
  }

  /** Returns the registry updates; undefined where the device is not here or its status does not allow the change. */
  setStatus(
    deviceId: string,
    status: DeviceRow['status'],
    reason: string | null = null,
    audit?: AuditEntry,
  ): RegistryWrite[] | undefined {
    const { devices, turns } = this.#host;
    const device = devices.find(deviceId);
    if (device?.status !== FROM[status]) return undefined;
    const writes = turns.run((turn) => {
      // A suspension after failed logins does not end the tokens, because anybody can cause failed logins and
      // they do not mean that a token leaked.
      if (status === 'SUSPENDED') devices.endTokens(turn, device);
      return this.#changeStatus(turn, device, { status, reason, audit });
    });
    if (status === 'DECOMMISSIONED') this.#host.lifecycle.leave(deviceId, 'DEVICE_GONE');
    return writes;
  }

  #changeStatus(turn: Turn, device: DeviceRow, { status, reason, audit }: StatusChange): RegistryWrite[] {
    const { devices, outbox, sessions, diagnostics, presence } = this.#host;
    const { id } = device;
    const atMs = devices.setStatus(turn, device, status, reason);
    const isSuspended = status === 'SUSPENDED';
    const columns = {
      status,
      statusAtMs: atMs,
      suspendedAtMs: isSuspended ? atMs : null,
      suspendReason: isSuspended ? reason : null,
      updatedAtMs: turn.now,
    };
    const rows = [statusRow('device', id, columns, turn.now)];
    if (audit) rows.push(auditRow(`${audit.event}|${id}|${atMs}`, audit, turn.now));
    outbox.emit(turn, ...rows);
    if (status !== 'ACTIVE') sessions.cut(turn, id, CLOSE_CODES.revoked, status, turn.now);
    else diagnostics.clearFailures(turn, id);

    presence.update(turn);
    return rows.map(toRegistryWrite);
  }

  /**
   * Records a rejected login for the diagnostics and, if `counts` is true, counts it toward the suspension of
   * the device [C-3.11].
   */
  noteRefusedLogin(deviceId: string, refused: RefusedLogin): void {
    const { devices, diagnostics, turns, clock } = this.#host;
    const device = devices.find(deviceId);
    if (!device) return;
    const { address, reason } = refused;
    const counts = refused.counts && device.status === 'ACTIVE';
    const [last] = diagnostics.connects(deviceId);
    const isRepeat = last?.address === address && last.reason === reason && last.outcome === 'REFUSED';
    if (!counts && isRepeat && clock.now() - last.at_ms < REPEAT_MS) return;
    turns.run((turn) => {
      diagnostics.addConnect(turn, deviceId, { address, outcome: 'REFUSED', reason });
      if (counts) this.#countFailure(turn, device, refused);
    });
  }

  /** Ten failed logins within five minutes suspend a device (spec: Device lifecycle). */
  #countFailure(turn: Turn, device: DeviceRow, { address, organizationId }: RefusedLogin): void {
    const sinceMs = turn.now - LIMIT.authFailuresMs;
    const addresses = this.#host.diagnostics.addFailure(turn, device.id, address, sinceMs);
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
    this.#changeStatus(turn, device, { status: 'SUSPENDED', reason, audit });
  }

  /**
   * Deletes a device with its diagnostics and REST commands, but not its telemetry; ends or moves its open
   * dispatches.
   */
  forget(deviceId: string): void {
    const { devices, presence, turns } = this.#host;
    const device = devices.find(deviceId);
    if (!device) return;
    turns.run((turn) => {
      this.#changeStatus(turn, device, { status: 'DECOMMISSIONED', reason: null, audit: undefined });
    });
    this.#host.lifecycle.leave(deviceId, 'DEVICE_GONE');
    turns.run((turn) => {
      this.#host.lifecycle.remove(turn, deviceId);
      presence.update(turn);
    });
  }
}
