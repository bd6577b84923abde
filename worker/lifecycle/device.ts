/**
 * The life of a device (spec: Device lifecycle; [C-3.3]). Changes of status and secret take effect first in
 * the device's Site, which also writes them to D1 and retries until D1 has them. D1 has the expiry of a new token
 * and the fingerprint of a new certificate before a client receives them.
 */
import type { SiteStub } from '../../durable-objects/env.ts';
import { signDeviceToken } from '../../durable-objects/secrets/device-tokens.ts';
import type { ProvisioningPackage } from '../../protocol/device-record.ts';
import { LIMIT } from '../../protocol/limits.ts';
import {
  type CredentialColumns,
  claimProvisioning,
  finishProvisioning,
  noteCredentials,
  releaseClaim,
  replaceCertificate,
} from '../../registry/device-credentials.ts';
import { type DeviceRow, findDevice } from '../../registry/devices.ts';
import type { AuditEntry } from '../../registry/entries.ts';
import { writeRegistry } from '../../registry/writes.ts';
import type { Env } from '../env.ts';
import { pastFence } from './backup.ts';
import { type IssuedCertificate, issueCertificate } from './device-certificate.ts';
import { packageOf } from './device-package.ts';
import { siteIdOf, siteOf } from './device-site.ts';

/** Provisions a device, once. Undefined if it is provisioned, moving or deleted, or another request provisions it. */
export async function provisionDevice(
  env: Env,
  device: DeviceRow,
  csr: string | undefined,
  audit: AuditEntry,
  now: number,
): Promise<ProvisioningPackage | undefined> {
  const { id, organizationId, plantId, type, authMethod } = device;
  // Checks the request completely before anything is written.
  const proof =
    authMethod === 'TOKEN'
      ? { token: await signDeviceToken(env.TOKEN_KEYS, id, LIMIT.mqttTokenSeconds, now) }
      : { certificate: await certify(env, id, csr, now) };
  const claim = await claimProvisioning(env.DB, device, now);
  if (claim === undefined) return undefined;
  try {
    const hmacSecret = newSecret();
    const siteId = siteIdOf(device);
    await siteOf(env, device).adoptDevice({
      siteId,
      plantId,
      deviceId: id,
      type,
      hmacSecret,
      version: claim,
    });
    const credentials: CredentialColumns = {
      tokenExpiresAtMs: proof.token?.expiresAtMs ?? null,
      certificateFingerprint: proof.certificate?.fingerprint ?? null,
      certificateExpiresAtMs: proof.certificate?.expiresAtMs ?? null,
    };
    const done = await finishProvisioning(env.DB, { id, organizationId, claim }, credentials, audit, now);
    // The device was deleted in the meantime: delete it from its Site, too.
    if (!done && !(await findDevice(env.DB, organizationId, id))) await siteOf(env, device).forgetDevice(id);
    return done && packageOf(env, id, authMethod, hmacSecret, proof);
  } catch (error) {
    // If the release fails, the claim expires.
    await releaseClaim(env.DB, device, claim).catch(() => {});
    throw error;
  }
}

/** Calls the Site that serves a device for a change that must not wait, not even for a backup. */
async function atSite<Answer>(
  env: Env,
  device: DeviceRow,
  call: (site: SiteStub) => Promise<Answer>,
): Promise<Answer> {
  return await pastFence(env, { object: 'plant', id: siteIdOf(device) }, () => call(siteOf(env, device)));
}

/** Deletes a device from its Site and ends its session. */
export async function forgetDevice(env: Env, device: DeviceRow): Promise<void> {
  await atSite(env, device, (site) => site.forgetDevice(device.id));
}

/** Returns false if the device's state does not allow it any more, for example after a concurrent revocation. */
export async function setDeviceStatus(
  env: Env,
  device: DeviceRow,
  status: 'ACTIVE' | 'SUSPENDED' | 'DECOMMISSIONED',
  reason: string | null,
  audit: AuditEntry,
): Promise<boolean> {
  const affected = await atSite(env, device, (site) =>
    site.setDeviceStatus(device.id, status, reason, audit),
  );
  if (!affected) return false;
  // The Site writes the same to D1 with retries. Writing it here makes it visible to the next request.
  await writeRegistry(env.DB, affected);
  return true;
}

/** Returns the new secret; undefined if the device is no longer ACTIVE. */
export async function rotateSecret(
  env: Env,
  device: DeviceRow,
  endOthers: boolean,
  audit: AuditEntry,
): Promise<{ hmacSecret: string; graceUntilMs: number | null; rotatedAtMs: number } | undefined> {
  const hmacSecret = newSecret();
  const rotated = await atSite(env, device, (site) =>
    site.rotateSecret(device.id, hmacSecret, audit, endOthers),
  );
  if (!rotated) return undefined;
  const { writes, graceUntilMs, rotatedAtMs } = rotated;
  await writeRegistry(env.DB, writes);
  return { hmacSecret, graceUntilMs, rotatedAtMs };
}

/** Issues a token; with `endOthers` all others end first. Undefined if the device is no longer ACTIVE. */
export async function issueToken(
  env: Env,
  device: DeviceRow,
  { lifetimeSeconds, endOthers }: { lifetimeSeconds: number; endOthers: boolean },
  audit: AuditEntry | undefined,
  now: number,
): Promise<{ token: string; expiresAtMs: number } | undefined> {
  const notBeforeMs = endOthers ? await atSite(env, device, (site) => site.endTokens(device.id)) : 0;
  if (notBeforeMs === undefined) return undefined;
  // The clocks of the edge and of the device's object may differ a little.
  const issuedAtMs = Math.max(now, notBeforeMs);
  const issued = await signDeviceToken(env.TOKEN_KEYS, device.id, lifetimeSeconds, issuedAtMs);
  const noted = await noteCredentials(env.DB, device, { tokenExpiresAtMs: issued.expiresAtMs }, audit, now);
  return noted && issued;
}

/** Issues a new certificate; the old one has a grace period. Undefined if the device is no longer ACTIVE. */
export async function reissueCertificate(
  env: Env,
  device: DeviceRow,
  csr: string | undefined,
  audit: AuditEntry,
  now: number,
): Promise<{ issued: IssuedCertificate; previousUntilMs: number | null } | undefined> {
  const issued = await certify(env, device.id, csr, now);
  const graceUntilMs = now + LIMIT.certificateGraceMs;
  const noted = await replaceCertificate(env.DB, device, issued, graceUntilMs, audit, now);
  if (!noted) return undefined;
  const { previousUntilMs } = noted;
  // A session that was opened with the previous certificate ends when that expires.
  if (previousUntilMs !== null) await siteOf(env, device).endSessionBy(device.id, previousUntilMs);
  return { issued, previousUntilMs };
}

async function certify(env: Env, deviceId: string, csr: string | undefined, now: number) {
  const authority = { certificate: env.DEVICE_CA_CERTIFICATE ?? '', key: env.DEVICE_CA_KEY ?? '' };
  return await issueCertificate(authority, deviceId, csr, now);
}

/** 64 hex characters. */
function newSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
