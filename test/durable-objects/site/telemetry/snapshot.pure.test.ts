/**
 * The latest value of every signal: the owner of a name, the order of values, and the data kept of a
 * sub-device.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import { type SignalOrigin, Snapshot } from '../../../../durable-objects/site/telemetry/snapshot.ts';

const T = Date.parse('2030-03-05T09:00:00.000Z');
const SIGNALS_PER_SITE = 2_000;
const UNKNOWN_PER_SITE = 500;
const SUB_DEVICES = ['BESS-1', 'BESS-10', 'FVE-1', 'METER-1', 'B'];
const isSubDevice = (externalId: string) => SUB_DEVICES.includes(externalId);

const GATEWAY: SignalOrigin = { deviceId: 'gateway-1', servesSite: true, subDeviceId: undefined };
const LINKED: SignalOrigin = { deviceId: 'inverter-1', servesSite: false, subDeviceId: 'BESS-1' };
const SENSOR: SignalOrigin = { deviceId: 'sensor-1', servesSite: false, subDeviceId: undefined };

/** The times of a message, by default received when it was made. */
const at = (ts: number, receivedMs = ts) => ({ ts, receivedMs });

/** A snapshot with these messages, all from a gateway. */
function snapshotOf(...messages: [atMs: number, data: Record<string, number>][]): Snapshot {
  const snapshot = new Snapshot(isSubDevice);
  for (const [atMs, data] of messages) snapshot.apply(GATEWAY, at(atMs), data);
  return snapshot;
}

/** The snapshot after it was stored and read back. */
function readBack(snapshot: Snapshot): Snapshot {
  return new Snapshot(isSubDevice, JSON.parse(JSON.stringify(snapshot)));
}

describe('a site whose sub-device is registered late', () => {
  it('keeps the earlier signals of that sub-device, in addition to the limit of unknown signals (rule 9)', () => {
    let isKnown = false;
    const snapshot = new Snapshot((externalId) => isKnown && externalId.startsWith('NEW-'));
    const names = Array.from({ length: UNKNOWN_PER_SITE / 2 }, (_none, index) => `NEW-${index}/powerKw`);
    for (const [index, name] of names.entries()) snapshot.apply(GATEWAY, at(T + index), { [name]: index });
    for (let index = 0; index < UNKNOWN_PER_SITE / 2; index++) {
      snapshot.apply(GATEWAY, at(T + 1_000 + index), { [`odd-${index}`]: index });
    }
    isKnown = true;
    snapshot.apply(GATEWAY, at(T + 5_000), { 'one-more': 1 });
    for (const [index, name] of names.entries()) expect(snapshot.get(name)?.value).toBe(index);
    expect(Object.keys(snapshot.toJSON())).toHaveLength(UNKNOWN_PER_SITE + 1);
  });
});

