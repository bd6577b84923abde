/** The input of the rules as plain data, so that tests of the rules need no object. */

import type { Submission } from '../../../durable-objects/rpc.ts';
import { deviceCommandKind } from '../../../durable-objects/site/command/kind/device-command.ts';
import type { JudgedItem, Kind } from '../../../durable-objects/site/command/kind/kind.ts';
import type { DispatchRow } from '../../../durable-objects/site/dispatch/rows.ts';
import type { Refusal } from '../../../durable-objects/site/refusal.ts';
import type { ActiveEmergency, SiteView } from '../../../durable-objects/site/site-view.ts';
import type { DeviceCommandItem, SiteSetpoint } from '../../../protocol/command.ts';
import type { AssetType, ScheduleStatus } from '../../../protocol/enums.ts';
import { type CommandFamily, commandRoutingKey } from '../../../protocol/routing-keys.ts';
import { type Constraints, DEFAULT_SITE_CONFIG, UNLIMITED } from '../../../protocol/site-config.ts';
import type { CanonicalTelemetry } from '../../../protocol/telemetry.ts';
import type { SubDevice } from '../../../registry/plant-copy.ts';

export interface FactsOptions {
  subDevices?: readonly SubDevice[];
  constraints?: Partial<Constraints> | null;
  hardLimits?: Partial<Constraints> | null;
  gatewayId?: string | undefined;
  /** Ids of the active devices besides the gateway. */
  active?: readonly string[];
  /** Ids of the devices that are not connected. */
  away?: readonly string[];
  /** External ids of sub-devices. */
  offline?: readonly string[];
  inFault?: readonly string[];
  emergency?: ActiveEmergency;
  unreleased?: readonly string[];
  batteryDemands?: SiteView['batteryDemands'];
  /** By scheduleId. */
  schedules?: Record<string, ScheduleStatus>;
  /** By external id. */
  soc?: Record<string, number>;
  /** For how long serving devices have been connected. */
  connectedForMs?: number;
}

export function subDevice(
  externalId: string,
  assetType: AssetType,
  changes: Partial<SubDevice> = {},
): SubDevice {
  return {
    id: `id of ${externalId}`,
    externalId,
    assetType,
    name: externalId,
    linkedDeviceId: null,
    ratedPowerKw: null,
    capacityKwh: null,
    meterRole: null,
    ...changes,
  };
}

export const GATEWAY = 'gateway-1';
export const DEFAULT_SUB_DEVICES: readonly SubDevice[] = [
  subDevice('BESS-1', 'BESS', { ratedPowerKw: 40 }),
  subDevice('BESS-2', 'BESS', { ratedPowerKw: 30 }),
  subDevice('BESS-3', 'BESS'),
  subDevice('FVE-1', 'FVE', { ratedPowerKw: 80 }),
  subDevice('METER-1', 'METER'),
];

/** A site with a connected gateway, without limits and faults. `options` changes any of that. */
export function siteView(options: FactsOptions = {}): SiteView {
  const gatewayId = 'gatewayId' in options ? options.gatewayId : GATEWAY;
  const limits = (some: Partial<Constraints> | null = null) => some && { ...UNLIMITED, ...some };
  const isActive = (id: string) => id === gatewayId || (options.active ?? []).includes(id);
  const isLive = (id: string) => isActive(id) && !(options.away ?? []).includes(id);
  return {
    exists: true,
    config: {
      ...DEFAULT_SITE_CONFIG,
      constraints: limits(options.constraints),
      hardLimits: limits(options.hardLimits),
    },
    subDevices: options.subDevices ?? DEFAULT_SUB_DEVICES,
    gatewayId,
    emergency: options.emergency,
    unreleased: options.unreleased ?? [],
    batteryDemands: options.batteryDemands ?? {},
    socPercent: ({ externalId }) => options.soc?.[externalId],
    servingDevice: ({ linkedDeviceId }) => {
      const id = linkedDeviceId !== null && isActive(linkedDeviceId) ? linkedDeviceId : gatewayId;
      const { connectedForMs = 3_600_000 } = options;
      return id === undefined ? undefined : { id, live: isLive(id), connectedForMs };
    },
    scheduleStatus: (id) => options.schedules?.[id],
    isActive,
    isLive,
    isOffline: ({ externalId }) => (options.offline ?? []).includes(externalId),
    isInFault: ({ externalId }) => (options.inFault ?? []).includes(externalId),
  };
}

/** Takes a payload through a kind's own stages, as the pipeline does. */
export function judgeBy<Payload>(
  kind: Kind<Payload>,
  payload: Payload,
  view: SiteView,
): { refusal: Refusal | undefined; items: JudgedItem[] } {
  const items: JudgedItem[] = [];
  for (const [, check] of kind.stages) {
    const refusal = check({ payload, view, items });
    if (refusal) return { refusal, items };
  }
  return { refusal: undefined, items };
}

