/** Devices as the bridge connects them: through the Worker, with a token. */
import type { DeviceLinkDown, DeviceLinkUp } from '../../../protocol/link/device.ts';
import { dialMqtt } from './door.ts';
import { type DeviceTestLink, openLink } from './links.ts';
import { type DeviceCredential, subscribe } from './site-devices.ts';

/** A device that has its credentials. */
export interface TokenDevice extends DeviceCredential {
  token: string;
  /** The id of the object that serves it. */
  siteId: string;
}

/** The answer to a rotation of a device's secret. */
export interface Rotation {
  deviceId: string;
  hmacSecret: string;
  graceUntil: string;
  rotatedAt: string;
}

/** A request for a GATEWAY with a token and a unique serial number, with other fields replaced. */
export function registration(fields: object = {}): Record<string, unknown> {
  const serialNumber = crypto.randomUUID();
  return { name: 'Device', serialNumber, type: 'GATEWAY', authMethod: 'TOKEN', ...fields };
}

/** Opens a link through the Worker. */
export async function connect(
  { id, token }: Pick<TokenDevice, 'id' | 'token'>,
  options: Parameters<typeof dialMqtt>[2] = {},
): Promise<DeviceTestLink> {
  return openLink<DeviceLinkUp, DeviceLinkDown>(await dialMqtt(id, token, options));
}

/** Opens a link through the Worker and subscribes it to the device's commands. */
export async function connectForCommands(device: TokenDevice): Promise<DeviceTestLink> {
  const link = await connect(device);
  await subscribe(link, device);
  return link;
}
