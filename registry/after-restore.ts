/**
 * What D1 must change after time travel has set it back [C-14.8]: sessions, mailed tokens and mails of that time end,
 * saved audit events are put back, and passwords and certificates that were replaced since are refused.
 */
import { and, eq, gt, isNotNull, isNull, lte, or, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import type { SavedEvent } from '../protocol/after-restore.ts';
import { parseInstant } from '../protocol/ids.ts';
import { brokenUnique, isAmong, runBatch } from './d1.ts';
import { insertIf } from './insert-if.ts';
import {
  accountTokens,
  apiKeys,
  auditEvents,
  devices,
  invitations,
  mails,
  organizations,
  sessions,
  subDevices,
  supportSessions,
  users,
} from './schema.ts';

/** Of one request, because each person whose sessions end is a call of an object. */
const SESSIONS_PER_STEP = 500;

/**
 * Ends up to SESSIONS_PER_STEP sessions, and every token and mail of `sinceMs` or before: a mailed token may have been
 * used or revoked after that time, and a mail was sent.
 */
export async function endAccess(database: D1Database, sinceMs: number, now: number) {
  const db = drizzle(database);
  const some = db.select({ id: sessions.id }).from(sessions).limit(SESSIONS_PER_STEP);
  const [ended, support, , , revoked] = await db.batch([
    db.delete(sessions).where(sql`${sessions.id} IN ${some}`).returning({ userId: sessions.userId }),
    db
      .update(supportSessions)
      .set({ expiresAtMs: now })
      .where(and(gt(supportSessions.expiresAtMs, now), lte(supportSessions.createdAtMs, sinceMs)))
      .returning({ id: supportSessions.id }),
    db.delete(accountTokens).where(lte(accountTokens.createdAtMs, sinceMs)),
    db.delete(mails).where(lte(mails.createdAtMs, sinceMs)),
    db
      .update(invitations)
      .set({ status: 'REVOKED' })
      .where(and(eq(invitations.status, 'PENDING'), lte(invitations.sentAtMs, sinceMs)))
      .returning({ email: invitations.email, organizationId: invitations.organizationId }),
  ]);
  return {
    sessions: ended.length,
    userIds: [...new Set(ended.map(({ userId }) => userId))],
    supportIds: support.map(({ id }) => id),
    invitations: revoked,
    isMore: ended.length === SESSIONS_PER_STEP,
  };
}

/**
 * Puts audit events back that D1 does not have, except those of organizations that it does not have either. Each says
 * that it was put back, because it was written by the operator and not by its actor.
 */
export async function putBack(database: D1Database, saved: readonly SavedEvent[]): Promise<number> {
  const db = drizzle(database);
  const results = await runBatch(
    db,
    saved.map(({ organizationId, event: { actor, target, createdAt, details, ...row } }) =>
      insertIf(
        db,
        auditEvents,
        {
          ...{ ...row, organizationId, details: { ...details, putBack: true } },
          ...{ actorType: actor.type, actor: actor.id },
          actorName: actor.type === 'USER' ? null : (actor.name ?? null),
          ...{ targetType: target?.type ?? '', target: target?.id ?? null },
          createdAtMs: parseInstant(createdAt) ?? 0,
        },
        organizationId === null
          ? sql`TRUE`
          : sql`EXISTS (SELECT 1 FROM ${organizations} WHERE ${organizations.id} = ${organizationId})`,
      )
        .onConflictDoNothing()
        .returning({ id: auditEvents.id }),
    ),
  );
  return results.flatMap((rows) => rows as unknown[]).length;
}

/** Raises the version of each organization past every one that an object may have. Returns how many there are. */
export async function raiseVersions(database: D1Database): Promise<number> {
  const raised = await drizzle(database)
    .update(organizations)
    .set({ registryVersion: sql`${organizations.registryVersion} + 1000000` });
  return raised.meta.changes;
}

/**
 * Removes the password of a user who has set another one at `atMs`, unless a later one is in D1. Returns whether the user
 * has none now.
 */
export async function removePassword(database: D1Database, userId: string, atMs: number): Promise<boolean> {
  const db = drizzle(database);
  const later = sql`EXISTS (SELECT 1 FROM ${auditEvents} WHERE ${auditEvents.actor} = ${userId}
    AND ${auditEvents.event} IN ('user.password_changed', 'user.password_reset') AND ${auditEvents.createdAtMs} > ${atMs})`;
  const isMeant = and(eq(users.id, userId), isNull(users.deletedAtMs));
  await db
    .update(users)
    .set({ passwordHash: null, tokenVersion: sql`${users.tokenVersion} + 1` })
    .where(and(isMeant, isNotNull(users.passwordHash), sql`NOT ${later}`));
  const without = await db
    .select({ id: users.id })
    .from(users)
    .where(and(isMeant, isNull(users.passwordHash)))
    .get();
  return without !== undefined;
}

/** The same for the certificates of a device. */
export async function removeCertificates(
  database: D1Database,
  { id, organizationId }: { id: string; organizationId: string },
  atMs: number,
): Promise<boolean> {
  const db = drizzle(database);
  const isMeant = and(eq(devices.id, id), eq(devices.organizationId, organizationId));
  const later = sql`EXISTS (SELECT 1 FROM ${auditEvents} WHERE ${auditEvents.organizationId} = ${devices.organizationId}
    AND ${auditEvents.event} = 'device.certificate_issued' AND ${auditEvents.target} = ${id}
    AND ${auditEvents.createdAtMs} > ${atMs})`;
  const { certificateFingerprint, previousFingerprint, usedFingerprint } = devices;
  const hasOne = or(
    isNotNull(certificateFingerprint),
    isNotNull(previousFingerprint),
    isNotNull(usedFingerprint),
  );
  await db
    .update(devices)
    .set({ certificateFingerprint: null, previousFingerprint: null, usedFingerprint: null })
    .where(and(isMeant, hasOne, sql`NOT ${later}`));
  const without = await db
    .select({ id: devices.id })
    .from(devices)
    .where(and(isMeant, isNull(certificateFingerprint)))
    .get();
  return without !== undefined;
}

/** Gives a user the address again that they have proved since. False if another account has it. */
export async function restoreEmail(database: D1Database, userId: string, email: string): Promise<boolean> {
  try {
    await drizzle(database)
      .update(users)
      .set({ email })
      .where(and(eq(users.id, userId), isNull(users.deletedAtMs)));
    return true;
  } catch (error) {
    if (brokenUnique(error) === 'users.email') return false;
    throw error;
  }
}

/** The plant of a sub-device. */
export async function plantOfSubDevice(database: D1Database, id: string): Promise<string | undefined> {
  const db = drizzle(database);
  const isMeant = eq(subDevices.id, id);
  return (await db.select({ plantId: subDevices.plantId }).from(subDevices).where(isMeant).get())?.plantId;
}

/** The devices of these plants, and these devices without a plant. */
export async function devicesOf(database: D1Database, siteIds: readonly string[]) {
  const { id, organizationId, plantId, status, statusAtMs, movingTo } = devices;
  return await drizzle(database)
    .select({ id, organizationId, plantId, status, statusAtMs, movingTo })
    .from(devices)
    .where(or(isAmong(plantId, siteIds), and(isAmong(id, siteIds), isNull(plantId))))
    .orderBy(id);
}

/** These API keys, if they are in use. */
export async function keysInUse(database: D1Database, ids: readonly string[]) {
  const { id, organizationId, name, keyPrefix } = apiKeys;
  return await drizzle(database)
    .select({ id, organizationId, name, keyPrefix })
    .from(apiKeys)
    .where(and(isAmong(id, ids), isNull(apiKeys.revokedAtMs)))
    .orderBy(id);
}

/** The version and suspension of these organizations. */
export async function organizationsAmong(database: D1Database, ids: readonly string[]) {
  const { id, slug, registryVersion, suspendedAtMs } = organizations;
  return await drizzle(database)
    .select({ id, slug, registryVersion, suspendedAtMs })
    .from(organizations)
    .where(and(isAmong(id, ids), isNull(organizations.deletedAtMs)));
}
