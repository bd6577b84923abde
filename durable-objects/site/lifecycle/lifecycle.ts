/**
 * The lifecycle of a site's devices (spec: Device lifecycle): their status and secrets, their moves, the end
 * of the plant, and the effects of a device that subscribes or leaves on dispatches, plan and configuration.
 * A new status takes effect here at once and reaches the registry through the outbox.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { AuditEntry, RegistryWrite } from '../../../registry/entries.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import type { Clock } from '../../object/clock.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { DevicePack, NoncePlace, RefusedLogin, SecretRotation } from '../../rpc.ts';
import { organizationOf, type SiteStanding } from '../../standing-rpc.ts';
import type { Alerts } from '../alert/alerts.ts';
import type { Commands } from '../command/commands.ts';
import type { Configuration } from '../config/configuration.ts';
import type { Devices } from '../device/devices.ts';
import type { Diagnostics } from '../device/diagnostics.ts';
import { type DeviceRow, type DeviceTables, tokensNotBeforeMs } from '../device/rows.ts';
import type { DeviceSecrets } from '../device/secrets.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import { hasEnded } from '../dispatch/dispatch.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { Departure } from '../dispatch/owner.ts';
import { auditRow, statusRow, toRegistryWrite } from '../event/event-rows.ts';
import type { Outbox } from '../event/outbox.ts';
import type { Plan } from '../plan/plan.ts';
import type { Presence } from '../presence/presence.ts';
import type { Schedules } from '../schedule/schedules.ts';
import type { ViewOf } from '../site-view.ts';
import type { Journal } from '../telemetry/journal.ts';
import { type MovedNonces, partOf } from '../telemetry/replay.ts';

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

export interface LifecycleHost {
  clock: Pick<Clock, 'now'>;
  turns: Turns;
  registry: PlantCopy;
  devices: Devices;
  secrets: DeviceSecrets;
  sessions: DeviceSessions;
  tables: DeviceTables;
  diagnostics: Diagnostics;
  journal: Journal;
  movedNonces: MovedNonces;
  presence: Presence;
  outbox: Outbox;
  alerts: Alerts;
  commands: Commands;
  dispatches: Dispatches;
  plan: Plan;
  schedules: Schedules;
  configuration: Configuration;
  view: ViewOf;
}

export class Lifecycle {
  readonly #host: LifecycleHost;

  constructor(host: LifecycleHost) {
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
    if (status === 'DECOMMISSIONED') this.#leave(deviceId, 'DEVICE_GONE');
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

  /** Ends the tokens that were issued before now, with a session that was opened with one [C-14.5]. */
  endTokens(deviceId: string): number | undefined {
    const { devices, sessions, presence, turns } = this.#host;
    const device = devices.find(deviceId);
    if (device?.status !== 'ACTIVE') return undefined;
    return turns.run((turn) => {
      const notBeforeMs = devices.endTokens(turn, device);
      if (isOlder(device, notBeforeMs)) {
        sessions.cut(turn, deviceId, CLOSE_CODES.revoked, 'older tokens have ended', turn.now);
        presence.update(turn);
      }
      return notBeforeMs;
    });
  }

  /**
   * Stores a new secret; the previous one stays valid for the grace period, and tokens that were issued before
   * now until the secret that the device used last expires [C-3.3].
   */
  rotateSecret(
    deviceId: string,
    hmacSecret: string,
    audit: AuditEntry | undefined,
    endOthers = false,
  ): SecretRotation | undefined {
    const { devices, secrets, sessions, outbox, presence, turns } = this.#host;
    const device = devices.find(deviceId);
    if (device?.status !== 'ACTIVE') return undefined;
    return turns.run((turn) => {
      const { version, graceUntilMs, lastUsedUntilMs } = secrets.rotate(turn, device, hmacSecret, endOthers);
      if (endOthers) devices.endTokens(turn, device);
      else devices.endTokensLater(turn, device, lastUsedUntilMs);
      if (endOthers) {
        sessions.cut(turn, deviceId, CLOSE_CODES.revoked, 'older secrets have ended', turn.now);
        presence.update(turn);
      } else if (isOlder(device, tokensNotBeforeMs(devices.find(deviceId) ?? device, turn.now))) {
        sessions.cut(turn, deviceId, CLOSE_CODES.revoked, 'older tokens have ended', turn.now);
        presence.update(turn);
      } else if (isOlder(device, turn.now)) devices.endSessionBy(turn, deviceId, lastUsedUntilMs);
      const hmacGraceUntilMs = endOthers ? null : graceUntilMs;
      const columns = { hmacGraceUntilMs, updatedAtMs: turn.now };
      const rows = [statusRow('device', deviceId, columns, turn.now)];
      if (audit) rows.push(auditRow(`${audit.event}|${deviceId}|${version}`, audit, turn.now));
      outbox.emit(turn, ...rows);
      return { rotatedAtMs: turn.now, graceUntilMs: hmacGraceUntilMs, writes: rows.map(toRegistryWrite) };
    });
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
    this.#leave(deviceId, 'DEVICE_GONE');
    turns.run((turn) => {
      this.#remove(turn, deviceId);
      presence.update(turn);
    });
  }

  // the steps of a move: each may be repeated; from the release until all data is taken no object accepts the device,
  // and the device connects again later

  /**
   * Ends the session of a device that moves to the object `to`, and returns the device's data; undefined if
   * the device is not here.
   */
  release(deviceId: string, to: string, from?: NoncePlace): DevicePack | undefined {
    const { devices, sessions, presence, turns, journal, tables, clock } = this.#host;
    if (devices.find(deviceId)) {
      turns.run((turn) => {
        sessions.cut(turn, deviceId, CLOSE_CODES.takenOver, 'moved', turn.now);
        devices.setLeaving(turn, deviceId, to);
        presence.update(turn);
      });
    }
    if (!devices.isLeaving(deviceId)) return undefined;
    this.#leave(deviceId, 'MOVED');
    const part = partOf(journal.noncesOf(deviceId, clock.now()), from);
    return { tables: from ? null : tables.read(deviceId), ...part };
  }

  /**
   * Stores the data of a device that moves here from another object. Does nothing if the device is already
   * here.
   */
  take(deviceId: string, pack: DevicePack): void {
    const { devices, turns, tables, movedNonces, journal, secrets, presence } = this.#host;
    if (devices.find(deviceId)) return;
    turns.attempt((turn) => {
      movedNonces.addMoved(turn, pack.nonces);
      if (!pack.tables) return;
      // The device moved away and returns before its old data was deleted here.
      if (devices.isLeaving(deviceId)) tables.remove(turn, deviceId);
      tables.write(turn, pack.tables);
      turn.remember(() => journal.forgetReplay());
      devices.changed(turn);
      secrets.changed(turn);
      presence.update(turn);
    });
  }

  /**
   * Deletes the rows of a device that has moved to another object. Does nothing for a device that belongs to
   * this object.
   */
  drop(deviceId: string): void {
    const { devices, turns } = this.#host;
    if (devices.isLeaving(deviceId)) turns.run((turn) => this.#remove(turn, deviceId));
  }

  #remove(turn: Turn, deviceId: string): void {
    const { tables, devices, secrets } = this.#host;
    tables.remove(turn, deviceId);
    devices.changed(turn);
    secrets.changed(turn);
  }

  #leave(deviceId: string, why: Departure): void {
    const { turns, presence } = this.#host;
    turns.run((turn) => {
      this.#left(turn, deviceId, why);
      presence.update(turn);
    });
  }

  // the effects of a device that subscribes or leaves

  /**
   * Commands reach the device again, because it has subscribed or is no longer silent: sends what is open for
   * it. In a new session a serving gateway also gets the configuration that it lacks and the current target of
   * the plan.
   */
  subscribed(turn: Turn, deviceId: string): void {
    const { sessions, dispatches, plan, configuration, view } = this.#host;
    plan.catchUp(turn);
    const isNewSession = sessions.handOver(deviceId);
    const isOwed = configuration.state.isOwedTo(deviceId);
    dispatches.resume(turn, deviceId, isNewSession);
    if (!isNewSession || view(turn).gatewayId !== deviceId) return;
    if (isOwed) configuration.sendTo(turn, deviceId);
    plan.resend(turn, deviceId);
  }

  /** A device has left: what is open for it goes to the device that serves instead, or ends. */
  #left(turn: Turn, deviceId: string, why: Departure): void {
    const { devices, sessions, dispatches, plan, configuration, view } = this.#host;
    // This must be read before any dispatch is sent to another gateway, because sending notes that gateway as
    // configured.
    const owed = devices.all().filter(({ id }) => configuration.state.isOwedTo(id));
    dispatches.deviceGone(turn, deviceId, why);
    const { gatewayId } = view(turn);
    if (!gatewayId || !sessions.isLive(gatewayId, turn.now)) return;
    if (owed.some(({ id }) => id === gatewayId)) configuration.sendTo(turn, gatewayId);
    plan.resend(turn, gatewayId);
  }

  /** Applies a change of the plant in the registry. `isGone`: the registry no longer has the plant. */
  plantChanged(turn: Turn, isGone: boolean): void {
    const { registry, devices, dispatches, alerts, presence } = this.#host;
    const deviceTypes = registry.record?.deviceTypes ?? {};
    for (const id of devices.allLeaving()) if (!(id in deviceTypes)) this.#remove(turn, id);
    for (const device of devices.all()) devices.setType(turn, device, deviceTypes[device.id] ?? device.type);
    if (isGone) this.#endAll(turn);
    else dispatches.recheckWaiting(turn);
    if (registry.record?.isSuspended) this.#cutAll(turn, 'organization suspended');
    alerts.rulesChanged(turn);
    turn.send(() => presence.noteChange());
  }

  #endAll(turn: Turn): void {
    const { dispatches, commands, plan, schedules } = this.#host;
    for (const { cmd_id: cmdId } of dispatches.rows.all()) {
      // An earlier dispatch of the loop may have ended its command.
      const row = dispatches.rows.find(cmdId);
      if (row && !hasEnded(row.state)) dispatches.fail(turn, row, 'PLANT_GONE');
    }
    for (const { sequence } of [...plan.state.entries.all(), ...schedules.rows.open()])
      commands.fail(turn, sequence, 'PLANT_GONE');
    this.#cutAll(turn, 'the plant is gone');
  }

  #cutAll(turn: Turn, reason: string): void {
    const { devices, sessions } = this.#host;
    for (const { id } of devices.all()) sessions.cut(turn, id, CLOSE_CODES.revoked, reason, turn.now);
  }
}

/** Whether the device has a session that was opened with a token that was issued before `notBeforeMs`. */
function isOlder(
  { connection_id, session_issued_at_ms: issuedAtMs }: DeviceRow,
  notBeforeMs: number,
): boolean {
  return connection_id !== null && issuedAtMs !== null && issuedAtMs < notBeforeMs;
}
