/** What a Site remembers between two events. All of it is rebuilt from SQLite at a wake. */
import { DEFAULT_SITE_CONFIG, type ModeOverride, type SiteConfig } from '../../protocol/config.ts';
import type { OperatingMode } from '../../protocol/enums.ts';
import { parseInstant } from '../../protocol/ids.ts';
import { hexBytes } from '../hmac.ts';
import { SecretBox } from '../secret-box.ts';
import type { SiteFacts } from './command/checks.ts';
import type { DeviceSessions } from './device-session.ts';
import { NO_PRESENCE, type Presence } from './presence.ts';
import type { SiteRegistry } from './registry.ts';
import { REPLAY_HORIZON_MS, ReplayGuard } from './replay.ts';
import type { DeviceRow, SubDevice } from './schema.ts';
import type { SiteStorage } from './storage.ts';
import { type BlockHead, parseEntries, readHead } from './telemetry/journal.ts';
import { type Sample, type SignalOrigin, Snapshot } from './telemetry/snapshot.ts';

/** The snapshot as it is stored when a block closes; entries received since then are read back from the journal. */
interface StoredSnapshot {
  samples: Record<string, Sample>;
  asOfMs: number;
}

/** A device's secret in the two forms that it may sign with [C-3.7]. */
export interface DeviceSecret {
  text: string;
  bytes: Uint8Array;
}

export class SiteState {
  readonly storage: SiteStorage;
  readonly sessions: DeviceSessions;
  siteId: string | undefined;
  registry: SiteRegistry | undefined;
  config: SiteConfig;
  modeOverride: ModeOverride | null;
  presence: Presence;
  readonly #secretBox: SecretBox;
  readonly #secrets = new Map<string, DeviceSecret>();
  #journal: { head: BlockHead | undefined; replay: ReplayGuard; snapshot: Snapshot } | undefined;
  #lastNowMs = 0;

  constructor(storage: SiteStorage, sessions: DeviceSessions, dataKeys: string) {
    this.storage = storage;
    this.sessions = sessions;
    this.#secretBox = new SecretBox(dataKeys);
    this.siteId = storage.fact<{ siteId: string }>('identity')?.siteId;
    this.registry = storage.fact<SiteRegistry>('registry');
    this.config = DEFAULT_SITE_CONFIG;
    this.modeOverride = null;
    this.reloadConfig();
    this.presence = storage.fact<Presence>('presence') ?? NO_PRESENCE;
  }

  /** Configuration as it is stored: what a step that failed had changed in memory is gone. */
  reloadConfig(): void {
    this.config = this.storage.fact<SiteConfig>('config') ?? DEFAULT_SITE_CONFIG;
    this.modeOverride = this.storage.fact<ModeOverride | null>('modeOverride') ?? null;
  }

  /** The object's own clock; it never goes back (rule 10). */
  now(): number {
    this.#lastNowMs = Math.max(this.#lastNowMs, Date.now());
    return this.#lastNowMs;
  }

  // secrets

  sealSecret(deviceId: string, hmacSecret: string): string {
    this.#secrets.delete(deviceId);
    return this.#secretBox.seal(`device:${deviceId}`, hmacSecret);
  }

  secret(device: DeviceRow): DeviceSecret {
    const known = this.#secrets.get(device.id);
    if (known) return known;
    const text = this.#secretBox.open(`device:${device.id}`, device.secret_sealed);
    const secret = { text, bytes: hexBytes(text) };
    this.#secrets.set(device.id, secret);
    return secret;
  }

  /** The key that commands to the device are signed with: in the form that it last proved. */
  commandKey(device: DeviceRow): string | Uint8Array {
    return this.secret(device)[device.secret_form];
  }

  // telemetry

  /** Nonces, latest values and the open block; read back from the journal at first use. */
  get journal(): { head: BlockHead | undefined; replay: ReplayGuard; snapshot: Snapshot } {
    this.#journal ??= this.#readJournal();
    return this.#journal;
  }

