/**
 * The stored presence of a site. It is computed again after a change and when it may change with time, and
 * stored only if the result differs.
 */
import { REGISTERS } from '../../../protocol/asset.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { SiteConfig } from '../../../protocol/site-config.ts';
import type { PlantCopy, SubDevice } from '../../../registry/plant-copy.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { KeyValues } from '../../object/key-values.ts';
import type { Turn } from '../../object/turn.ts';
import type { Devices } from '../device/devices.ts';
import type { DeviceRow } from '../device/rows.ts';
import { isInFault } from '../device/serving.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import { type State, statusRow } from '../event/event-rows.ts';
import type { Events } from '../event/events.ts';
import type { Outbox } from '../event/outbox.ts';
import { Fact, type SiteFact } from '../stored.ts';
import type { Journal } from '../telemetry/journal.ts';
import { roleOf } from '../telemetry/meter.ts';
import {
  isFallbackEngaged,
  NO_PRESENCE,
  type PresenceInput,
  type PresenceStatus,
  presenceAt,
} from './presence-rule.ts';

/**
 * `CHECK_MS`: how often a busy plant's presence is computed. `AGAIN_MS`: the delay of one more check after a
 * change.
 */
const CHECK_MS = 1_000;
const AGAIN_MS = 5_000;
/** How old `lastSeenAt` of a connected device may be. Each update costs a row here and one in D1. */
const SEEN_MS = 15 * 60_000;

export interface PresenceHost {
  values: KeyValues<SiteFact>;
  devices: Devices;
  sessions: DeviceSessions;
  registry: PlantCopy;
  journal: Journal;
  outbox: Outbox;
  events: Events;
  config(): SiteConfig;
  /** Called when the presence, or whether the fallback is engaged, has changed. */
  changed(): void;
}

export class Presence implements DueSource {
  readonly name = 'presence';
  readonly #host: PresenceHost;
  readonly #status: Fact<PresenceStatus>;
  #checkedAtMs = 0;
  #nextChangeMs: number | undefined;
  /** The sub-devices that had sent nothing at the last check. */
  #unknown: readonly string[] = [];
  /** The sub-devices that were in fault at the last check. */
  #inFault: readonly string[] = [];
  /** Undefined before the first check after a wake. */
  #wasFallback: boolean | undefined;

  constructor(host: PresenceHost) {
    this.#host = host;
    this.#status = new Fact(host.values, 'presence', NO_PRESENCE);
  }

  get status(): PresenceStatus {
    return this.#status.value;
  }

  isInFault(subDevice: SubDevice): boolean {
    const { devices, journal } = this.#host;
    const fault = journal.snapshot.get(`${subDevice.externalId}/fault`)?.value;
    return isInFault(subDevice, (id) => devices.find(id), fault);
  }