describe('a signal', () => {
  it.each<[string, SignalOrigin, string, string]>([
    ["a gateway's bare name is a signal of the site", GATEWAY, 'gridPowerKw', 'gridPowerKw'],
    [
      "a gateway's name with a slash is a signal of that sub-device",
      GATEWAY,
      'BESS-1/powerKw',
      'BESS-1/powerKw',
    ],
    ["a linked device's bare name is a signal of its sub-device", LINKED, 'powerKw', 'BESS-1/powerKw'],
    [
      "a linked device's full name of its sub-device is a signal of the sub-device",
      LINKED,
      'BESS-1/powerKw',
      'BESS-1/powerKw',
    ],
    ["any other device's bare name is a signal of that device", SENSOR, 'powerKw', '@sensor-1/powerKw'],
    [
      "a linked device's name for another sub-device is a signal of the device",
      LINKED,
      'FVE-1/powerKw',
      '@inverter-1/FVE-1/powerKw',
    ],
    [
      "a sensor's name for a sub-device is a signal of the sensor",
      SENSOR,
      'BESS-1/powerKw',
      '@sensor-1/BESS-1/powerKw',
    ],
  ])('%s [C-3.13]', (_what, origin, name, metric) => {
    const snapshot = new Snapshot(isSubDevice);
    snapshot.apply(origin, at(T), { [name]: 5 });
    expect(snapshot.toJSON()).toEqual({ [metric]: { value: 5, atMs: T, receivedMs: T } });
    expect(snapshot.get(metric)).toMatchObject({ value: 5, atMs: T });
  });

  it('never becomes a value of the site or of a sub-device if its sensor is not linked [C-3.13]', () => {
    const snapshot = new Snapshot(isSubDevice);
    snapshot.apply(SENSOR, at(T), { gridPowerKw: 1 });
    expect(snapshot.get('gridPowerKw')).toBeUndefined();
    expect(snapshot.lastSampleAtMs('sensor-1')).toBeUndefined();
  });

  it.each([
    ['a newer one replaces the first', T + 1, 2],
    ['one of the same moment, received later, replaces the first', T, 2],
    ['an older one does not replace the first', T - 1, 1],
  ])('has two values: %s [C-3.13]', (_what, atMs, expected) => {
    const snapshot = snapshotOf([T, { gridPowerKw: 1 }], [atMs, { gridPowerKw: 2 }]);
    expect(snapshot.get('gridPowerKw')).toMatchObject({ value: expected, atMs: Math.max(T, atMs) });
  });

  it('a message without a signal leaves its value unchanged [C-3.13]', () => {
    const snapshot = snapshotOf([T, { a: 1, b: 2 }], [T + 1, { b: 3 }]);
    expect(snapshot.toJSON()).toMatchObject({ a: { value: 1, atMs: T }, b: { value: 3, atMs: T + 1 } });
  });

  it.each(['__proto__', 'constructor', 'toString', '__proto__/powerKw', ' ', 'č/😀'])(
    'may have the name %j, and is read back under it [C-3.13]',
    (name) => {
      const data = JSON.parse(`{${JSON.stringify(name)}:5}`) as Record<string, number>;
      const snapshot = readBack(snapshotOf([T, data]));
      expect(snapshot.get(name)).toMatchObject({ value: 5, atMs: T });
      expect(snapshotOf([T, { a: 1 }]).get(name)).toBeUndefined();
      expect(Object.getPrototypeOf({})).toBe(Object.prototype);
    },
  );
});

describe('the number of signals', () => {
  const named = (count: number, nameOf: (index: number) => string) =>
    Object.fromEntries(Array.from({ length: count }, (_none, index) => [nameOf(index), index]));
  const applyNamed = (to: Snapshot, atMs: number, count: number, nameOf: (index: number) => string) =>
    to.apply(GATEWAY, at(atMs), named(count, nameOf));
  const names = (snapshot: Snapshot) => Object.keys(snapshot.toJSON());

  it('a site keeps at most 2 000 signals, from one message or many, those with the newest values [C-3.13]', () => {
    const snapshot = new Snapshot(() => true);
    applyNamed(snapshot, T, SIGNALS_PER_SITE, (index) => `D-${index}/powerKw`);
    snapshot.apply(GATEWAY, at(T + 1), { 'D-0/powerKw': 1 });
    applyNamed(snapshot, T + 2, 100, (index) => `E-${index}/powerKw`);
    expect(names(snapshot)).toHaveLength(SIGNALS_PER_SITE);
    expect(names(snapshot).filter((name) => name.startsWith('E-'))).toHaveLength(100);
    expect(snapshot.get('D-0/powerKw')).toMatchObject({ value: 1, atMs: T + 1 });
    const one = new Snapshot(() => true);
    applyNamed(one, T, 2_500, (index) => `D-${index}/powerKw`);
    expect(names(one)).toHaveLength(SIGNALS_PER_SITE);
  });

  it.each([
    ['an unknown bare name', (index: number) => `s-${index}`],
    ['an unknown name of a sub-device', (index: number) => `BESS-1/s-${index}`],
    ['the name of an unknown sub-device', (index: number) => `D-${index}/powerKw`],
    ['the name of another device', (index: number) => `@d/${index}`],
  ])(
    'a site keeps at most 500 signals with %s, those with the newest values, and all known signals [C-3.13]',
    (_what, nameOf) => {
      const snapshot = snapshotOf([T, { gridPowerKw: 1, 'BESS-1/powerKw': 2 }]);
      for (const state of ['as it came', 'read back']) {
        const current = state === 'read back' ? readBack(snapshot) : snapshot;
        for (let round = 0; round < 3; round++) {
          applyNamed(current, T + 1 + round, 400, (index) => nameOf(index + 400 * round));
        }
        expect(names(current), state).toHaveLength(UNKNOWN_PER_SITE + 2);
        expect(current.get(nameOf(1_199))?.atMs).toBe(T + 3);
        expect(current.get(nameOf(0))).toBeUndefined();
        expect([current.get('gridPowerKw')?.value, current.get('BESS-1/powerKw')?.value]).toEqual([1, 2]);
      }
    },
  );
});

