/** Meter state and meter readings (spec: Meter state; [C-4.1], [C-4.6]). */
import * as z from 'zod';
import { REGISTERS, type RegisterName } from './asset.ts';
import { METER_ROLES, READING_QUALITIES } from './enums.ts';
import { LIMIT } from './limits.ts';

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

/** The values from which registers count on, kWh: `value` as the meter shows it, `totalKwh` as the plant has counted it. */
const exchangedRegister = z.strictObject({
  value: z.number().min(0).max(LIMIT.signalMagnitude),
  totalKwh: z.number().min(0).max(LIMIT.signalMagnitude),
});

/** A meter was exchanged, or its total is set. */
export const meterExchangeRequest = z.strictObject({
  registers: z
    .partialRecord(z.enum(REGISTERS as [RegisterName, ...RegisterName[]]), exchangedRegister)
    .refine((registers) => Object.keys(registers).length > 0, 'must have at least one register'),
});
export type MeterExchangeRequest = z.infer<typeof meterExchangeRequest>;

export const meterExchange = meterExchangeRequest.extend({ deviceId: z.string(), exchangedAt: z.string() });

/** `refused`: the register whose total would fall, and that total, kWh. */
export type MeterExchangeAnswer = { exchangedAt: string } | { refused: string; totalKwh: number };

export const meterState = z.strictObject({
  siteId: z.string(),
  eanCons: z.string().nullable(),
  eanProd: z.string().nullable(),
  reading: meterReading.nullable(),
});
