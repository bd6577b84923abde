/**
 * The one table of limits: each with its unit and its clause, and the spec's limits with the spec's values.
 */
import { describe, expect, it } from 'vitest';
import { LIMIT, LIMITS, type LimitName } from '../../protocol/limits.ts';
import { organizationSettings } from '../../protocol/organization.ts';

const ENTRIES = Object.entries(LIMITS) as [
  LimitName,
  readonly [value: number, unit: string, clause: string, setting?: string],
][];

describe('an entry of the limits table', () => {
  it.each(ENTRIES)(
    '%s has a number, a unit and a clause [architecture: layout]',
    (_name, [value, unit, clause]) => {
      expect(Number.isFinite(value) && value > 0).toBe(true);
      expect(unit).toMatch(/^[A-Za-z]+(, [A-Za-z]+)*$/);
      expect(clause).toMatch(/^(spec: Limits|C-\d+(\.\d+)?|ours)$/);
    },
  );

  const UNITS: [ending: RegExp, unit: string][] = [
    [/Ms$/, 'ms'],
    [/Seconds(Min|Max)?$/, 'seconds'],
    [/Minutes(Min|Max)?$/, 'minutes'],
    [/Bytes(Min)?$/, 'bytes'],
    [/Characters$/, 'characters'],
    [/Depth$/, 'levels'],
  ];

  it.each(UNITS)(
    'whose name matches %s has the unit %s, and no other entry has that unit [architecture: layout]',
    (ending, expected) => {
      const named = ENTRIES.filter(([name]) => ending.test(name));
      expect(named.length).toBeGreaterThan(0);
      for (const [name, [, unit]] of named) expect([name, unit]).toEqual([name, expected]);
      const others = ENTRIES.filter(([name, [, unit]]) => unit === expected && !ending.test(name));
      expect(others.map(([name]) => name)).toEqual([]);
    },
  );

  it("equals the default of the organization's setting that it names [C-1.1]", () => {
    const defaults: Record<string, unknown> = organizationSettings.parse({});
    const settable = ENTRIES.filter(([, [, , , setting]]) => setting !== undefined);
    expect(settable.length).toBeGreaterThan(0);
    for (const [name, [value, , , setting = '']] of settable) {
      expect([name, defaults[setting]]).toEqual([name, value]);
    }
  });
});

describe('the plain limits', () => {
  it('have the value of each entry of the table, and no others [architecture: layout]', () => {
    expect(LIMIT).toEqual(Object.fromEntries(ENTRIES.map(([name, [value]]) => [name, value])));
    expect(Object.keys(LIMIT)).toHaveLength(ENTRIES.length);
  });

  it('keep each lower bound under its upper one [architecture: layout]', () => {
    expect(LIMIT.fallbackAfterSecondsMin).toBeLessThan(LIMIT.fallbackAfterSecondsMax);
    expect(LIMIT.telemetryIntervalSecondsMin).toBeLessThan(LIMIT.telemetryIntervalSecondsMax);
    expect(LIMIT.amqpFrameBytesMin).toBeLessThan(LIMIT.amqpFrameBytes);
    expect(LIMIT.commandsPageSizeDefault).toBeLessThan(LIMIT.commandsPageSize);
    expect(LIMIT.subDeviceFreshMs).toBeLessThan(LIMIT.subDeviceOfflineMs);
  });
});

/** The rows of the spec's table that the code implements. */
const OF_SPEC = {
  commandsPageSize: 500,
  commandsPageSizeDefault: 50,
  pendingCommands: 100,
  schedulesWindowMs: 7 * 86_400_000,
  listRows: 100,
  listRowsDefault: 20,
  nameCharacters: 100,
  commandsPerBatch: 32,
  commandReasonCharacters: 500,
  timestampToleranceMs: 300_000,
  nonceWindowMs: 5 * 60_000,
  serialNumberCharacters: 50,
  metricCharacters: 200,
  mqttTokenSeconds: 3_600,
  mqttTokenSecondsMax: 86_400,
  secretGraceMs: 60 * 60_000,
  authFailures: 10,
  authFailuresMs: 5 * 60_000,
} as const satisfies Partial<Record<LimitName, number>>;

describe('the limits of the spec', () => {
  it.each(Object.entries(OF_SPEC) as [keyof typeof OF_SPEC, number][])(
    'include %s with the value %d (spec: Limits)',
    (name, value) => {
      expect(LIMITS[name][0]).toBe(value);
      expect(LIMITS[name][2]).toBe('spec: Limits');
    },
  );

  it("are all entries marked as the spec's (spec: Limits)", () => {
    const called = ENTRIES.filter(([, [, , clause]]) => clause === 'spec: Limits').map(([name]) => name);
    expect(called.sort()).toEqual(Object.keys(OF_SPEC).sort());
  });
});

describe('the limits of the contract', () => {
  it.each<[LimitName, number, string]>([
    ['restBodyBytes', 1_048_576, 'C-4.7'],
    ['commandMagnitude', 1e9, 'C-7.4'],
    ['envelopeTextCharacters', 256, 'C-7.1'],
    ['fallbackAfterSecondsMin', 30, 'C-2.3'],
    ['fallbackAfterSecondsMax', 3_600, 'C-2.3'],
    ['messageIdMemoryMs', 7 * 86_400_000, 'C-7.3'],
    ['deviceCommandWaitMs', 15 * 60_000, 'C-7.6'],
    ['ackTimeoutMs', 30_000, 'C-7.8'],
    ['dispatchTries', 3, 'C-7.8'],
    ['openSetpointMs', 5 * 60_000, 'C-7.8'],
    ['confirmMs', 8_000, 'C-6.4'],
    ['connectionsPerKey', 10, 'C-6.3'],
    ['consumersPerConnection', 256, 'C-6.3'],
    ['amqpHeartbeatSeconds', 60, 'C-6.3'],
    ['amqpHandshakeMs', 10_000, 'C-6.3'],
    ['amqpFrameBytes', 131_072, 'C-6.3'],
    ['amqpFrameBytesMin', 4_096, 'C-6.3'],
    ['amqpBodyBytes', 262_144, 'C-6.3'],
    ['amqpPropertiesBytes', 16_384, 'C-6.3'],
    ['amqpTableDepth', 32, 'C-6.3'],
    ['queueMessages', 100_000, 'C-6.4'],
    ['queueBytes', 64 * 1_048_576, 'C-6.4'],
    ['deadLetterBytes', 16 * 1_048_576, 'C-6.4'],
    ['queueAgeMs', 7 * 86_400_000, 'C-6.4'],
    ['telemetryQueueAgeMs', 86_400_000, 'C-6.4'],
    ['deliveriesPerMessage', 20, 'C-6.4'],
    ['nonceBytes', 128, 'C-3.8'],
    ['signalsPerSite', 2_000, 'C-3.13'],
    ['telemetryIntervalSecondsMin', 5, 'C-1.1'],
    ['telemetryIntervalSecondsMax', 300, 'C-1.1'],
    ['telemetryIntervalSeconds', 10, 'C-8.2'],
    ['telemetryPulseMs', 60_000, 'C-8.2'],
    ['signalStaleMs', 5 * 60_000, 'C-4.5'],
    ['sessionGoneMs', 90_000, 'C-2.5'],
    ['subDeviceFreshMs', 5 * 60_000, 'C-2.5'],
    ['subDeviceOfflineMs', 15 * 60_000, 'C-2.5'],
  ])('include %s with the value %d [%s]', (name, value, clause) => {
    expect([LIMITS[name][0], LIMITS[name][2]]).toEqual([value, clause]);
  });
});