describe('the last sample of a sub-device', () => {
  it('is its latest signal, from any sender [C-2.5]', () => {
    const snapshot = snapshotOf(
      [T, { 'BESS-1/powerKw': 1, 'FVE-1/powerKw': 1 }],
      [T + 1, { 'BESS-1/fault': 0 }],
    );
    snapshot.apply(LINKED, at(T + 2), { powerKw: 3 });
    snapshot.apply(GATEWAY, at(T + 3), { 'B/powerKw': 3 });
    expect(snapshot.lastSampleAtMs('BESS-1')).toBe(T + 2);
    expect(snapshot.lastSampleAtMs('FVE-1')).toBe(T);
    expect(snapshot.lastSampleAtMs('B')).toBe(T + 3);
    expect(snapshot.lastSampleAtMs('METER-1')).toBeUndefined();
  });

  it('ignores signals of the site, and of a sub-device whose id only begins with the same characters [C-2.5]', () => {
    const snapshot = snapshotOf([T, { gridPowerKw: 1, '/powerKw': 1 }], [T + 1, { 'BESS-10/powerKw': 1 }]);
    for (const id of ['gridPowerKw', '', 'BESS-1']) expect(snapshot.lastSampleAtMs(id)).toBeUndefined();
  });

  it('is read back as its latest signal, in any stored order [C-2.5]', () => {
    const samples = {
      'BESS-1/socPercent': { value: 1, atMs: T + 5 },
      'BESS-1/powerKw': { value: 1, atMs: T },
      'BESS-1/fault': { value: 0, atMs: T + 3 },
    };
    expect(new Snapshot(isSubDevice, samples).lastSampleAtMs('BESS-1')).toBe(T + 5);
  });
});

describe('a sub-device with late messages', () => {
  /** A reading, then one that was made earlier and received later. */
  const late = () => {
    const snapshot = new Snapshot(isSubDevice);
    snapshot.apply(GATEWAY, at(T, T), { 'BESS-1/powerKw': 1, 'FVE-1/powerKw': 1 });
    snapshot.apply(GATEWAY, at(T - 60_000, T + 60_000), { 'BESS-1/powerKw': 2 });
    snapshot.apply(GATEWAY, at(T - 60_000, T + 60_000), { 'FVE-1/fault': 0 });
    return snapshot;
  };

  it('a late message counts for the last sample by its receive time, and does not replace a newer value [C-2.5]', () => {
    expect(late().lastSampleAtMs('BESS-1')).toBe(T + 60_000);
    expect(late().lastSampleAtMs('FVE-1')).toBe(T + 60_000);
    expect(late().get('BESS-1/powerKw')?.value).toBe(1);
  });

  it.each(['BESS-1', 'FVE-1'])(
    'a late message still counts after a wake for the last sample of %s [C-2.5]',
    (id) => {
      expect(readBack(late()).lastSampleAtMs(id)).toBe(T + 60_000);
    },
  );
});

describe('a snapshot', () => {
  it('the time of a snapshot is that of its latest signal, and undefined if it is empty [C-4.1]', () => {
    expect(new Snapshot(isSubDevice).latestAtMs()).toBeUndefined();
    expect(snapshotOf([T + 5, { a: 1 }], [T, { b: 1 }]).latestAtMs()).toBe(T + 5);
  });

  it('is the same after it was stored and read back, and accepts more messages [C-4.1]', () => {
    const message = fc.tuple(
      fc.integer({ min: T, max: T + 9 }),
      fc.dictionary(fc.constantFrom('a', 'b', 'BESS-1/a', 'BESS-1/b', 'FVE-1/a'), fc.integer()),
    );
    forAll(fc.array(message), fc.array(message), (before, after) => {
      before.sort(([left], [right]) => left - right);
      const whole = snapshotOf(...before);
      const again = readBack(whole);
      for (const [atMs, data] of after) {
        whole.apply(GATEWAY, at(atMs + 9), data);
        again.apply(GATEWAY, at(atMs + 9), data);
      }
      expect(again.toJSON()).toEqual(whole.toJSON());
      expect(again.latestAtMs()).toBe(whole.latestAtMs());
      for (const id of ['BESS-1', 'FVE-1']) expect(again.lastSampleAtMs(id)).toBe(whole.lastSampleAtMs(id));
    });
  });
});
