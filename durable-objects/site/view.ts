/** Builds the view of a site that the rules see, once a turn. */
import { LIMIT } from '../../protocol/limits.ts';
import type { PlantCopy } from '../../registry/plant-copy.ts';
import type { Turn } from '../object/turn.ts';
import type { BatteryDemands } from './command/batch-owner.ts';
import type { ConfigurationState } from './config/state.ts';
import type { Devices } from './device/devices.ts';
import { servingGateway } from './device/serving.ts';
import type { DeviceSessions } from './device/sessions.ts';
import type { PlanState } from './plan/state.ts';
import type { Presence } from './presence/presence.ts';
import type { ScheduleRows } from './schedule/rows.ts';
import { ORGANIZATION } from './sight.ts';
import type { SiteView, ViewOf } from './site-view.ts';
import type { Journal } from './telemetry/journal.ts';

export interface ViewSources {
  registry: PlantCopy;
  configuration: ConfigurationState;
  plan: PlanState;
  demands: BatteryDemands;
  schedules: ScheduleRows;
  devices: Devices;
  sessions: DeviceSessions;
  presence: Presence;
  journal: Journal;
}

export function viewOncePerTurn(sources: ViewSources): ViewOf {
  let last: { turn: Turn; view: SiteView } | undefined;
  return (turn) => {
    if (last?.turn !== turn) last = { turn, view: viewOf(sources, turn.now) };
    return last.view;
  };
}

function viewOf(sources: ViewSources, now: number): SiteView {
  const { registry, configuration, plan, demands, schedules, devices, sessions, presence, journal } = sources;
  const isLive = (id: string) => sessions.isLive(id, now);
  const isActive = (id: string) => devices.find(id)?.status === 'ACTIVE';
  const gatewayId = servingGateway(devices.all(), isLive)?.id;
  return {
    get config() {
      return configuration.config;
    },
    get emergency() {
      return plan.emergency;
    },
    get unreleased() {
      return plan.unreleased;
    },
    get batteryDemands() {
      return demands.all;
    },
    socPercent: ({ externalId }) => {
      const { snapshot } = journal;
      const sample = snapshot.get(`${externalId}/socPercent`) ?? snapshot.get('socPercent');
      return sample && now - sample.atMs < LIMIT.signalStaleMs ? sample.value : undefined;
    },
    exists: registry.record !== undefined,
    subDevices: registry.subDevices,
    gatewayId,
    servingDevice: ({ linkedDeviceId }) => {
      const id = linkedDeviceId && isActive(linkedDeviceId) ? linkedDeviceId : gatewayId;
      if (id === undefined) return undefined;
      const device = devices.find(id);
      const connectedAtMs = device?.connection_id ? (device.connected_at_ms ?? now) : now;
      return { id, live: isLive(id), connectedForMs: now - connectedAtMs };
    },
    scheduleStatus: (id, partnerId = ORGANIZATION) => schedules.find(partnerId, id)?.status,
    isActive,
    isLive,
    isOffline: ({ externalId }) => presence.status.subDevices[externalId] === 'OFFLINE',
    isInFault: (subDevice) => presence.isInFault(subDevice),
  };
}
