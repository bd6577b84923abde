/** The platform's own device templates [C-11.6], one per asset type, generated from the table of asset types. */
import { ASSETS, deviceCommandRule, type SUB_DEVICE_SIGNALS } from './asset.ts';
import type {
  DeviceTemplateRecord,
  TemplateAction,
  TemplateParam,
  TemplateSignal,
} from './device-template.ts';
import { ASSET_TYPES, type AssetType, type DeviceCommandType } from './enums.ts';
import { LIMIT } from './limits.ts';

/** Their ids are the same in every deployment, so that programs can contain them. */
const IDS: Record<AssetType, string> = {
  BESS: '5f7e0000-0000-4000-8000-000000000001',
  FVE: '5f7e0000-0000-4000-8000-000000000002',
  METER: '5f7e0000-0000-4000-8000-000000000003',
  HEAT_PUMP: '5f7e0000-0000-4000-8000-000000000004',
  EV_CHARGER: '5f7e0000-0000-4000-8000-000000000005',
  THERMOSTAT: '5f7e0000-0000-4000-8000-000000000006',
  INVERTER: '5f7e0000-0000-4000-8000-000000000007',
  GENERIC: '5f7e0000-0000-4000-8000-000000000008',
};

const NAMES: Record<AssetType, string> = {
  BESS: 'Battery storage',
  FVE: 'PV system',
  METER: 'Meter',
  HEAT_PUMP: 'Heat pump',
  EV_CHARGER: 'EV charger',
  THERMOSTAT: 'Thermostat',
  INVERTER: 'Inverter',
  GENERIC: 'Other device',
};

const register = (label: string): Omit<TemplateSignal, 'name'> => ({
  label,
  unit: 'kWh',
  kind: 'REGISTER',
  min: 0,
});

const SIGNALS: Record<(typeof SUB_DEVICE_SIGNALS)[number], Omit<TemplateSignal, 'name'>> = {
  powerKw: { label: 'Power', unit: 'kW', kind: 'GAUGE' },
  availableCapacityKwh: { label: 'Stored energy', unit: 'kWh', kind: 'GAUGE', min: 0 },
  regulationPercent: { label: 'Regulation', unit: '%', kind: 'GAUGE', min: 0, max: 100 },
  socPercent: { label: 'State of charge', unit: '%', kind: 'GAUGE', min: 0, max: 100 },
  temperatureCelsius: { label: 'Temperature', unit: '°C', kind: 'GAUGE' },
  // Without states: any value but 0 is a fault [C-3.13].
  fault: { label: 'Fault, 0 is none', unit: '', kind: 'STATE' },
  chargeRegisterKwh: register('Energy charged'),
  dischargeRegisterKwh: register('Energy discharged'),
  importRegisterKwh: register('Energy imported'),
  exportRegisterKwh: register('Energy exported'),
  productionRegisterKwh: register('Energy produced'),
  consumptionRegisterKwh: register('Energy consumed'),
};

const PARAMS: Record<'powerKw' | 'percent' | 'respectLimits', TemplateParam> = {
  powerKw: { type: 'number', unit: 'kW', min: 0, max: LIMIT.commandMagnitude },
  percent: { type: 'number', unit: '%', min: 0, max: 100 },
  respectLimits: { type: 'boolean' },
};

export const SYSTEM_TEMPLATES: readonly DeviceTemplateRecord[] = ASSET_TYPES.map((assetType) => ({
  id: IDS[assetType],
  level: 'SYSTEM',
  name: NAMES[assetType],
  assetType,
  manufacturer: null,
  model: null,
  signals: ASSETS[assetType].signals.map((name) => ({ name, ...SIGNALS[name] })),
  actions: (Object.keys(ASSETS[assetType].commands) as DeviceCommandType[]).map(actionOf),
  createdAt: null,
  updatedAt: null,
}));

/** The system template with this id; undefined if no system template has it. */
export function systemTemplate(id: string): DeviceTemplateRecord | undefined {
  return SYSTEM_TEMPLATES.find((one) => one.id === id);
}

export function systemTemplateId(assetType: AssetType): string {
  return IDS[assetType];
}

/** `params` are those of a partner's device command (spec: Command payloads). */
function actionOf(action: DeviceCommandType): TemplateAction {
  const { required } = deviceCommandRule(action);
  const words = action
    .slice(action.indexOf('_') + 1)
    .toLowerCase()
    .replaceAll('_', ' ');
  const params = Object.entries(PARAMS).map(([name, param]): [string, TemplateParam] => [
    name,
    name === required ? { ...param, required: true } : param,
  ]);
  return {
    action,
    label: words.slice(0, 1).toUpperCase() + words.slice(1),
    params: Object.fromEntries(params),
  };
}
