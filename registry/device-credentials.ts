/** Device credentials in the registry: provisioning claim, fingerprints and expiry times [C-3.3]. */
import { and, eq, isNull, lt, or, type SQL, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { auditRowIfChanged } from './audit-events.ts';
import { runBatch, type Statement } from './d1.ts';
import type { DeviceRow } from './devices.ts';
import type { AuditEntry } from './entries.ts';
import { devices } from './schema.ts';

/** How long a claim to provision a device lasts. */
const CLAIM_MS = 60_000;

/** Condition: no request is provisioning the device. */
export function isUnclaimed(now: number) {
  return or(isNull(devices.provisioningAtMs), lt(devices.provisioningAtMs, now - CLAIM_MS));
}

type OwnDevice = Pick<DeviceRow, 'id' | 'organizationId'>;

function isDevice({ id, organizationId }: OwnDevice) {
  return and(eq(devices.id, id), eq(devices.organizationId, organizationId));
}

/** Claims a device to provision it. Undefined if it is not PENDING, is moving, or is claimed by another request. */
export async function claimProvisioning(
  database: D1Database,
  device: OwnDevice,
  now: number,
): Promise<number | undefined> {
  const claimed = await drizzle(database)
    .update(devices)
    .set({ provisioningAtMs: now })
    .where(and(isDevice(device), eq(devices.status, 'PENDING'), isNull(devices.movingTo), isUnclaimed(now)))
    .returning({ claim: devices.provisioningAtMs });
  return claimed[0]?.claim ?? undefined;
}

/** Releases a claim after a failure. */
export async function releaseClaim(database: D1Database, device: OwnDevice, claim: number): Promise<void> {
  await drizzle(database)
    .update(devices)
    .set({ provisioningAtMs: null })
    .where(and(isDevice(device), eq(devices.provisioningAtMs, claim)));
}

type CredentialName =
  | 'tokenExpiresAtMs'
  | 'certificateFingerprint'
  | 'certificateExpiresAtMs'
  | 'previousFingerprint'
  | 'previousUntilMs'
  | 'usedUntilMs';

/** New column values. An SQL value is computed from the row when it is written. */
export type CredentialColumns = { [Name in CredentialName]?: DeviceRow[Name] | SQL };

/** PENDING → ACTIVE, for the holder of the claim. Undefined if the claim or the device is gone. */
export async function finishProvisioning(
  database: D1Database,
  { claim, ...device }: OwnDevice & { claim: number },
  credentials: CredentialColumns,
  audit: AuditEntry,
  now: number,
): Promise<DeviceRow | undefined> {
  const db = drizzle(database);
  const [rows] = (await runBatch(db, [
    db
      .update(devices)
      .set({
        ...credentials,
        status: 'ACTIVE',
        statusAtMs: claim,
        provisionedAtMs: now,
        provisioningAtMs: null,
        updatedAtMs: now,
      })
      .where(and(isDevice(device), eq(devices.provisioningAtMs, claim), eq(devices.status, 'PENDING')))
      .returning(),
    auditRowIfChanged(db, audit, now),
  ])) as [DeviceRow[]];
  return rows[0];
}

/** Stores credentials of an ACTIVE device. Undefined if it is no longer ACTIVE. */
export async function noteCredentials(
  database: D1Database,
  device: OwnDevice,
  credentials: CredentialColumns,
  audit: AuditEntry | undefined,
  now: number,
): Promise<DeviceRow | undefined> {
  const db = drizzle(database);
  const statements: Statement[] = [
    db
      .update(devices)
      .set({ ...credentials, updatedAtMs: now })
      .where(and(isDevice(device), eq(devices.status, 'ACTIVE')))
      .returning(),
  ];
  if (audit) statements.push(auditRowIfChanged(db, audit, now));
  const [rows] = (await runBatch(db, statements)) as [DeviceRow[]];
  return rows[0];
}

/**
 * Replaces the certificate. The previous one is valid until it expires, but not after `graceUntilMs`; the one that the
 * device used last keeps the end that it got when it was replaced.
 */
export async function replaceCertificate(
  database: D1Database,
  device: OwnDevice,
  { fingerprint, expiresAtMs }: { fingerprint: string; expiresAtMs: number },
  graceUntilMs: number,
  audit: AuditEntry,
  now: number,
): Promise<DeviceRow | undefined> {
  // These values are computed when the row is written, because another certificate may have been issued since
  // the device was read.
  const untilMs = sql`min(${graceUntilMs}, ${devices.certificateExpiresAtMs})`;
  const isUsed = sql`${devices.usedFingerprint} = ${devices.certificateFingerprint}`;
  const columns: CredentialColumns = {
    certificateFingerprint: fingerprint,
    certificateExpiresAtMs: expiresAtMs,
    previousFingerprint: sql`${devices.certificateFingerprint}`,
    previousUntilMs: untilMs,
    usedUntilMs: sql`iif(${isUsed}, ${untilMs}, ${devices.usedUntilMs})`,
  };
  return await noteCredentials(database, device, columns, audit, now);
}

/** The device has connected with the certificate that has this fingerprint. */
export async function noteUsedCertificate(
  database: D1Database,
  deviceId: string,
  fingerprint: string,
): Promise<void> {
  const isPrevious = sql`${devices.previousFingerprint} = ${fingerprint}`;
  await drizzle(database)
    .update(devices)
    .set({
      usedFingerprint: fingerprint,
      usedUntilMs: sql`iif(${isPrevious}, ${devices.previousUntilMs}, NULL)`,
    })
    .where(and(eq(devices.id, deviceId), or(eq(devices.certificateFingerprint, fingerprint), isPrevious)));
}
