/** Device templates in D1 [C-11.6]. Objects have no copy of them: only REST requests read them. */
import { and, asc, eq, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/d1';
import type {
  DeviceTemplateChange,
  DeviceTemplateRecord,
  DeviceTemplateRequest,
  TemplateLevel,
} from '../protocol/device-template.ts';
import type { AssetType } from '../protocol/enums.ts';
import { LIMIT } from '../protocol/limits.ts';
import type { FoundPage, PageRequest } from '../protocol/page.ts';
import { SYSTEM_TEMPLATES, systemTemplate, systemTemplateId } from '../protocol/system-template.ts';
import { auditRowIfChanged } from './audit-events.ts';
import { areFewer, brokeForeignKey, countOf, isAmong, withInstants } from './d1.ts';
import type { AuditEntry } from './entries.ts';
import { insertIf } from './insert-if.ts';
import { devices, deviceTemplates, subDevices } from './schema.ts';

type TemplateRow = typeof deviceTemplates.$inferSelect;

/** How the row of a device or sub-device refers to its template. */
export interface TemplateColumns {
  templateId: string | null;
  systemTemplate: AssetType | null;
}

/** The columns for a template's id; undefined, the field of a change that was omitted: none. */
export function templateColumns(id: string | null): TemplateColumns;
export function templateColumns(id: string | null | undefined): Partial<TemplateColumns>;
export function templateColumns(id: string | null | undefined): Partial<TemplateColumns> {
  if (id === undefined) return {};
  const system = id === null ? undefined : systemTemplate(id);
  return { templateId: system ? null : id, systemTemplate: system?.assetType ?? null };
}

/** The id of a row's template, as answers show it. */
export function templateIdOf({ templateId, systemTemplate }: TemplateColumns): string | null {
  return systemTemplate === null ? templateId : systemTemplateId(systemTemplate);
}

/** The platform's templates by asset type, then those of the organization by name. */
export async function pageTemplates(
  database: D1Database,
  organizationId: string,
  { level, assetType }: { level?: TemplateLevel | undefined; assetType?: AssetType | undefined },
  { page, limit }: PageRequest,
): Promise<FoundPage<DeviceTemplateRecord>> {
  const db = drizzle(database);
  const ofSystem = SYSTEM_TEMPLATES.filter(
    (one) => level !== 'ORGANIZATION' && (assetType === undefined || one.assetType === assetType),
  );
  const isMeant = and(
    eq(deviceTemplates.organizationId, organizationId),
    assetType === undefined ? undefined : eq(deviceTemplates.assetType, assetType),
    level === 'SYSTEM' ? sql`0` : undefined,
  );
  const start = (page - 1) * limit;
  const shown = ofSystem.slice(start, start + limit);
  const [rows, [counted]] = await db.batch([
    db
      .select()
      .from(deviceTemplates)
      .where(isMeant)
      .orderBy(asc(deviceTemplates.name), asc(deviceTemplates.id))
      .limit(limit - shown.length)
      .offset(Math.max(0, start - ofSystem.length)),
    countOf(db, deviceTemplates, isMeant),
  ]);
  return { rows: [...shown, ...rows.map(recordOf)], total: ofSystem.length + (counted?.total ?? 0) };
}

/** One of the platform's templates, or of the organization's. */
export async function findTemplate(
  database: D1Database,
  organizationId: string,
  id: string,
): Promise<DeviceTemplateRecord | undefined> {
  const system = systemTemplate(id);
  if (system) return system;
  const row = await drizzle(database).select().from(deviceTemplates).where(isOf(organizationId, id)).get();
  return row && recordOf(row);
}

/** `full`: the organization has reached its limit of templates. */
export async function createTemplate(
  database: D1Database,
  organizationId: string,
  { level: _own, ...request }: DeviceTemplateRequest,
  audit: (id: string) => AuditEntry,
  now: number,
): Promise<DeviceTemplateRecord | 'full'> {
  const db = drizzle(database);
  const row = { id: crypto.randomUUID(), organizationId, ...request, createdAtMs: now, updatedAtMs: now };
  const isOwn = eq(deviceTemplates.organizationId, organizationId);
  const hasRoom = areFewer(deviceTemplates, isOwn, LIMIT.templatesPerOrganization);
  const [made] = await db.batch([
    insertIf(db, deviceTemplates, row, hasRoom).returning({ id: deviceTemplates.id }),
    auditRowIfChanged(db, audit(row.id), now),
  ]);
  return made.length > 0 ? recordOf(row) : 'full';
}

export async function changeTemplate(
  database: D1Database,
  organizationId: string,
  id: string,
  change: DeviceTemplateChange,
  audit: AuditEntry,
  now: number,
): Promise<DeviceTemplateRecord | undefined> {
  const db = drizzle(database);
  const [[row]] = await db.batch([
    db
      .update(deviceTemplates)
      .set({ ...change, updatedAtMs: now })
      .where(isOf(organizationId, id))
      .returning(),
    auditRowIfChanged(db, audit, now),
  ]);
  return row && recordOf(row);
}

/** `used`: devices or sub-devices have the template. */
export async function deleteTemplate(
  database: D1Database,
  organizationId: string,
  id: string,
  audit: AuditEntry,
  now: number,
): Promise<'deleted' | 'gone' | 'used'> {
  const db = drizzle(database);
  try {
    const [deleted] = await db.batch([
      db.delete(deviceTemplates).where(isOf(organizationId, id)).returning({ id: deviceTemplates.id }),
      auditRowIfChanged(db, audit, now),
    ]);
    return deleted.length > 0 ? 'deleted' : 'gone';
  } catch (error) {
    if (brokeForeignKey(error)) return 'used';
    throw error;
  }
}

/** How many devices and sub-devices have the template. */
export async function usesOf(
  database: D1Database,
  id: string,
): Promise<{ devices: number; subDevices: number }> {
  const db = drizzle(database);
  const [[ofDevices], [ofSubDevices]] = await db.batch([
    countOf(db, devices, eq(devices.templateId, id)),
    countOf(db, subDevices, eq(subDevices.templateId, id)),
  ]);
  return { devices: ofDevices?.total ?? 0, subDevices: ofSubDevices?.total ?? 0 };
}

/** Whether a write that a foreign key rejected names a template that was deleted in the meantime. */
export async function lostTemplate(
  database: D1Database,
  { templateId }: { templateId?: string | null | undefined },
): Promise<boolean> {
  if (templateId == null || systemTemplate(templateId)) return false;
  return (await drizzle(database).$count(deviceTemplates, eq(deviceTemplates.id, templateId))) === 0;
}

/**
 * The template of a device; without one, that of the sub-device that is linked to it, if it is one of the organization.
 * The platform's templates have only actions that REST refuses: a device that inherited one could get no command.
 */
export async function templateOfDevice(
  database: D1Database,
  device: TemplateColumns & { id: string; organizationId: string },
): Promise<DeviceTemplateRecord | undefined> {
  const own = templateIdOf(device);
  if (own !== null) return await findTemplate(database, device.organizationId, own);
  const [linked] = await drizzle(database)
    .select({ templateId: subDevices.templateId })
    .from(subDevices)
    .where(eq(subDevices.linkedDeviceId, device.id));
  const id = linked?.templateId;
  return id ? await findTemplate(database, device.organizationId, id) : undefined;
}

/** The templates of a plant's sub-devices, by external id. */
export async function templatesOfPlant(
  database: D1Database,
  organizationId: string,
  plantId: string,
): Promise<Map<string, DeviceTemplateRecord>> {
  const db = drizzle(database);
  const assets = await db
    .select({
      externalId: subDevices.externalId,
      templateId: subDevices.templateId,
      systemTemplate: subDevices.systemTemplate,
    })
    .from(subDevices)
    .where(
      and(
        eq(subDevices.plantId, plantId),
        sql`coalesce(${subDevices.templateId}, ${subDevices.systemTemplate}) IS NOT NULL`,
      ),
    );
  const ids = [...new Set(assets.flatMap(({ templateId }) => templateId ?? []))];
  const rows =
    ids.length === 0
      ? []
      : await db
          .select()
          .from(deviceTemplates)
          .where(and(eq(deviceTemplates.organizationId, organizationId), isAmong(deviceTemplates.id, ids)));
  const templates = new Map([...SYSTEM_TEMPLATES, ...rows.map(recordOf)].map((one) => [one.id, one]));
  return new Map(
    assets.flatMap((asset): [string, DeviceTemplateRecord][] => {
      const template = templates.get(templateIdOf(asset) ?? '');
      return template ? [[asset.externalId, template]] : [];
    }),
  );
}

function isOf(organizationId: string, id: string) {
  return and(eq(deviceTemplates.id, id), eq(deviceTemplates.organizationId, organizationId));
}

function recordOf({ organizationId: _own, ...row }: TemplateRow): DeviceTemplateRecord {
  return { ...withInstants(row), level: 'ORGANIZATION' };
}