  /**
   * Whether new readings justify a check: the last one is long enough ago, or they are the first of a sub-device, which
   * partners must not see as UNKNOWN after that.
   */
  isStale(now: number): boolean {
    if (now - this.#checkedAtMs >= CHECK_MS) return true;
    const { snapshot } = this.#host.journal;
    return this.#unknown.some((externalId) => snapshot.lastSampleAtMs(externalId) !== undefined);
  }

  /** Whether sub-devices have got into fault, or out of it, since the last check, and the next one is not noted yet. */
  get hasOtherFaults(): boolean {
    if ((this.#nextChangeMs ?? Number.POSITIVE_INFINITY) <= this.#checkedAtMs + CHECK_MS) return false;
    const { subDevices } = this.#host.registry;
    const now = subDevices.filter((one) => this.isInFault(one)).map(({ externalId }) => externalId);
    return now.join() !== this.#inFault.join();
  }

  /** Whether the plant probably runs its fallback. */
  isFallbackEngaged(now: number): boolean {
    return isFallbackEngaged(this.#input(), now);
  }

  /** Notes a possible change; the next alarm computes the presence. */
  noteChange(): void {
    this.#nextChangeMs = earliest([this.#nextChangeMs, this.#checkedAtMs + CHECK_MS]);
  }

  /** When the presence changes next without new input, or the next check is due. */
  dueMs(): number | undefined {
    return this.#nextChangeMs;
  }

  run(turn: Turn): void {
    this.update(turn);
  }

  /** Computes the presence, updates alarms and sends status changes to the registry's lane. */
  update(turn: Turn): void {
    const before = { checkedAtMs: this.#checkedAtMs, nextChangeMs: this.#nextChangeMs };
    turn.undo(() => {
      this.#checkedAtMs = before.checkedAtMs;
      this.#nextChangeMs = before.nextChangeMs;
    });
    const input = this.#input();
    const { presence, nextChangeMs } = presenceAt(input, turn.now);
    this.#checkedAtMs = turn.now;
    this.#nextChangeMs = nextChangeMs;
    this.#unknown = Object.keys(presence.subDevices).filter((id) => presence.subDevices[id] === 'UNKNOWN');
    this.#inFault = input.subDevices.filter(({ inError }) => inError).map(({ id }) => id);
    this.#host.events.updateStates(turn, [...statesOf(presence, input, turn.now), ...this.#suspended()]);
    const isFallback = isFallbackEngaged(input, turn.now);
    if (isFallback !== this.#wasFallback) this.#host.changed();
    this.#wasFallback = isFallback;
    const status = { ...presence, seenAtMs: this.#seen(input, turn.now) };
    if (JSON.stringify(status) === JSON.stringify(this.status)) return;
    // Readings that arrive within CHECK_MS after this check start no check, and perhaps no later reading
    // does, so check once more after AGAIN_MS.
    const isOther = JSON.stringify(presence) !== JSON.stringify(withoutSeen(this.status));
    if (isOther) this.#host.changed();
    if (isOther) this.#nextChangeMs = earliest([nextChangeMs, turn.now + AGAIN_MS]);
    this.#report(turn, status);
    this.#status.set(turn, status);
  }

  #input(): PresenceInput {
    const { registry, journal, config } = this.#host;
    const { fallback } = config();
    const devices = this.#host.devices.all();
    const quietSinceMs = (id: string) => this.#host.sessions.quietSinceMs(id);
    const isThere = ({ id, connection_id }: DeviceRow) =>
      connection_id !== null && quietSinceMs(id) === undefined;
    const ends = devices.map(({ id, disconnected_at_ms }) => quietSinceMs(id) ?? disconnected_at_ms);
    return {
      previous: this.status,
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

  /** The device's `ts` of a meter's newest register value. */
  #registerAtMs(subDevice: SubDevice): number | undefined {
    if (roleOf(subDevice) === null) return undefined;
    const { externalId } = subDevice;
    const { snapshot } = this.#host.journal;
    return latest(REGISTERS.map((register) => snapshot.get(`${externalId}/${register}`)?.atMs ?? null));
  }

  /** `lastSeenAt` of each connected device for the registry, updated every quarter of an hour. */
  #seen({ devices }: PresenceInput, now: number): Record<string, number> {
    const known = this.status.seenAtMs ?? {};
    const here = devices.filter(({ connected }) => connected);
    return Object.fromEntries(
      here.map(({ id }) => [id, now - (known[id] ?? 0) >= SEEN_MS ? now : (known[id] ?? now)]),
    );
  }

  /** Suspended devices, named by their linked sub-device if there is one. */
  #suspended(): State[] {
    const { devices, registry } = this.#host;
    return devices
      .all()
      .filter(({ status }) => status === 'SUSPENDED')
      .map(({ id }) => {
        const linked = registry.subDevices.find(({ linkedDeviceId }) => linkedDeviceId === id);
        return { type: 'DEVICE_SUSPENDED', deviceId: linked?.externalId ?? id };
      });
  }

  #report(turn: Turn, presence: PresenceStatus): void {
    const { registry, outbox, devices } = this.#host;
    const plantId = registry.record?.plantId;
    if (plantId && presence.plant !== this.status.plant) {
      outbox.emit(turn, statusRow('plant', plantId, { status: presence.plant }, turn.now));
    }
    for (const subDevice of registry.subDevices) {
      const status = presence.subDevices[subDevice.externalId];
      if (status && status !== this.status.subDevices[subDevice.externalId]) {
        outbox.emit(turn, statusRow('sub-device', subDevice.id, { status }, turn.now));
      }
    }
    for (const device of devices.all()) {
      const { id } = device;
      const connectionStatus = presence.devices[id];
      const isSeenAnew = (presence.seenAtMs?.[id] ?? 0) > (this.status.seenAtMs?.[id] ?? 0);
      const isSame = connectionStatus === this.status.devices[id] && !isSeenAnew;
      if (connectionStatus === undefined || isSame) continue;
      const lastSeenAtMs = this.#lastSeenMs(device, turn.now);
      const columns = { connectionStatus, ...(lastSeenAtMs === null ? {} : { lastSeenAtMs }) };
      outbox.emit(turn, statusRow('device', id, columns, turn.now));
    }
  }

  /** When the device was last seen: now if it is connected, null if it never was. */
  #lastSeenMs(
    { id, connection_id, disconnected_at_ms: disconnectedAtMs }: DeviceRow,
    now: number,
  ): number | null {
    const quietSinceMs = this.#host.sessions.quietSinceMs(id);
    return quietSinceMs ?? (connection_id === null ? disconnectedAtMs : now);
  }
}

function withoutSeen({ seenAtMs: _seen, ...presence }: PresenceStatus): PresenceStatus {
  return presence;
}

/** The states that are alarms for as long as they last [C-8.3]. */
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
