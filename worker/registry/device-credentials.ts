/** What lets a device in, as far as the registry knows: who provisions it, and when its credentials end [C-3.3]. */
import { and, eq, isNull, lt, or, type SQL, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { auditRowIfChanged } from '../../durable-objects/registry/audit-events.ts';
import type { AuditEntry } from '../../durable-objects/registry/entries.ts';
import { devices } from '../../migrations/schema.ts';
import { runBatch, type Statement } from './batch.ts';
import type { DeviceRow } from './devices.ts';

/** Whoever provisions a device has it for so long. */
const CLAIM_MS = 60_000;

/** Of a device that nobody is provisioning. */
export function isUnclaimed(now: number) {
  return or(isNull(devices.provisioningAtMs), lt(devices.provisioningAtMs, now - CLAIM_MS));
}

/** The claim to provision a device, which lapses; undefined when it is not PENDING, or somebody has it. */
export async function claimProvisioning(
  database: D1Database,
  id: string,
  now: number,
): Promise<number | undefined> {
  const claimed = await drizzle(database)
    .update(devices)
    .set({ provisioningAtMs: now })
    .where(and(eq(devices.id, id), eq(devices.status, 'PENDING'), isNull(devices.movingTo), isUnclaimed(now)))
    .returning({ claim: devices.provisioningAtMs });
  return claimed[0]?.claim ?? undefined;
}

/** Given up: anybody may claim it. */
export async function releaseClaim(database: D1Database, id: string, claim: number): Promise<void> {
  await drizzle(database)
    .update(devices)
    .set({ provisioningAtMs: null })
    .where(and(eq(devices.id, id), eq(devices.provisioningAtMs, claim)));
}

type CredentialName =
  | 'tokenExpiresAtMs'
  | 'certificateFingerprint'
  | 'certificateExpiresAtMs'
  | 'previousFingerprint'
  | 'previousUntilMs';

/** As text of SQL: by what the row says as it is written. */
export type CredentialColumns = { [Name in CredentialName]?: DeviceRow[Name] | SQL };

/** PENDING → ACTIVE, for whoever holds the claim. */
export async function finishProvisioning(
  database: D1Database,
  { id, claim }: { id: string; claim: number },
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
      .where(and(eq(devices.id, id), eq(devices.provisioningAtMs, claim), eq(devices.status, 'PENDING')))
      .returning(),
    auditRowIfChanged(db, audit, now),
  ])) as [DeviceRow[]];
  return rows[0];
}

/** Of a device that is ACTIVE; undefined when it is not any more. */
export async function noteCredentials(
  database: D1Database,
  id: string,
  credentials: CredentialColumns,
  audit: AuditEntry | undefined,
  now: number,
): Promise<DeviceRow | undefined> {
  const db = drizzle(database);
  const statements: Statement[] = [
    db
      .update(devices)
      .set({ ...credentials, updatedAtMs: now })
      .where(and(eq(devices.id, id), eq(devices.status, 'ACTIVE')))
      .returning(),
  ];
  if (audit) statements.push(auditRowIfChanged(db, audit, now));
  const [rows] = (await runBatch(db, statements)) as [DeviceRow[]];
  return rows[0];
}

/** The certificate of before is good until its own end, and so long at most. */
export async function replaceCertificate(
  database: D1Database,
  id: string,
  { fingerprint, expiresAtMs }: { fingerprint: string; expiresAtMs: number },
  graceUntilMs: number,
  audit: AuditEntry,
  now: number,
): Promise<DeviceRow | undefined> {
  const columns: CredentialColumns = {
    certificateFingerprint: fingerprint,
    certificateExpiresAtMs: expiresAtMs,
    // Another may have been issued since the device was read: that one is the one of before.
    previousFingerprint: sql`${devices.certificateFingerprint}`,
    previousUntilMs: sql`min(${graceUntilMs}, ${devices.certificateExpiresAtMs})`,
  };
  return await noteCredentials(database, id, columns, audit, now);
}
