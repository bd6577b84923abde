/** What a simulated gateway reports and executes for a device template [C-11.6]. */
import { describe, expect, it } from 'vitest';
import {
  type DeviceTemplateRecord,
  deviceTemplateRequest,
  signalFault,
} from '../../protocol/device-template.ts';
import { isTemplateAction, templateReadings } from '../../tools/simulator/template.ts';

const parsed = deviceTemplateRequest.parse({
  name: 'Boiler',
  assetType: 'GENERIC',
  signals: [
    { name: 'waterCelsius', label: 'Water', unit: '°C', kind: 'GAUGE', min: 20, max: 90 },
    { name: 'outsideCelsius', label: 'Outside', unit: '°C', kind: 'GAUGE', max: -5 },
    { name: 'heatRegisterKwh', label: 'Heat', unit: 'kWh', kind: 'REGISTER', min: 5 },
    {
      name: 'pump',
      label: 'Pump',
      unit: '',
      kind: 'STATE',
      states: [3, 7].map((value) => ({ value, label: `${value}` })),
    },
    { name: 'mode', label: 'Mode', unit: '', kind: 'STATE' },
  ],
  actions: [
    { action: 'HEAT', label: 'Heat', params: { minutes: { type: 'integer', min: 1, required: true } } },
  ],
});
const template: DeviceTemplateRecord = {
  ...parsed,
  id: 'ffffffff-ffff-4fff-8fff-ffffffffffff',
  createdAt: null,
  updatedAt: null,
};

describe('a simulated gateway with a device template', () => {
  it('reports each signal of it with a value that fits, all day long', () => {
    const start = Date.UTC(2026, 0, 15);
    const seen = new Map<string, Set<number>>();
    let register = 0;
    for (let atMs = start; atMs < start + 86_400_000; atMs += 61_000) {
      const readings = templateReadings([{ prefix: '', template }], atMs);
      expect(Object.keys(readings)).toEqual(parsed.signals.map(({ name }) => name));
      for (const signal of template.signals) {
        const value = readings[signal.name] ?? Number.NaN;
        expect([signal.name, value, signalFault(signal, value)]).toEqual([signal.name, value, undefined]);
        seen.set(signal.name, (seen.get(signal.name) ?? new Set()).add(value));
      }
      expect(readings.heatRegisterKwh).toBeGreaterThanOrEqual(register);
      register = readings.heatRegisterKwh ?? 0;
    }
    expect(seen.get('pump')).toEqual(new Set([3, 7]));
    expect(seen.get('waterCelsius')?.size).toBeGreaterThan(50);
  });

  it('reports the signals of a sub-device under its name', () => {
    const readings = templateReadings([{ prefix: 'BOILER-1/', template }], 0);
    expect(Object.keys(readings)[0]).toBe('BOILER-1/waterCelsius');
  });

  it('executes the actions of its own template with valid parameters, and no others', () => {
    const own = [{ prefix: '', template }];
    expect(isTemplateAction(own, { action: 'HEAT', payload: { minutes: 1 } })).toBe(true);
    expect(isTemplateAction(own, { action: 'HEAT', payload: { minutes: 0 } })).toBe(false);
    expect(isTemplateAction(own, { action: 'COOL', payload: {} })).toBe(false);
    expect(isTemplateAction([{ prefix: 'B/', template }], { action: 'HEAT', payload: { minutes: 1 } })).toBe(
      false,
    );
  });
});
