/**
 * The plant, device, device template or site of a request. One of another organization, and one that the key may not see, is
 * answered as not found [C-1.3], [C-4.2].
 */
import type { Context } from 'hono';
import type { SiteStub } from '../../durable-objects/env.ts';
import type { DeviceTemplateRecord } from '../../protocol/device-template.ts';
import type { AssetType } from '../../protocol/enums.ts';
import { findTemplate } from '../../registry/device-templates.ts';
import { type DeviceRow, findDevice } from '../../registry/devices.ts';
import { findPlant, isPlantOf, type PlantRow } from '../../registry/plants.ts';
import type { AppContext, Tenant } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { deviceAfterMove } from '../lifecycle/device-move.ts';
import { siteById } from '../lifecycle/device-site.ts';

/** Whether the caller may see the plant. A caller without allowedPlantIds sees all plants. */
export function maySee({ allowedPlantIds }: Pick<Tenant, 'allowedPlantIds'>, plantId: string): boolean {
  return allowedPlantIds?.includes(plantId) ?? true;
}

/** The object of a site. Throws SITE_NOT_FOUND if the caller may not see the site. */
export async function requireSite(c: Context<AppContext>, siteId: string): Promise<SiteStub> {
  const tenant = c.get('tenant');
  // The door has looked up the site that the path names together with the key.
  const isNamed = c.get('apiKey')?.namedPlantId === siteId;
  const isThere = isNamed || (await isPlantOf(c.env.DB, tenant.organizationId, siteId));
  if (!isThere || !maySee(tenant, siteId))
    throw new ApiError(
      'SITE_NOT_FOUND',
      'No site with this siteId is visible to the caller: list your sites',
    );
  return siteById(c.env, siteId);
}

export async function requirePlant(c: Context<AppContext>, plantId: string): Promise<PlantRow> {
  const tenant = c.get('tenant');
  const plant = await findPlant(c.env.DB, tenant.organizationId, plantId);
  if (!plant || !maySee(tenant, plantId)) throw plantNotFound();
  return plant;
}

export function plantNotFound(): ApiError {
  return new ApiError('PLANT_NOT_FOUND', 'No plant with this id is visible to you: list your plants');
}

export async function requireDevice(c: Context<AppContext>, id: string): Promise<DeviceRow> {
  const tenant = c.get('tenant');
  const device = await findDevice(c.env.DB, tenant.organizationId, id);
  // A device without a plant is not visible to a key that is limited to plants.
  if (!device || !maySee(tenant, device.plantId ?? '')) throw deviceNotFound();
  return device;
}

/** As `requireDevice`, but finishes an interrupted move first, so that the device is in the Site that D1 names. */
export async function requireDeviceAfterMove(c: Context<AppContext>, id: string): Promise<DeviceRow> {
  return await deviceAfterMove(c.env, await requireDevice(c, id), Date.now());
}

export function deviceNotFound(): ApiError {
  return new ApiError('NOT_FOUND', 'No device with this id is visible to you: list your devices');
}

/** A template of the platform, or of the caller's organization. */
export async function requireTemplate(c: Context<AppContext>, id: string): Promise<DeviceTemplateRecord> {
  const template = await findTemplate(c.env.DB, c.get('tenant').organizationId, id);
  if (!template) throw templateNotFound();
  return template;
}

export function templateNotFound(): ApiError {
  return new ApiError(
    'DEVICE_TEMPLATE_NOT_FOUND',
    'No device template with this id is visible to you: list the device templates',
  );
}

/**
 * Throws unless the template is for this type of asset; null: no asset limits the type. `field`: the field of the
 * body that names the template, or the device that has it.
 */
export async function requireTemplateFor(
  c: Context<AppContext>,
  templateId: string | null | undefined,
  assetType: AssetType | null,
  field: 'templateId' | 'linkedDeviceId' = 'templateId',
): Promise<void> {
  if (templateId == null) return;
  const template = await requireTemplate(c, templateId);
  if (assetType === null || template.assetType === assetType) return;
  throw new ApiError(
    'DEVICE_TEMPLATE_WRONG_LEVEL',
    `${field}: its template is for the asset type ${template.assetType}, the asset has the type ${assetType}: use a template for ${assetType}`,
  );
}
