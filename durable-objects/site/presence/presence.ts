/** Presence as it is kept: worked out anew when something changed or time alone does it, written only when it differs. */
import { REGISTERS } from '../../../protocol/asset.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { Facts } from '../../object/facts.ts';
import type { Turn } from '../../object/turn.ts';
import type { PlantCopy, SubDevice } from '../../registry/plant-copy.ts';
import type { SiteConfiguration } from '../config/configuration.ts';
import type { Devices } from '../device/devices.ts';
import type { DeviceRow } from '../device/rows.ts';
import { isInFault } from '../device/serving.ts';
import type { State } from '../event/events.ts';
import type { Outbox } from '../event/outbox.ts';
import { statusRow } from '../event/registry-rows.ts';
import type { StandingAlarms } from '../event/standing-alarms.ts';
import type { Journal } from '../telemetry/journal.ts';
import { roleOf } from '../telemetry/meter.ts';
import {
  isFallbackEngaged,
  NO_PRESENCE,
  type PresenceInput,
  type PresenceStatus,
  presenceAt,
} from './presence-rule.ts';

/** How often a busy plant's presence is looked at, and when once more behind a change. */
const CHECK_MS = 1_000;
const AGAIN_MS = 5_000;
/** How old `lastSeenAt` may be of a device that is there: each time is a row here and one in D1. */
const SEEN_MS = 15 * 60_000;

export interface PresenceParts {
  facts: Facts<'presence'>;
  devices: Devices;
  registry: PlantCopy;
  journal: Journal;
  outbox: Outbox;
  alarms: StandingAlarms;
  configuration: SiteConfiguration;
  /** Since when nothing came from a connected device; undefined while it shows life. */
  quietSinceMs(deviceId: string): number | undefined;
}

export class Presence implements DueSource {
  readonly name = 'presence';
  readonly #parts: PresenceParts;
  #status: PresenceStatus;
  #checkedAtMs = 0;
  #nextChangeMs: number | undefined;

  constructor(parts: PresenceParts) {
    this.#parts = parts;
    this.#status = parts.facts.get<PresenceStatus>('presence') ?? NO_PRESENCE;
  }

  get status(): PresenceStatus {
    return this.#status;
  }

  isInFault(subDevice: SubDevice): boolean {
    const { devices, journal } = this.#parts;
    const fault = journal.snapshot.get(`${subDevice.externalId}/fault`)?.value;
    return isInFault(subDevice, (id) => devices.find(id), fault);
  }

  /** Whether it was last worked out long enough ago for readings to be worth another look. */
  isStale(now: number): boolean {
    return now - this.#checkedAtMs >= CHECK_MS;
  }

  /** Something may have changed that nobody has worked out yet: the next alarm does. */
  noteChange(): void {
    this.#nextChangeMs = earliest([this.#nextChangeMs, this.#checkedAtMs + CHECK_MS]);
  }

  /** When time alone changes it next. */
  dueMs(): number | undefined {
    return this.#nextChangeMs;
  }

  run(turn: Turn): void {
    this.update(turn);
  }

