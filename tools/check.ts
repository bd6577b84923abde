/**
 * `npm run sitewire -- admin check`: uses a deployment as a partner would, from the login of an admin to the end of a command,
 * and leaves nothing behind. For a test plant with a gateway that executes commands.
 */
import { ASSETS } from '../protocol/asset.ts';
import type { DeviceCommandType } from '../protocol/enums.ts';
import type { SubDeviceRecord } from '../protocol/plant-record.ts';
import { AdminClient, type Login } from './admin-client.ts';
import { Partner } from './partner.ts';
import type { SeededKey } from './seed.ts';

export interface CheckOptions {
  baseUrl: string;
  /** An ORG_ADMIN of the organization. */
  login: Login;
  organizationId: string;
  plantId: string;
  /** How long the command may take until it is COMPLETED. */
  timeoutMs: number;
  /** Called after each step. */
  done: (step: string, tookMs: number) => void;
}

const PARTNER_ID = 'synthetic-check';

/** Throws an error that names the step that failed. The key is revoked in any case. */
export async function check(options: CheckOptions): Promise<void> {
  const { baseUrl, login, organizationId, plantId, timeoutMs, done } = options;
  const step = async <Value>(name: string, work: () => Promise<Value>): Promise<Value> => {
    const beganMs = performance.now();
    const value = await work().catch((error: unknown) => {
      throw new Error(`${name}: ${(error as Error).message}`, { cause: error });
    });
    done(name, Math.round(performance.now() - beganMs));
    return value;
  };
  await step('the edge is ready', () => requireReady(baseUrl));
  const admin = await step('an admin logs in', () => AdminClient.enter(baseUrl, login));
  admin.organizationId = organizationId;
  try {
    const target = await step('the plant has an asset that obeys', () => stoppable(admin, plantId));
    await endLeftovers(admin);
    const key = await step('a key is created, and its connection tested', () => createKey(admin, plantId));
    try {
      const partner = await step('a partner connects', () => Partner.connect(key));
      try {
        await step('a signed command is COMPLETED', () => sendCommand(partner, plantId, target, timeoutMs));
      } finally {
        await partner.close();
      }
      await step('the key reads the site', () => requireSite(baseUrl, key.key, plantId));
    } finally {
      await step('the key is revoked', () => admin.call('DELETE', `/partner/api-keys/${key.id}`));
    }
    await step('the revoked key is refused', () => requireRefused(baseUrl, key.key));
  } finally {
    await admin.call('POST', '/auth/logout');
  }
}

async function requireReady(baseUrl: string): Promise<void> {
  const answer = await fetch(`${baseUrl}/readyz`);
  if (answer.status === 200) return;
  const { message = '' } = (await answer.json().catch(() => ({}))) as { message?: string };
  throw new Error(`/readyz answered ${answer.status}: ${message}`);
}

interface Target {
  deviceId: string;
  assetType: string;
  command: DeviceCommandType;
}

/** A command that stops an asset of the plant: a test plant can always execute it. */
async function stoppable(admin: AdminClient, plantId: string): Promise<Target> {
  const assets = await admin.list<SubDeviceRecord>(`/plants/${plantId}/sub-devices`);
  for (const { externalId, assetType } of assets) {
    const commands = Object.entries(ASSETS[assetType].commands);
    const stop = commands.find(([, rule]) => rule.isStop)?.[0] as DeviceCommandType | undefined;
    if (stop) return { deviceId: externalId, assetType, command: stop };
  }
  throw new Error('give the test plant a battery or a PV system');
}

/** Revokes the keys of earlier checks that were killed. */
async function endLeftovers(admin: AdminClient): Promise<void> {
  const keys = await admin.list<{ id: string; partnerId: string; isActive: boolean }>('/partner/api-keys');
  for (const { id, partnerId, isActive } of keys) {
    if (isActive && partnerId === PARTNER_ID) await admin.call('DELETE', `/partner/api-keys/${id}`);
  }
}

type CheckKey = SeededKey & Parameters<typeof Partner.connect>[0];

async function createKey(admin: AdminClient, plantId: string): Promise<CheckKey> {
  const { key, signingKey, apiKey, connectionBundle } = await admin.createKey({
    name: 'Synthetic check',
    partnerId: PARTNER_ID,
    scopes: ['vcp:connect', 'vcp:read', 'vcp:write:device-command'],
    allowedPlantIds: [plantId],
    // If the check is killed, the key ends by itself.
    expiresAt: new Date(Date.now() + 15 * 60_000).toISOString(),
  });
  if (!connectionBundle) throw new Error('the deployment has no AMQP listener');
  const { host, port, vhost, caCertificate } = connectionBundle.amqps;
  const { slug } = connectionBundle;
  return {
    id: apiKey.id,
    key,
    signingKey,
    host,
    port,
    vhost,
    slug,
    ...(caCertificate && { caText: caCertificate }),
  };
}

async function sendCommand(
  partner: Partner,
  plantId: string,
  target: Target,
  timeoutMs: number,
): Promise<void> {
  for (const queue of ['event.status', 'event.execution']) await partner.consume(queue);
  const { correlationId } = await partner.publish('device', plantId, { commands: [target] });
  const ended = await partner.waitFor(
    ({ correlationId: id, payload }) =>
      id === correlationId && ['COMPLETED', 'FAILED', 'REJECTED'].includes(String(payload.status)),
    timeoutMs,
  );
  if (ended.payload.status !== 'COMPLETED')
    throw new Error(
      `the command is ${ended.payload.status}: ${ended.payload.reason ?? ended.payload.message}`,
    );
}

async function requireSite(baseUrl: string, key: string, plantId: string): Promise<void> {
  const response = await fetch(`${baseUrl}/api/v1/vcp/sites`, { headers: { 'x-api-key': key } });
  const { plants = [] } = (await response.json()) as { plants?: { id: string; status: string }[] };
  const plant = plants.find(({ id }) => id === plantId);
  if (plants.length !== 1 || !plant)
    throw new Error(`GET /vcp/sites answered ${response.status} without only the plant`);
}

async function requireRefused(baseUrl: string, key: string): Promise<void> {
  const { status } = await fetch(`${baseUrl}/api/v1/vcp/sites`, { headers: { 'x-api-key': key } });
  if (status !== 401) throw new Error(`GET /vcp/sites answered ${status}, not 401`);
}
