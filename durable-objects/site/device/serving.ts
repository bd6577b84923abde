/** Which device serves what [C-2.4]. Pure. */
import type { SubDevice } from '../../registry/plant-copy.ts';
import type { DeviceRow } from './rows.ts';

type IsLive = (deviceId: string) => boolean;

/** The plant's gateway: connected before not, then the last to have connected. */
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

/** A gateway's or controller's bare signal names are the site's own, and site-level commands go to it. */
export function servesSite(device: DeviceRow): boolean {
  return device.type === 'GATEWAY' || device.type === 'CONTROLLER';
}

/** The linked device's ERROR, or a signal `fault` that is not 0, is a fault of the sub-device [C-7.4]. */
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
