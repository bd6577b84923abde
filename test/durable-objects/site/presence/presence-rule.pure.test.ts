/** The rules of presence: each status at its limits, and the next change by time [C-2.5]. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import {
  isFallbackEngaged,
  NO_PRESENCE,
  type PresenceInput,
  presenceAt,
} from '../../../../durable-objects/site/presence/presence-rule.ts';
import { DEVICE_REPORTED_STATUSES, PLANT_STATUSES } from '../../../../protocol/enums.ts';

const NOW_MS = Date.parse('2030-03-05T09:00:00.000Z');
const FRESH_MS = 5 * 60_000;
const OFFLINE_MS = 15 * 60_000;
const GONE_MS = 90_000;

function input(changes: Partial<PresenceInput> = {}): PresenceInput {
  return {
    previous: NO_PRESENCE,
    connected: true,
    lastSessionEndMs: undefined,
    fallback: { afterMs: undefined, isActive: false },
    subDevices: [],
    devices: [],
    ...changes,
  };
}

/** A sub-device whose last sample has the given age. */
function subDevice(
  id: string,
  ageMs: number | undefined,
  inError = false,
): PresenceInput['subDevices'][number] {
  return { id, lastSampleAtMs: ageMs === undefined ? undefined : NOW_MS - ageMs, inError };
}

function was(plant: (typeof PLANT_STATUSES)[number]): PresenceInput['previous'] {
  return { plant, subDevices: {}, devices: {} };
}

describe('a sub-device', () => {
  it.each<[string, string, number | undefined, boolean, number | undefined]>([
    ['without a sample', 'UNKNOWN', undefined, false, undefined],
    ['without a sample, in error', 'UNKNOWN', undefined, true, undefined],
    ['with a sample from now', 'ONLINE', 0, false, NOW_MS + FRESH_MS],
    ['with a sample from now, in error', 'DEGRADED', 0, true, NOW_MS + FRESH_MS],
    ['silent for just less than 5 min', 'ONLINE', FRESH_MS - 1, false, NOW_MS + 1],
    ['silent for 5 min', 'DEGRADED', FRESH_MS, false, NOW_MS + OFFLINE_MS - FRESH_MS],
    ['silent for 5 min, in error', 'DEGRADED', FRESH_MS, true, NOW_MS + OFFLINE_MS - FRESH_MS],
    ['silent for just less than 15 min', 'DEGRADED', OFFLINE_MS - 1, false, NOW_MS + 1],
    ['silent for 15 min', 'OFFLINE', OFFLINE_MS, false, undefined],
    ['silent for 15 min, in error', 'OFFLINE', OFFLINE_MS, true, undefined],
    ['silent for a day', 'OFFLINE', 86_400_000, false, undefined],
  ])(
    '%s is %s, and the time of its next status change is returned [C-2.5]',
    (_what, expected, ageMs, inError, nextChangeMs) => {
      const { presence, nextChangeMs: next } = presenceAt(
        input({ subDevices: [subDevice('BESS-1', ageMs, inError)] }),
        NOW_MS,
      );
      expect(presence.subDevices).toEqual({ 'BESS-1': expected });
      expect(next).toBe(nextChangeMs);
    },
  );
});

describe('a plant', () => {
  const stale = subDevice('BESS-1', FRESH_MS);
  const silent = subDevice('BESS-1', OFFLINE_MS);

  it.each<[string, string, PresenceInput['subDevices']]>([
    ['without sub-devices', 'ONLINE', []],
    ['whose sub-devices send samples', 'ONLINE', [subDevice('BESS-1', 0), subDevice('FVE-1', 1)]],
    ['with a sub-device without a sample', 'ONLINE', [subDevice('BESS-1', 0), subDevice('FVE-1', undefined)]],
    ['with a sub-device silent for 5 min', 'DEGRADED', [subDevice('FVE-1', 0), stale]],
    ['with a sub-device silent for 15 min', 'DEGRADED', [subDevice('FVE-1', 0), silent]],
    ['with a sub-device in error', 'DEGRADED', [subDevice('FVE-1', 0), subDevice('BESS-1', 0, true)]],
  ])('a connected plant %s is %s, whatever its previous status [C-2.5]', (_what, expected, subDevices) => {
    for (const status of PLANT_STATUSES) {
      const { presence } = presenceAt(input({ previous: was(status), subDevices }), NOW_MS);
      expect(presence.plant).toBe(expected);
    }
  });

  it('a connected plant is ONLINE regardless of the end of an earlier session [C-2.5]', () => {
    expect(presenceAt(input({ lastSessionEndMs: NOW_MS - GONE_MS }), NOW_MS).presence.plant).toBe('ONLINE');
  });

  it('is PENDING if it never connected, whatever its sub-devices report [C-2.5]', () => {
    const never = input({ connected: false, subDevices: [stale] });
    expect(presenceAt(never, NOW_MS).presence.plant).toBe('PENDING');
  });

  it.each(PLANT_STATUSES)(
    'keeps, if it was %s, that status for 90 s after its last session, and is then OFFLINE [C-2.5]',
    (status) => {
      const away = (agoMs: number) =>
        presenceAt(
          input({ previous: was(status), connected: false, lastSessionEndMs: NOW_MS - agoMs }),
          NOW_MS,
        );
      expect(away(0)).toMatchObject({ presence: { plant: status }, nextChangeMs: NOW_MS + GONE_MS });
      expect(away(GONE_MS - 1)).toMatchObject({ presence: { plant: status }, nextChangeMs: NOW_MS + 1 });
      expect(away(GONE_MS)).toMatchObject({ presence: { plant: 'OFFLINE' }, nextChangeMs: undefined });
      expect(away(GONE_MS + 1)).toMatchObject({ presence: { plant: 'OFFLINE' }, nextChangeMs: undefined });
    },
  );
});

