/**
 * Meter readings: the register values of a plant's meters at a given time. A register counts if its last
 * value is less than a quarter of an hour old [C-4.5], [C-4.6]. Pure.
 */
import { ASSETS, REGISTERS, type RegisterName } from '../../../protocol/asset.ts';
import type { MeterRole, ReadingQuality } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { MeterEntry, MeterReading } from '../../../protocol/meter.ts';
import type { SubDevice } from '../../../registry/plant-copy.ts';

/** The last value of one register at a given time. */
export interface LastValue {
  /** The value of the register, kWh, as if it had never been reset or fallen. */
  total: number;
  /** The device's `ts`. */
  atMs: number;
  /** True if the total differs from the device's value because the register was reset or fell. */
  isComputed: boolean;
}

/** What a sub-device measures if it is a meter; null = it is not a meter [C-2.2]. */
export function roleOf({ meterRole, assetType }: SubDevice): MeterRole | null {
  return meterRole ?? ASSETS[assetType].meterRole;
}

/**
 * Null when no register is fresh enough. `lastValue` returns a register's last value up to `momentMs`, if any.
 */
export function meterReading(
  subDevices: readonly SubDevice[],
  lastValue: (metric: string) => LastValue | undefined,
  momentMs: number,
): MeterReading | null {
  const meters: MeterEntry[] = [];
  let quality: ReadingQuality = 'GOOD';
  let isAnyComputed = false;
  for (const subDevice of subDevices) {
    const { externalId } = subDevice;
    const role = roleOf(subDevice);
    if (!role) continue;
    const registers: Partial<Record<RegisterName, number>> = {};
    for (const register of REGISTERS) {
      const last = lastValue(`${externalId}/${register}`);
      if (!last) continue;
      const ageMs = momentMs - last.atMs;
      if (ageMs >= LIMIT.registerStaleMs) continue;
      if (ageMs >= LIMIT.registerGoodMs) quality = 'DEGRADED';
      isAnyComputed ||= last.isComputed;
      registers[register] = last.total;
    }
    if (Object.keys(registers).length > 0) meters.push({ deviceId: externalId, role, ...registers });
  }
  if (meters.length === 0) return null;
  const dataQuality = isAnyComputed ? 'ESTIMATED' : quality;
  return { readingAt: formatInstant(momentMs), meters, dataQuality };
}