/** An item of a batch: a charge of the first battery. `changes` replaces any of its fields. */
export function chargeItem(powerKw?: number, changes: Partial<DeviceCommandItem> = {}): DeviceCommandItem {
  return {
    deviceId: 'BESS-1',
    assetType: 'BESS',
    command: 'BESS_CHARGE',
    ...(powerKw === undefined ? {} : { params: { powerKw } }),
    ...changes,
  };
}

/** Checks a batch of these items. */
export function judgeItems(items: DeviceCommandItem[], options: FactsOptions = {}) {
  return judgeBy(deviceCommandKind, { commands: items }, siteView(options));
}

/** The outcome of each item of a batch: its error text if it is rejected, otherwise ok. */
export function textsOf(items: DeviceCommandItem[], options: FactsOptions = {}): string[] {
  return judgeItems(items, options).items.map(({ refusal }) => refusal?.message ?? 'ok');
}

/** The code of each item of a batch: its rejection code if it is rejected, otherwise ok. */
export function codesOf(items: DeviceCommandItem[], options: FactsOptions = {}): string[] {
  return judgeItems(items, options).items.map(({ refusal }) => refusal?.rejectionCode ?? 'ok');
}

/** The default time of a submission. */
export const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');

/** A signed publish with that time, as a Vhost sends it to a Site. */
export function signedSubmission(
  family: CommandFamily,
  payload: unknown,
  changes: Partial<Submission> = {},
): Submission {
  return {
    messageId: '00000000-0000-4000-8000-000000000001',
    correlationId: null,
    source: 'partner',
    timestampMs: NOW_MS,
    routingKey: commandRoutingKey('acme', family),
    family,
    payloadText: JSON.stringify(payload),
    signature: 'valid',
    ...changes,
  };
}

/** A valid payload of each family. */
export const PAYLOADS: Record<CommandFamily, object> = {
  'site-setpoint': {
    type: 'POWER',
    targetValueKw: 5,
    direction: 'IMPORT',
    includeConsumption: true,
    priority: 'NORMAL',
    validFrom: '2030-03-05T09:00:00.000Z',
  },
  device: { commands: [chargeItem(5)] },
  emergency: { type: 'STOP' },
  mode: { mode: 'STANDARD' },
  schedule: {
    startTime: '2030-03-05T09:00:00.000Z',
    slots: [{ slotIndex: 0, mode: 'STANDARD', setpoint: { value: 5 } }],
  },
  config: { constraints: { maxImportKw: 50 } },
};

/** All subsets of these items, also the empty and the full one, to test the order of rules. */
export function subsetsOf<Item>(items: readonly Item[]): Item[][] {
  return Array.from({ length: 2 ** items.length }, (_none, mask) =>
    items.filter((_item, index) => (mask & (1 << index)) !== 0),
  );
}

/** A waiting dispatch of a device command for the gateway, unless changed. */
export function dispatchRow(changes: Partial<DispatchRow> = {}): DispatchRow {
  return {
    cmd_id: 'cmd-1',
    owner: 'DEVICE_COMMAND',
    command_sequence: 1,
    device_id: GATEWAY,
    action: 'BESS_CHARGE',
    payload: '{}',
    state: 'WAITING',
    tries: 0,
    not_before_ms: 0,
    expires_at_ms: null,
    due_at_ms: null,
    reason: null,
    ...changes,
  };
}

/** The telemetry of a plant without data. */
export const NO_TELEMETRY: CanonicalTelemetry = {
  gridPowerKw: null,
  fvePowerKw: null,
  batteryPowerKw: null,
  consumptionPowerKw: null,
  socPercent: null,
  availableBatteryEnergyKwh: null,
  batteryTemperatureCelsius: null,
  currentOperatingMode: 'STANDARD',
  dataQuality: 'MISSING',
};

export const EXPORT = { direction: 'EXPORT' } as const;

/** The payload of a NORMAL setpoint of a power, an import unless changed. */
export function power(targetValueKw: number, changes: Partial<SiteSetpoint> = {}): SiteSetpoint {
  const validFrom = new Date(NOW_MS).toISOString();
  const common = { direction: 'IMPORT', includeConsumption: true, priority: 'NORMAL', validFrom } as const;
  return { type: 'POWER', targetValueKw, ...common, ...changes };
}

/** The same of an energy. */
export function energy(
  targetValueKwh: number,
  intervalMinutes: number,
  changes: Partial<SiteSetpoint> = {},
): SiteSetpoint {
  const { targetValueKw: _kw, ...rest } = power(0, changes);
  return { ...rest, type: 'ENERGY', targetValueKwh, intervalMinutes };
}
