/** Plants and sub-devices as admins manage them ([C-2.1], [C-2.2]). The partners' view is in `plant.ts`. */
import * as z from 'zod';
import { ASSET_TYPES, METER_ROLES, PLANT_STATUSES, SUB_DEVICE_STATUSES } from './enums.ts';
import { EAN, EXTERNAL_PLANT_ID, isUuid, SUB_DEVICE_EXTERNAL_ID, uuid } from './ids.ts';
import { LIMIT } from './limits.ts';
import { displayName } from './user.ts';

const ean = z.string().regex(EAN, 'must be 18 digits').nullable();
/** The route checks the format with `isExternalPlantId`, because a wrong format has its own error code. */
const externalPlantId = z.string().nullable();
const timezone = z
  .string()
  .max(64)
  .refine(isTimezone, 'must be an IANA time zone, for example Europe/Prague');

export const plantRequest = z.strictObject({
  name: displayName,
  externalPlantId: externalPlantId.optional(),
  eanCons: ean.optional(),
  eanProd: ean.optional(),
  timezone: timezone.optional(),
});
export type PlantRequest = z.infer<typeof plantRequest>;

/** A PATCH: omitted fields stay unchanged, null deletes the value. */
export const plantChange = plantRequest.partial();
export type PlantChange = z.infer<typeof plantChange>;

export const plantRecord = z.strictObject({
  id: z.string(),
  organizationId: z.string(),
  name: z.string(),
  externalPlantId: z.string().nullable(),
  eanCons: z.string().nullable(),
  eanProd: z.string().nullable(),
  timezone: z.string(),
  status: z.enum(PLANT_STATUSES),
  createdAt: z.string(),
});
export type PlantRecord = z.infer<typeof plantRecord>;

/** An external id must not look like a UUID, because the `siteId` of an envelope may be either of them [C-7.1]. */
export function isExternalPlantId(text: string): boolean {
  return EXTERNAL_PLANT_ID.test(text) && !isUuid(text);
}

export function isSubDeviceExternalId(text: string): boolean {
  return SUB_DEVICE_EXTERNAL_ID.test(text);
}

const magnitude = z.number().min(0).max(LIMIT.constraintMagnitude).nullable();

/** The fields of a sub-device that may be changed. */
const changeable = {
  name: displayName,
  /** The MQTT device that serves only this sub-device. */
  linkedDeviceId: uuid.nullable(),
  ratedPowerKw: magnitude,
  capacityKwh: magnitude,
  meterRole: z.enum(METER_ROLES).nullable(),
  /** The device template of the same asset type [C-11.6]. */
  templateId: uuid.nullable(),
};

export const subDeviceRequest = z.strictObject({
  /** The route checks the format with `isSubDeviceExternalId`, because a wrong format has its own error code. */
  externalId: z.string(),
  assetType: z.enum(ASSET_TYPES),
  ...z.strictObject(changeable).partial().shape,
  name: displayName,
});
export type SubDeviceRequest = z.infer<typeof subDeviceRequest>;

export const subDeviceChange = z.strictObject(changeable).partial();
export type SubDeviceChange = z.infer<typeof subDeviceChange>;

export const subDeviceRecord = z.strictObject({
  id: z.string(),
  plantId: z.string(),
  externalId: z.string(),
  assetType: z.enum(ASSET_TYPES),
  name: z.string(),
  status: z.enum(SUB_DEVICE_STATUSES),
  linkedDeviceId: z.string().nullable(),
  ratedPowerKw: z.number().nullable(),
  capacityKwh: z.number().nullable(),
  meterRole: z.enum(METER_ROLES).nullable(),
  templateId: z.string().nullable(),
  createdAt: z.string(),
});
export type SubDeviceRecord = z.infer<typeof subDeviceRecord>;

/** `{id, deleted: true}` [C-3.2]. */
export const deletion = z.strictObject({ id: z.string(), deleted: z.literal(true) });

/** Accepts time zone names. Offsets such as +01:00 are valid for Intl, but are not IANA time zones. */
function isTimezone(text: string): boolean {
  if (!/^[A-Za-z]/.test(text)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: text });
    return true;
  } catch {
    return false;
  }
}
