/**
 * A Vhost's copy of the registry: the plants and settings of its organization, and the webhooks of its key. The Vhost
 * finds the site of a command here. Stubs are created only for ids from this copy, because a stub with any other name
 * would create an object (rule 9).
 */
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import { organizations, plants, webhooks } from '../../migrations/schema.ts';
import { isUuid } from '../../protocol/ids.ts';
import { organizationSettings } from '../../protocol/organization.ts';
import type { EventKind } from '../../protocol/routing-keys.ts';
import type { RegistryCopy } from './copy.ts';

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
  /** Absent in copies of earlier code. */
  journalRetentionDays?: number;
  plants: { id: string; externalPlantId: string | null }[];
  /** Absent in copies of earlier code. */
  webhooks?: WebhookCopy[];
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

export async function readOrganization(
  database: D1Database,
  { organizationId, keyId }: { organizationId: string; keyId: string },
): Promise<OrganizationRecord> {
  const db = drizzle(database);
  const { id, url, types, siteIds, secretSealed, previousSealed, previousUntilMs } = webhooks;
  const { createdAtMs, statusAtMs } = webhooks;
  const sealed = { secretSealed, previousSealed, previousUntilMs };
  const webhookColumns = { id, url, types, siteIds, ...sealed, createdAtMs, statusAtMs };
  const [[organization], rows, ofKey] = await db.batch([
    db
      .select({
        settings: organizations.settings,
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
  ]);
  const settings = organizationSettings.parse(organization?.settings ?? {});
  const { requireSignedCommands, publishRatePerSecond, signatureHints, journalRetentionDays } = settings;
  const version = organization?.version ?? 0;
  const isSuspended = (organization?.suspendedAtMs ?? null) !== null;
  return {
    ...{ version, isSuspended, requireSignedCommands, publishRatePerSecond, signatureHints },
    journalRetentionDays,
    plants: rows,
    webhooks: ofKey,
  };
}
