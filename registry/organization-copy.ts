/**
 * A Vhost's copy of the registry: the plants and settings of its organization, and the webhooks of its key. The Vhost
 * finds the site of a command here. Stubs are created only for ids from this copy, because a stub with any other name
 * would create an object (rule 9).
 */
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { FRESH_MS, type RegistryCopy } from '../durable-objects/object/registry-copy.ts';
import type { Sight } from '../protocol/api-key-record.ts';
import { ceilingsOf } from '../protocol/ceilings.ts';
import { isUuid } from '../protocol/ids.ts';
import { organizationSettings } from '../protocol/organization.ts';
import type { EventKind } from '../protocol/routing-keys.ts';
import { apiKeys, organizations, plants, webhooks } from './schema.ts';

/** Minimum age of the copy before an unknown site triggers a new read. */
const RETRY_MS = 1_000;

/** A webhook of the Vhost's key [C-12.4]. */
export interface WebhookCopy {
  id: string;
  url: string;
  types: EventKind[];
  siteIds: string[] | null;
  /** Sealed for the purpose `webhook:<id>`. */
  secretSealed: string;
  previousSealed: string | null;
  previousUntilMs: number | null;
  createdAtMs: number;
  /** When the status in D1 changed. */
  statusAtMs: number;
}

export interface OrganizationRecord {
  version: number;
  /** The operator has suspended the organization: its keys are refused. */
  isSuspended: boolean;
  requireSignedCommands: boolean;
  publishRatePerSecond: number;
  signatureHints: boolean;
  journalRetentionDays: number;
  /** Whose commands the key reads [C-15.1]. */
  sees: Sight;
  plants: { id: string; externalPlantId: string | null }[];
  webhooks: WebhookCopy[];
  /** The ceilings of what webhooks post [C-15.3]. */
  webhookPosts: { organizationId: string; perMinute: number; hostPerMinute: number };
}

export type OrganizationCopy = RegistryCopy<OrganizationRecord>;

/**
 * Finds the site for an envelope's `siteId`; undefined if the site is unknown, belongs to another
 * organization or is not allowed for the key [C-7.1].
 */
export function findSite(
  organization: OrganizationRecord | undefined,
  allowedPlantIds: readonly string[] | null,
  siteId: string,
): string | undefined {
  const wanted = isUuid(siteId) ? siteId.toLowerCase() : undefined;
  const plant = organization?.plants.find((one) =>
    wanted ? one.id === wanted : one.externalPlantId === siteId,
  );
  if (!plant || (allowedPlantIds && !allowedPlantIds.includes(plant.id))) return undefined;
  return plant.id;
}

/**
 * The same after the copy was read again, if it is too old or does not have the site. Rejects if the registry does not
 * answer in time.
 */
export async function findSiteAgain(
  organization: OrganizationCopy,
  allowedPlantIds: readonly string[] | null,
  siteId: string,
): Promise<string | undefined> {
  const find = () => findSite(organization.record, allowedPlantIds, siteId);
  await organization.refresh(FRESH_MS);
  if (find() === undefined) await organization.refresh(RETRY_MS);
  return find();
}

export async function readOrganization(
  database: D1Database,
  { organizationId, keyId }: { organizationId: string; keyId: string },
): Promise<OrganizationRecord> {
  const db = drizzle(database);
  const { id, url, types, siteIds, secretSealed, previousSealed, previousUntilMs } = webhooks;
  const { createdAtMs, statusAtMs } = webhooks;
  const sealed = { secretSealed, previousSealed, previousUntilMs };
  const webhookColumns = { id, url, types, siteIds, ...sealed, createdAtMs, statusAtMs };
  const [[organization], rows, ofKey, [key]] = await db.batch([
    db
      .select({
        settings: organizations.settings,
        ceilings: organizations.ceilings,
        version: organizations.registryVersion,
        suspendedAtMs: organizations.suspendedAtMs,
      })
      .from(organizations)
      .where(eq(organizations.id, organizationId)),
    db
      .select({ id: plants.id, externalPlantId: plants.externalPlantId })
      .from(plants)
      .where(eq(plants.organizationId, organizationId)),
    db.select(webhookColumns).from(webhooks).where(eq(webhooks.keyId, keyId)).orderBy(webhooks.id),
    db.select({ sees: apiKeys.sees }).from(apiKeys).where(eq(apiKeys.id, keyId)),
  ]);
  const settings = organizationSettings.parse(organization?.settings ?? {});
  const { requireSignedCommands, publishRatePerSecond, signatureHints, journalRetentionDays } = settings;
  const { webhookPostsPerMinute: perMinute, webhookHostPostsPerMinute: hostPerMinute } = ceilingsOf(
    organization?.ceilings ?? {},
  );
  const version = organization?.version ?? 0;
  const isSuspended = (organization?.suspendedAtMs ?? null) !== null;
  return {
    ...{ version, isSuspended, requireSignedCommands, publishRatePerSecond, signatureHints },
    journalRetentionDays,
    sees: key?.sees ?? 'PARTNER',
    plants: rows,
    webhooks: ofKey,
    webhookPosts: { organizationId, perMinute, hostPerMinute },
  };
}
