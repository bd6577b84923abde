/** Plants as partners see them (spec: Plant summary). */
import * as z from 'zod';
import { SITE_COMMANDS } from './asset.ts';
import { ASSET_TYPES, DEVICE_COMMAND_TYPES, PLANT_STATUSES, SUB_DEVICE_STATUSES } from './enums.ts';
import { EAN } from './ids.ts';

export const plantSubDevice = z.strictObject({
  /** The external identifier: the target in device commands. */
  deviceId: z.string(),
  assetType: z.enum(ASSET_TYPES),
  name: z.string(),
  status: z.enum(SUB_DEVICE_STATUSES),
});

export const plantSummary = z.strictObject({
  id: z.string(),
  name: z.string(),
  status: z.enum(PLANT_STATUSES),
  externalPlantId: z.string().nullable(),
  eanCons: z.string().regex(EAN).nullable(),
  eanProd: z.string().regex(EAN).nullable(),
  subDevices: z.array(plantSubDevice),
  supportedCommands: z.array(z.enum([...SITE_COMMANDS, ...DEVICE_COMMAND_TYPES])),
});
export type PlantSummary = z.infer<typeof plantSummary>;