describe('a device', () => {
  const statusOf = (changes: Partial<PresenceInput['devices'][number]>) => {
    const one = { id: 'a', connected: true, everConnected: true, reported: null, ...changes };
    return presenceAt(input({ devices: [one] }), NOW_MS).presence.devices.a;
  };

  it.each([null, ...DEVICE_REPORTED_STATUSES])(
    'shows, if it reports %s, that while connected (null as ONLINE), OFFLINE later, and UNKNOWN before its first session [C-3.10]',
    (reported) => {
      expect(statusOf({ reported })).toBe(reported ?? 'ONLINE');
      expect(statusOf({ reported, connected: false })).toBe('OFFLINE');
      expect(statusOf({ reported, connected: false, everConnected: false })).toBe('UNKNOWN');
    },
  );

  it('each device has its own status [C-3.10]', () => {
    const devices = [
      { id: 'a', connected: true, everConnected: true, reported: null },
      { id: 'b', connected: false, everConnected: false, reported: null },
    ];
    expect(presenceAt(input({ devices }), NOW_MS).presence.devices).toEqual({ a: 'ONLINE', b: 'UNKNOWN' });
  });
});

describe('the next change', () => {
  it('is the earliest future one [C-2.5]', () => {
    const subDevices = [subDevice('A', 120_000), subDevice('B', 240_000), subDevice('C', OFFLINE_MS + 1)];
    const { nextChangeMs } = presenceAt(input({ subDevices }), NOW_MS);
    expect(nextChangeMs).toBe(NOW_MS + 60_000);
    const away = input({ subDevices, connected: false, lastSessionEndMs: NOW_MS - GONE_MS + 7 });
    expect(presenceAt(away, NOW_MS).nextChangeMs).toBe(NOW_MS + 7);
  });

  it('presence does not change by time before the next change, and never without one [C-2.5]', () => {
    const ageMs = fc.option(fc.integer({ min: -OFFLINE_MS, max: 2 * OFFLINE_MS }), { nil: undefined });
    const anyInput = fc.record({
      plant: fc.constantFrom(...PLANT_STATUSES),
      connected: fc.boolean(),
      endedAgoMs: fc.option(fc.integer({ min: 0, max: 2 * GONE_MS }), { nil: undefined }),
      afterMs: fc.option(fc.integer({ min: 30_000, max: 2 * GONE_MS }), { nil: undefined }),
      subDevices: fc.array(fc.tuple(ageMs, fc.boolean()), { maxLength: 3 }),
    });
    forAll(anyInput, fc.double({ min: 0, max: 1, noNaN: true }), (one, share) => {
      const whole = input({
        previous: was(one.plant),
        connected: one.connected,
        lastSessionEndMs: one.endedAgoMs === undefined ? undefined : NOW_MS - one.endedAgoMs,
        fallback: { afterMs: one.afterMs, isActive: false },
        subDevices: one.subDevices.map(([age, inError], index) => subDevice(`S-${index}`, age, inError)),
      });
      const { presence, nextChangeMs } = presenceAt(whole, NOW_MS);
      if (nextChangeMs !== undefined) expect(nextChangeMs).toBeGreaterThan(NOW_MS);
      const lastMs = (nextChangeMs ?? NOW_MS + 10 * OFFLINE_MS) - 1;
      for (const atMs of [lastMs, NOW_MS + Math.floor((lastMs - NOW_MS) * share)]) {
        expect(presenceAt(whole, atMs).presence).toEqual(presence);
        expect(isFallbackEngaged(whole, atMs)).toBe(isFallbackEngaged(whole, NOW_MS));
      }
    });
  });
});

describe('the fallback of a plant', () => {
  const agreed = { afterMs: 120_000, isActive: false };
  const reported = { afterMs: undefined, isActive: true };
  const away = (agoMs: number) => ({ connected: false, lastSessionEndMs: NOW_MS - agoMs });

  it.each<[string, Partial<PresenceInput>, boolean]>([
    ['is not engaged while the plant is connected', { fallback: agreed }, false],
    ['is not engaged before its time without a session', { ...away(119_999), fallback: agreed }, false],
    ['is engaged after its time without a session', { ...away(120_000), fallback: agreed }, true],
    ['is not engaged if none is configured, however long the plant is away', away(10 * OFFLINE_MS), false],
    ['is not engaged if the plant never connected', { connected: false, fallback: agreed }, false],
    ['is engaged if the connected plant reports it', { fallback: reported }, true],
  ])('%s [C-2.3]', (_what, changes, isEngaged) => {
    expect(isFallbackEngaged(input(changes), NOW_MS)).toBe(isEngaged);
  });
});
