/** Decides which device serves the site [C-2.4]. Pure. */

import type { PlantCopy, SubDevice } from '../../../registry/plant-copy.ts';
import type { SignalOrigin } from '../telemetry/snapshot.ts';
import type { Devices } from './devices.ts';
import type { DeviceRow } from './rows.ts';

type IsLive = (deviceId: string) => boolean;

/**
 * The serving gateway: of all ACTIVE gateways and controllers a live one is preferred, then a connected one,
 * then the one that connected last.
 */
export function servingGateway(devices: readonly DeviceRow[], isLive: IsLive): DeviceRow | undefined {
  const order = (device: DeviceRow) => [
    isLive(device.id) ? 1 : 0,
    device.connection_id ? 1 : 0,
    device.connected_at_ms ?? 0,
  ];
  return devices
    .filter((device) => device.status === 'ACTIVE' && servesSite(device))
    .sort((left, right) => compareDescending(order(left), order(right)))[0];
}

/**
 * Whether the device serves the site, as gateways and controllers do: it gets site-level commands, and its
 * signal names without a sub-device are signals of the site.
 */
export function servesSite(device: DeviceRow): boolean {
  return device.type === 'GATEWAY' || device.type === 'CONTROLLER';
}

/** A sub-device is in fault if its linked device reports ERROR or its signal `fault` is not 0 [C-7.4]. */
export function isInFault(
  subDevice: SubDevice,
  device: (id: string) => DeviceRow | undefined,
  faultSignal: number | undefined,
): boolean {
  const linked = subDevice.linkedDeviceId ? device(subDevice.linkedDeviceId) : undefined;
  return linked?.reported_status === 'ERROR' || (faultSignal ?? 0) !== 0;
}

function compareDescending(left: readonly number[], right: readonly number[]): number {
  for (const [index, value] of left.entries()) {
    const difference = (right[index] ?? 0) - value;
    if (difference !== 0) return difference;
  }
  return 0;
}

/** What the bare signal names of a device mean. */
export function originOf(deviceId: string, devices: Devices, registry: PlantCopy): SignalOrigin {
  const isLinked = ({ linkedDeviceId }: SubDevice) => linkedDeviceId === deviceId;
  const device = devices.find(deviceId);
  return {
    deviceId,
    servesSite: device !== undefined && servesSite(device),
    subDeviceId: registry.subDevices.find(isLinked)?.externalId,
  };
}
