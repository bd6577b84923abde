/** The simulated plant of the tests: a battery of 50 kW and 100 kWh, and 60 kW of PV. */
import type { PlantLimits } from '../../tools/simulator/plant.ts';

export const LIMITS: PlantLimits = {
  batteryPowerKw: 50,
  batteryCapacityKwh: 100,
  minSocPercent: 10,
  maxSocPercent: 95,
  pvPeakKw: 60,
  maxImportKw: 80,
  maxExportKw: 40,
};
