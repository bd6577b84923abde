/** Devices as REST makes them for a team: registered, provisioned, and let in through the door. */
import { vi } from 'vitest';
import type {
  DeviceDiagnostics,
  DeviceRecord,
  ProvisioningPackage,
} from '../../../protocol/device-record.ts';
import type { DeviceStatus } from '../../../protocol/enums.ts';
import type { DeviceLinkDown, DeviceLinkUp } from '../../../protocol/link/device.ts';
import { dialMqtt } from './door.ts';
import { type DeviceTestLink, openLink } from './links.ts';
import { createTeam, type Person, type Team } from './people.ts';
import { START_MS } from './site-clock.ts';
import type { DeviceCredential } from './site-devices.ts';

/** A device that has its credentials. */
export interface TokenDevice extends DeviceCredential {
  token: string;
  /** The id of the object that serves it. */
  siteId: string;
}

/** What a registration says, but for what is changed: a GATEWAY with a token, a serial number that no other has. */
export function registration(fields: object = {}): Record<string, unknown> {
  const serialNumber = crypto.randomUUID();
  return { name: 'Device', serialNumber, type: 'GATEWAY', authMethod: 'TOKEN', ...fields };
}

export async function postDevice(person: Person, fields: object = {}): Promise<DeviceRecord> {
  return await person.read('/devices', { method: 'POST', body: registration(fields) }, 201);
}

/** `POST /devices/{id}/{operation}`. */
export function operate(person: Person, id: string, operation: string, body?: unknown): Promise<Response> {
  return person.call(`/devices/${id}/${operation}`, { method: 'POST', body });
}

export async function provision(
  { admin }: Team,
  id: string,
  body: object = {},
): Promise<ProvisioningPackage> {
  return await admin.read(`/devices/${id}/provision`, { method: 'POST', body });
}

/** An ACTIVE device with a token, and its secret. */
export async function newTokenDevice(team: Team, fields: object = {}): Promise<TokenDevice> {
  const { id, plantId } = await postDevice(team.operator, fields);
  const { security } = await provision(team, id);
  const { hmacSecret, mqttToken = '' } = security;
  return { id, hmacSecret, token: mqttToken, siteId: plantId ?? id };
}

/** A device of that status. */
export async function newDeviceIn(team: Team, status: DeviceStatus, fields: object = {}): Promise<string> {
  const { id } = await postDevice(team.operator, fields);
  if (status !== 'PENDING') await provision(team, id);
  if (status === 'SUSPENDED') await operate(team.admin, id, 'suspend');
  if (status === 'DECOMMISSIONED') await operate(team.admin, id, 'revoke');
  return id;
}

export async function readDevice({ viewer }: Team, id: string): Promise<DeviceRecord> {
  return await viewer.read(`/devices/${id}`);
}

export async function diagnosticsOf({ admin }: Team, id: string): Promise<DeviceDiagnostics> {
  return await admin.read(`/devices/${id}/diagnostics`);
}

/** Its link, by way of the door. */
export async function connect(
  { id, token }: Pick<TokenDevice, 'id' | 'token'>,
  options: Parameters<typeof dialMqtt>[2] = {},
): Promise<DeviceTestLink> {
  return openLink<DeviceLinkUp, DeviceLinkDown>(await dialMqtt(id, token, options));
}

/** A team whose members logged in when the clock of a file that holds it begins. */
export async function createTeamAtStart(): Promise<Team> {
  vi.useFakeTimers({ toFake: ['Date'], now: START_MS });
  const team = await createTeam();
  vi.useRealTimers();
  return team;
}
