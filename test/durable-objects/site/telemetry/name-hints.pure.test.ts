/** Hints about signal names that are stored and used for nothing [C-3.8]. */
import { describe, expect, it } from 'vitest';
import { nameHints } from '../../../../durable-objects/site/telemetry/name-hints.ts';
import type { SignalOrigin } from '../../../../durable-objects/site/telemetry/snapshot.ts';

const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');
const DAY_MS = 24 * 3_600_000;
const GATEWAY: SignalOrigin = { deviceId: 'g', servesSite: true, subDeviceId: undefined };
const LINKED: SignalOrigin = { deviceId: 'd', servesSite: false, subDeviceId: 'BESS-1' };

function hintsFor(origin: SignalOrigin, metrics: readonly string[], receivedMs = NOW_MS): string[] {
  const samples = Object.fromEntries(metrics.map((metric) => [metric, { value: 1, atMs: 0, receivedMs }]));
  return nameHints(samples, origin, (id) => id === 'BESS-1', NOW_MS);
}

describe('the hints for a gateway', () => {
  it('list its names that belong to no sub-device, the first five with a count [C-3.8]', () => {
    expect(hintsFor(GATEWAY, ['BATT/powerKw', 'BESS-1/powerKw', 'gridPowerKw', 'note'])).toEqual([
      '1 name belongs to no sub-device: BATT/powerKw: register the sub-device, or correct the name',
    ]);
    const many = Array.from({ length: 7 }, (_none, index) => `X${index}/powerKw`);
    expect(hintsFor(GATEWAY, many)).toEqual([
      '7 names belong to no sub-device: X0/powerKw, X1/powerKw, X2/powerKw, X3/powerKw, X4/powerKw, and 2 more: register the sub-device, or correct the name',
    ]);
  });

  it('list standard names in another spelling, and no names of its own choice [C-3.13]', () => {
    expect(hintsFor(GATEWAY, ['BESS-1/PowerKw', 'BESS-1/cellVoltage'])).toEqual([
      '1 name is not in the standard spelling: BESS-1/PowerKw (powerKw): use the spelling in brackets',
    ]);
  });

  it('do not list what the device has not sent for a day, or what other devices sent as their own', () => {
    expect(hintsFor(GATEWAY, ['BATT/powerKw'], NOW_MS - DAY_MS)).toEqual([]);
    expect(hintsFor(GATEWAY, ['@d/BATT/powerKw', '@d/heat'])).toEqual([]);
  });

  it('cut a long name', () => {
    expect(hintsFor(GATEWAY, [`${'x'.repeat(100)}/powerKw`])[0]).toContain(
      `${'x'.repeat(80)}… (108 characters)`,
    );
  });
});

describe('the hints for a linked device', () => {
  it('list its names of other sub-devices, and none of its own or of the gateway [C-3.13]', () => {
    const metrics = ['@d/METER-1/powerKw', '@d/heat', 'BESS-1/powerKw', 'BATT/powerKw', '@e/BATT/powerKw'];
    expect(hintsFor(LINKED, metrics)).toEqual([
      '1 name is of other sub-devices: METER-1/powerKw: only a gateway or controller may report them',
    ]);
  });
});
