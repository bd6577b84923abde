/** The serving device of a plant, the device types that serve, and the fault of a sub-device. */
import { describe, expect, it } from 'vitest';
import { subDevice } from '#workerd/site-view.ts';
import type { DeviceRow } from '../../../../durable-objects/site/device/rows.ts';
import { isInFault, servesSite, servingGateway } from '../../../../durable-objects/site/device/serving.ts';
import { DEVICE_TYPES } from '../../../../protocol/enums.ts';

function device(id: string, changes: Partial<DeviceRow> = {}): DeviceRow {
  return {
    id,
    type: 'GATEWAY',
    status: 'ACTIVE',
    last_key_version: null,
    status_at_ms: 0,
    suspend_reason: null,
    leaving: null,
    session_issued_at_ms: null,
    session_key_version: null,
    tokens_not_before_ms: 0,
    next_tokens_not_before_ms: null,
    next_tokens_from_ms: null,
    reported_status: null,
    epoch: 0,
    connection_id: null,
    bridge_id: null,
    bridge_boot: null,
    connected_at_ms: null,
    disconnected_at_ms: null,
    session_expires_at_ms: null,
    ...changes,
  };
}

/** A device in a session since the given time. */
function connected(id: string, connected_at_ms: number, changes: Partial<DeviceRow> = {}): DeviceRow {
  return device(id, { connection_id: `connection of ${id}`, connected_at_ms, ...changes });
}

/** A device whose session began at the given time and has ended. */
function gone(id: string, connected_at_ms: number, changes: Partial<DeviceRow> = {}): DeviceRow {
  return device(id, { connected_at_ms, disconnected_at_ms: connected_at_ms + 1, ...changes });
}

function permutationsOf<Item>(items: readonly Item[]): Item[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, index) =>
    permutationsOf(items.filter((_other, at) => at !== index)).map((rest) => [item, ...rest]),
  );
}

describe('the serving gateway of a plant', () => {
  const [a, b, c] = [connected('a', 1), connected('b', 3), connected('c', 2)];
  const sensor = connected('s', 9, { type: 'SENSOR' });
  const suspended = connected('s', 9, { status: 'SUSPENDED' });
  const [goneA, goneB, goneC] = [gone('a', 1), gone('b', 3), gone('c', 2)];

  const cases: [string, string | undefined, DeviceRow[], string[]?][] = [
    ['undefined without a device', undefined, []],
    ['undefined without a gateway', undefined, [sensor, connected('b', 2, { type: 'ACTUATOR' })]],
    ['undefined if none is active', undefined, [suspended, device('b', { status: 'DECOMMISSIONED' })]],
    ['its only gateway, even if that never connected', 'a', [device('a')]],
    ['a controller, if it is the only one', 'a', [{ ...a, type: 'CONTROLLER' }, sensor]],
    ['the one that is connected, even if an offline one connected later', 'a', [a, goneB]],
    ['of several connected gateways the one that connected last', 'b', [a, b, c]],
    ['of several disconnected gateways the one that connected last', 'b', [goneA, goneB, goneC]],
    ['one that was connected before, rather than one that never connected', 'a', [goneA, device('b')]],
    ['the connected one, though a suspended one connected later', 'a', [a, suspended]],
    ['of several connected gateways the one that still sends', 'a', [a, b], ['a']],
    ['of several silent gateways the one that is connected', 'a', [a, goneB], []],
    ['of several connected, silent gateways the one that connected last', 'b', [a, b], []],
  ];

  it.each(cases)(
    'the serving gateway is %s, in any order of the list [C-2.4]',
    (_who, expected, devices, live) => {
      const isLive = (id: string) =>
        live ? live.includes(id) : devices.some((one) => one.id === id && one.connection_id !== null);
      for (const order of permutationsOf(devices)) {
        expect(servingGateway(order, isLive)?.id).toBe(expected);
      }
    },
  );

  it('finding the serving gateway does not change the list [C-2.4]', () => {
    const devices = [connected('a', 1), connected('b', 2)];
    servingGateway(devices, () => true);
    expect(devices.map(({ id }) => id)).toEqual(['a', 'b']);
  });

  it('only devices of the types GATEWAY and CONTROLLER serve a site [C-2.4]', () => {
    const speaking = DEVICE_TYPES.filter((type) => servesSite(device('a', { type })));
    expect(speaking).toEqual(['GATEWAY', 'CONTROLLER']);
  });
});

describe('the fault of a sub-device', () => {
  const linked = subDevice('BESS-1', 'BESS', { linkedDeviceId: 'inverter-1' });
  const reporting = (reported_status: DeviceRow['reported_status']) => (id: string) =>
    id === 'inverter-1' ? device(id, { reported_status }) : device(id, { reported_status: 'ERROR' });

  it.each([
    [null, 'no fault'],
    ['ONLINE', 'no fault'],
    ['OFFLINE', 'no fault'],
    ['MAINTENANCE', 'no fault'],
    ['ERROR', 'a fault'],
  ] as const)('a sub-device whose linked device reports %s has %s [C-7.4]', (status, expected) => {
    expect(isInFault(linked, reporting(status), undefined)).toBe(expected === 'a fault');
    expect(isInFault(linked, reporting(status), 0)).toBe(expected === 'a fault');
    expect(isInFault(linked, reporting(status), 1)).toBe(true);
  });

  it.each([
    [undefined, 'not in fault'],
    [0, 'not in fault'],
    [1, 'in fault'],
    [-1, 'in fault'],
    [0.001, 'in fault'],
  ])('a sub-device whose `fault` signal is %s is %s [C-7.4]', (signal, expected) => {
    expect(isInFault(linked, () => undefined, signal)).toBe(expected === 'in fault');
    const unlinked = subDevice('BESS-2', 'BESS');
    expect(isInFault(unlinked, reporting('ERROR'), signal)).toBe(expected === 'in fault');
  });
});