  /** What lists need of a change goes to the registry's lane. */
  update(turn: Turn): void {
    const before = { status: this.#status, checkedAtMs: this.#checkedAtMs, nextChangeMs: this.#nextChangeMs };
    turn.undo(() => {
      this.#status = before.status;
      this.#checkedAtMs = before.checkedAtMs;
      this.#nextChangeMs = before.nextChangeMs;
    });
    const input = this.#input();
    const { presence, nextChangeMs } = presenceAt(input, turn.now);
    this.#checkedAtMs = turn.now;
    this.#nextChangeMs = nextChangeMs;
    this.#parts.alarms.update(turn, [...statesOf(presence, input, turn.now), ...this.#suspended()]);
    const status = { ...presence, seenAtMs: this.#seen(input, turn.now) };
    if (JSON.stringify(status) === JSON.stringify(this.#status)) return;
    // What comes within a second of this look is looked at a little later, though nothing else may come for long.
    const isOther = JSON.stringify(presence) !== JSON.stringify(withoutSeen(this.#status));
    if (isOther) this.#nextChangeMs = earliest([nextChangeMs, turn.now + AGAIN_MS]);
    this.#tell(turn, status);
    this.#parts.facts.set(turn, 'presence', status);
    this.#status = status;
  }

  #input(): PresenceInput {
    const { registry, journal, configuration } = this.#parts;
    const { fallback } = configuration.config;
    const devices = this.#parts.devices.all();
    const quietSinceMs = (id: string) => this.#parts.quietSinceMs(id);
    const isThere = ({ id, connection_id }: DeviceRow) =>
      connection_id !== null && quietSinceMs(id) === undefined;
    const ends = devices.map(({ id, disconnected_at_ms }) => quietSinceMs(id) ?? disconnected_at_ms);
    return {
      previous: this.#status,
      connected: devices.some(isThere),
      lastSessionEndMs: latest(ends),
      fallback: {
        afterMs: fallback ? fallback.afterSeconds * 1_000 : undefined,
        isActive: (journal.snapshot.get('fallbackActive')?.value ?? 0) !== 0,
      },
      subDevices: registry.subDevices.map((subDevice) => ({
        id: subDevice.externalId,
        lastSampleAtMs: journal.snapshot.lastSampleAtMs(subDevice.externalId),
        inError: this.isInFault(subDevice),
        registerAtMs: this.#registerAtMs(subDevice),
      })),
      devices: devices.map((device) => ({
        id: device.id,
        connected: isThere(device),
        everConnected: device.connected_at_ms !== null,
        reported: device.reported_status,
      })),
    };
  }

  /** When a meter last told a register. */
  #registerAtMs(subDevice: SubDevice): number | undefined {
    if (roleOf(subDevice) === null) return undefined;
    const { externalId } = subDevice;
    const { snapshot } = this.#parts.journal;
    return latest(REGISTERS.map((register) => snapshot.get(`${externalId}/${register}`)?.atMs ?? null));
  }

  /** When each device was there, as lists are to be told: to a quarter of an hour while it stays. */
  #seen({ devices }: PresenceInput, now: number): Record<string, number> {
    const known = this.#status.seenAtMs ?? {};
    const here = devices.filter(({ connected }) => connected);
    return Object.fromEntries(
      here.map(({ id }) => [id, now - (known[id] ?? 0) >= SEEN_MS ? now : (known[id] ?? now)]),
    );
  }

  /** By the sub-device that it serves alone, where it does. */
  #suspended(): State[] {
    const { devices, registry } = this.#parts;
    return devices
      .all()
      .filter(({ status }) => status === 'SUSPENDED')
      .map(({ id }) => {
        const linked = registry.subDevices.find(({ linkedDeviceId }) => linkedDeviceId === id);
        return { type: 'DEVICE_SUSPENDED', deviceId: linked?.externalId ?? id };
      });
  }

  #tell(turn: Turn, presence: PresenceStatus): void {
    const { registry, outbox, devices } = this.#parts;
    const plantId = registry.record?.plantId;
    if (plantId && presence.plant !== this.#status.plant) {
      outbox.emit(turn, statusRow('plant', plantId, { status: presence.plant }, turn.now));
    }
    for (const subDevice of registry.subDevices) {
      const status = presence.subDevices[subDevice.externalId];
      if (status && status !== this.#status.subDevices[subDevice.externalId]) {
        outbox.emit(turn, statusRow('sub-device', subDevice.id, { status }, turn.now));
      }
    }
    for (const device of devices.all()) {
      const { id } = device;
      const connectionStatus = presence.devices[id];
      const isSeenAnew = (presence.seenAtMs?.[id] ?? 0) > (this.#status.seenAtMs?.[id] ?? 0);
      const isSame = connectionStatus === this.#status.devices[id] && !isSeenAnew;
      if (connectionStatus === undefined || isSame) continue;
      const lastSeenAtMs = this.#lastSeenMs(device, turn.now);
      const columns = { connectionStatus, ...(lastSeenAtMs === null ? {} : { lastSeenAtMs }) };
      outbox.emit(turn, statusRow('device', id, columns, turn.now));
    }
  }

  /** Now, for one that is there; null for one that never was. */
  #lastSeenMs(
    { id, connection_id, disconnected_at_ms: disconnectedAtMs }: DeviceRow,
    now: number,
  ): number | null {
    const quietSinceMs = this.#parts.quietSinceMs(id);
    return quietSinceMs ?? (connection_id === null ? disconnectedAtMs : now);
  }
}

function withoutSeen({ seenAtMs: _seen, ...presence }: PresenceStatus): PresenceStatus {
  return presence;
}

/** What of it is an alarm while it is so [C-8.3]. */
function statesOf(presence: PresenceStatus, input: PresenceInput, now: number): State[] {
  const states: State[] = presence.plant === 'OFFLINE' ? [{ type: 'SITE_OFFLINE' }] : [];
  if (isFallbackEngaged(input, now)) states.push({ type: 'FALLBACK_ENGAGED' });
  for (const { id: deviceId, inError, registerAtMs = now } of input.subDevices) {
    if (presence.subDevices[deviceId] === 'OFFLINE') states.push({ type: 'DEVICE_OFFLINE', deviceId });
    if (inError) states.push({ type: 'DEVICE_FAULT', deviceId });
    if (now - registerAtMs >= LIMIT.registerStaleMs) states.push({ type: 'METER_STALE', deviceId });
  }
  return states;
}

function latest(values: readonly (number | null)[]): number | undefined {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? undefined : Math.max(...known);
}