  #readJournal() {
    const now = this.now();
    const stored = this.storage.fact<StoredSnapshot>('snapshot') ?? { samples: {}, asOfMs: 0 };
    const snapshot = new Snapshot(stored.samples);
    const replay = new ReplayGuard();
    const head = readHead(this.storage);
    const since = Math.min(now - REPLAY_HORIZON_MS, stored.asOfMs || now - REPLAY_HORIZON_MS);
    for (const block of this.storage.blocksSince(since)) {
      for (const entry of parseEntries(block.data)) {
        replay.remember(entry);
        if (entry.topic === 'telemetry' && entry.receivedMs >= stored.asOfMs) {
          const data = JSON.parse(entry.dataText) as Record<string, number>;
          snapshot.apply(this.origin(entry.deviceId), entry.receivedMs, data);
        }
      }
    }
    return { head, replay, snapshot };
  }

  storeSnapshot(now: number): void {
    const stored: StoredSnapshot = { samples: this.journal.snapshot.toJSON(), asOfMs: now };
    this.storage.setFact('snapshot', stored);
  }

  origin(deviceId: string): SignalOrigin {
    const linked = this.subDevices().find((asset) => asset.linkedDeviceId === deviceId);
    const type = this.sessions.device(deviceId)?.type;
    return {
      deviceId,
      servesSite: type === 'GATEWAY' || type === 'CONTROLLER',
      subDeviceId: linked?.externalId,
    };
  }

  // topology and serving devices

  subDevices(): readonly SubDevice[] {
    return this.registry?.subDevices ?? [];
  }

  /** The plant's gateway [C-2.4]: connected before not, then the last to have connected. */
  gateway(now: number): DeviceRow | undefined {
    const candidates = this.sessions
      .devices()
      .filter(
        (device) => device.status === 'ACTIVE' && (device.type === 'GATEWAY' || device.type === 'CONTROLLER'),
      );
    const order = (device: DeviceRow) => [
      this.sessions.isLive(device.id, now) ? 1 : 0,
      device.connection_id ? 1 : 0,
      device.connected_at_ms ?? 0,
    ];
    return candidates.sort((left, right) => compareDescending(order(left), order(right)))[0];
  }

  facts(now: number): SiteFacts {
    const gateway = this.gateway(now);
    const active = (id: string) => this.sessions.device(id)?.status === 'ACTIVE';
    const serving = (asset: SubDevice) => {
      const id = asset.linkedDeviceId && active(asset.linkedDeviceId) ? asset.linkedDeviceId : gateway?.id;
      return id === undefined ? undefined : { id, live: this.sessions.isLive(id, now) };
    };
    return {
      subDevices: this.subDevices(),
      constraints: this.config.constraints,
      hardLimits: this.config.hardLimits,
      servingDevice: serving,
      isActive: active,
      hasGateway: gateway !== undefined,
      isOffline: (asset) => this.presence.subDevices[asset.externalId] === 'OFFLINE',
      inFault: (asset) => this.inFault(asset),
    };
  }

  /** [C-7.4] The linked device reports ERROR, or the signal `fault` is not 0. */
  inFault(asset: SubDevice): boolean {
    const linked = asset.linkedDeviceId ? this.sessions.device(asset.linkedDeviceId) : undefined;
    if (linked?.reported_status === 'ERROR') return true;
    return (this.journal.snapshot.get(`${asset.externalId}/fault`)?.value ?? 0) !== 0;
  }

  // mode

  activeOverride(now: number): ModeOverride | null {
    const override = this.modeOverride;
    return override && (parseInstant(override.validUntil) ?? 0) > now ? override : null;
  }

  operatingMode(now: number): OperatingMode {
    return this.activeOverride(now)?.mode ?? this.config.operatingMode;
  }
}

function compareDescending(left: readonly number[], right: readonly number[]): number {
  for (const [index, value] of left.entries()) {
    const difference = (right[index] ?? 0) - value;
    if (difference !== 0) return difference;
  }
  return 0;
}
