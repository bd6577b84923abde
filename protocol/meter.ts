/** Meter state and meter readings (spec: Meter state; [C-4.1], [C-4.6]). */
import * as z from 'zod';
import { REGISTERS, type RegisterName } from './asset.ts';
import { METER_ROLES, READING_QUALITIES } from './enums.ts';

/** Cumulative kWh. */
const register = z.number().optional();

export const meterEntry = z.strictObject({
  deviceId: z.string(),
  role: z.enum(METER_ROLES),
  ...(Object.fromEntries(REGISTERS.map((name) => [name, register])) as Record<RegisterName, typeof register>),
});
export type MeterEntry = z.infer<typeof meterEntry>;

/** `readingAt`: the time for which the register values are valid. */
export const meterReading = z.strictObject({
  readingAt: z.string(),
  meters: z.array(meterEntry),
  dataQuality: z.enum(READING_QUALITIES),
});
export type MeterReading = z.infer<typeof meterReading>;

export const meterState = z.strictObject({
  siteId: z.string(),
  eanCons: z.string().nullable(),
  eanProd: z.string().nullable(),
  reading: meterReading.nullable(),
});
