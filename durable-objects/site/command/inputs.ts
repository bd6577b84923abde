/**
 * What a judgement read of its site. It is stored with the command, so that a replay can judge the command again with the
 * code of today [C-13.4]. Pure.
 */
import type { ScheduleStatus } from '../../../protocol/enums.ts';
import type { SignatureVerdict } from '../../../protocol/signing.ts';
import {
  type Constraints,
  DEFAULT_SITE_CONFIG,
  type SiteConfig,
  UNLIMITED,
} from '../../../protocol/site-config.ts';
import type { SubDevice } from '../../../registry/plant-copy.ts';
import { mayName } from '../sight.ts';
import type { ActiveEmergency, BatteryDemand, ServingDevice, SiteView } from '../site-view.ts';

/** Of larger sites only the sub-devices that matter are stored. */
const MOST_SUB_DEVICES = 20;

type RecordedSubDevice = Pick<SubDevice, 'externalId' | 'assetType' | 'linkedDeviceId' | 'ratedPowerKw'>;

type SparseConfig = Partial<Record<keyof SiteConfig, unknown>>;

/** Only what was read; maps are by external id, by device id, or by schedule id. Null: the site has none. */
export interface RecordedView {
  exists?: boolean;
  config?: SparseConfig;
  gatewayId?: string | null;
  emergency?: ActiveEmergency | null;
  unreleased?: readonly string[];
  demands?: Readonly<Record<string, BatteryDemand>>;
  subDevices?: readonly RecordedSubDevice[];
  serving?: Record<string, ServingDevice | null>;
  soc?: Record<string, number | null>;
  offline?: Record<string, boolean>;
  fault?: Record<string, boolean>;
  schedules?: Record<string, ScheduleStatus | null>;
  active?: Record<string, boolean>;
  live?: Record<string, boolean>;
}

/** The inputs of a judgement besides the publish that the log has. */
export interface JudgementInputs {
  signature: SignatureVerdict;
  /** The timestamp of the message; it decides only if the signature is valid. */
  timestampMs: number;
  /** The messageId was used for another command before. */
  isUsed?: true;
  view: RecordedView;
}

/**
 * A view for the judgement of a command of this partner, which notes what is read through it. `payloadText`: the command;
 * its sub-devices are among the stored ones.
 * `needsLinked`: those with a device of their own are, too.
 */
export function recording(
  view: SiteView,
  partnerId: string,
  payloadText: string,
  needsLinked: boolean,
): { view: SiteView; recorded: RecordedView } {
  const recorded: RecordedView = {};
  const noted = <Value>(
    name: 'serving' | 'soc' | 'offline' | 'fault' | 'schedules' | 'active' | 'live',
    id: string,
    value: Value,
  ): Value => {
    const map: Record<string, unknown> = recorded[name] ?? {};
    map[id] = value ?? null;
    Object.assign(recorded, { [name]: map });
    return value;
  };
  const seen: SiteView = {
    get exists() {
      recorded.exists = view.exists;
      return view.exists;
    },
    get config() {
      recorded.config ??= sparse(view.config);
      return view.config;
    },
    get gatewayId() {
      recorded.gatewayId = view.gatewayId ?? null;
      return view.gatewayId;
    },
    get emergency() {
      recorded.emergency = view.emergency ?? null;
      return view.emergency;
    },
    get unreleased() {
      recorded.unreleased = view.unreleased;
      return view.unreleased;
    },
    get batteryDemands() {
      recorded.demands ??= demandsFor(partnerId, view.batteryDemands);
      return recorded.demands;
    },
    get subDevices() {
      recorded.subDevices ??= relevant(view.subDevices, payloadText, needsLinked);
      return view.subDevices;
    },
    servingDevice: (subDevice) => noted('serving', subDevice.externalId, view.servingDevice(subDevice)),
    socPercent: (subDevice) => noted('soc', subDevice.externalId, view.socPercent(subDevice)),
    isOffline: (subDevice) => noted('offline', subDevice.externalId, view.isOffline(subDevice)),
    isInFault: (subDevice) => noted('fault', subDevice.externalId, view.isInFault(subDevice)),
    scheduleStatus: (id) => noted('schedules', id, view.scheduleStatus(id, partnerId)),
    isActive: (id) => noted('active', id, view.isActive(id)),
    isLive: (id) => noted('live', id, view.isLive(id)),
  };
  return { view: seen, recorded };
}

/** Marks the demands of other partners, which no answer to this one may show [C-15.1]. */
function demandsFor(
  own: string,
  demands: Readonly<Record<string, BatteryDemand>>,
): Readonly<Record<string, BatteryDemand>> {
  return Object.fromEntries(
    Object.entries(demands).map(([id, { limit, powerKw, partnerId }]) => [
      id,
      { limit, powerKw, ...(mayName(own, partnerId ?? own) ? {} : { isHidden: true as const }) },
    ]),
  );
}

/** A rule reads what was not recorded: the rule is newer than the record. */
export class NotRecorded extends Error {}

/** The view as it was recorded. Its functions throw `NotRecorded`. */
export function replayed(recorded: RecordedView): SiteView {
  const of = <Value>(
    map: Readonly<Record<string, Value | null>> | undefined,
    id: string,
    what: string,
  ): Value | undefined => {
    if (map === undefined || !Object.hasOwn(map, id))
      throw new NotRecorded(`the record has no ${what} of ${id}`);
    return map[id] ?? undefined;
  };
  const { emergency, gatewayId, demands = {}, unreleased = [], exists = true } = recorded;
  return {
    ...{ exists, batteryDemands: demands, unreleased },
    config: whole(recorded.config),
    emergency: emergency ?? undefined,
    gatewayId: gatewayId ?? undefined,
    subDevices: (recorded.subDevices ?? []) as readonly SubDevice[],
    servingDevice: ({ externalId }) => of(recorded.serving, externalId, 'serving device'),
    socPercent: ({ externalId }) => of(recorded.soc, externalId, 'state of charge'),
    isOffline: ({ externalId }) => of(recorded.offline, externalId, 'presence') ?? false,
    isInFault: ({ externalId }) => of(recorded.fault, externalId, 'fault') ?? false,
    scheduleStatus: (id) => of(recorded.schedules, id, 'schedule'),
    isActive: (id) => of(recorded.active, id, 'status') ?? false,
    isLive: (id) => of(recorded.live, id, 'connection') ?? false,
  };
}

/** Without limits that are null, and without a fallback: most are. */
function sparse({ constraints, hardLimits, fallback, operatingMode }: SiteConfig): SparseConfig {
  const limits = (all: Constraints) =>
    Object.fromEntries(Object.entries(all).filter(([, limit]) => limit !== null));
  return {
    ...(constraints ? { constraints: limits(constraints) } : {}),
    ...(hardLimits ? { hardLimits: limits(hardLimits) } : {}),
    ...(fallback ? { fallback } : {}),
    operatingMode,
  };
}

function whole(stored: SparseConfig = {}): SiteConfig {
  const { constraints, hardLimits, ...rest } = stored as Partial<SiteConfig>;
  return {
    ...DEFAULT_SITE_CONFIG,
    ...rest,
    constraints: constraints ? { ...UNLIMITED, ...constraints } : null,
    hardLimits: hardLimits ? { ...UNLIMITED, ...hardLimits } : null,
  };
}

/** All sub-devices of a small site; of a large one those that the command names or goes to, and one of each type. */
function relevant(all: readonly SubDevice[], payloadText: string, needsLinked: boolean): RecordedSubDevice[] {
  const types = new Set<string>();
  const chosen = all.filter(({ externalId, assetType, linkedDeviceId }) => {
    const isFirst = !types.has(assetType);
    types.add(assetType);
    const isLinked = needsLinked && linkedDeviceId !== null;
    return (
      isFirst ||
      isLinked ||
      all.length <= MOST_SUB_DEVICES ||
      payloadText.includes(JSON.stringify(externalId))
    );
  });
  return chosen.map(({ externalId, assetType, linkedDeviceId, ratedPowerKw }) => ({
    ...{ externalId, assetType, linkedDeviceId, ratedPowerKw },
  }));
}
