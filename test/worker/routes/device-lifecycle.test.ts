/** The life of a device: what the table lists is done, and nothing else (spec: Device lifecycle; [C-3.3]). */
import { beforeAll, describe, expect, it } from 'vitest';
import { DEVICE_STATUSES, type DeviceStatus } from '../../../protocol/enums.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import { connect, newDeviceIn, newTokenDevice, operate, readDevice } from '../../support/workerd/devices.ts';
import { dialMqtt } from '../../support/workerd/door.ts';
import { postPlant } from '../../support/workerd/fleet.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { sendTelemetry } from '../../support/workerd/site-devices.ts';
import { numberOf } from '../../support/workerd/site-rows.ts';

const OPERATIONS = [
  'provision',
  'suspend',
  'reactivate',
  'revoke',
  'mqtt-token',
  'rotate-secret',
  'certificate',
] as const;
type Operation = (typeof OPERATIONS)[number];

/** The table: where each leads to from each status. What is not listed is a conflict. */
const LEADS_TO: Record<DeviceStatus, Partial<Record<Operation, DeviceStatus>>> = {
  PENDING: { provision: 'ACTIVE' },
  ACTIVE: {
    suspend: 'SUSPENDED',
    revoke: 'DECOMMISSIONED',
    'mqtt-token': 'ACTIVE',
    'rotate-secret': 'ACTIVE',
    certificate: 'ACTIVE',
  },
  SUSPENDED: { reactivate: 'ACTIVE' },
  DECOMMISSIONED: {},
};
const CASES = DEVICE_STATUSES.flatMap((status) =>
  OPERATIONS.map((operation) => [status, operation] as const),
);
const INSTANT = expect.stringMatching(/Z$/);

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

describe(`${CASES.length} pairs of status and operation`, () => {
  it.each(CASES)('a %s device and %s (spec: Device lifecycle)', async (status, operation) => {
    const authMethod = operation === 'certificate' ? 'MTLS' : 'TOKEN';
    const id = await newDeviceIn(team, status, { authMethod });
    const before = await readDevice(team, id);
    expect(before.status).toBe(status);
    const response = await operate(team.admin, id, operation);
    const to = LEADS_TO[status][operation];
    if (to === undefined) {
      await expectError(response, 409, 'CONFLICT');
      expect(await readDevice(team, id)).toEqual(before);
      return;
    }
    expect(response.status).toBe(operation === 'certificate' ? 201 : 200);
    expect((await readDevice(team, id)).status).toBe(to);
  });
});

describe('a suspension', () => {
  it('answers the record, and keeps its reason until the device is let in again [C-3.3]', async () => {
    const { id } = await newTokenDevice(team);
    const before = await readDevice(team, id);
    const reason = 'Stolen from hall 2 – “č”';
    const suspended = await (await operate(team.admin, id, 'suspend', { reason })).json();
    expect(suspended).toEqual({
      ...before,
      status: 'SUSPENDED',
      suspendedAt: INSTANT,
      suspendReason: reason,
      updatedAt: INSTANT,
    });
    expect(await readDevice(team, id)).toEqual(suspended);
    const reactivated = await (await operate(team.admin, id, 'reactivate', { reason: 'found' })).json();
    const { suspendedAt, suspendReason } = before;
    expect(reactivated).toEqual({ ...before, suspendedAt, suspendReason, updatedAt: INSTANT });
    expect([suspendedAt, suspendReason]).toEqual([null, null]);
    expect(await readDevice(team, id)).toEqual(reactivated);
    await operate(team.admin, id, 'suspend');
    expect(await readDevice(team, id)).toMatchObject({ status: 'SUSPENDED', suspendReason: null });
  });

  it('cuts the session at once, refuses its token, and lets the same one in again [C-3.3]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const device = await newTokenDevice(team, { plantId });
    const link = await connect(device);
    expect(await sendTelemetry(link, device, { gridPowerKw: 1 })).toBe(true);
    expect((await operate(team.admin, device.id, 'suspend')).status).toBe(200);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    expect((await operate(team.admin, device.id, 'reactivate')).status).toBe(200);
    const again = await connect(device);
    expect(await sendTelemetry(again, device, { gridPowerKw: 2 })).toBe(true);
  });

  it('of one device leaves the sessions of others [C-3.3]', async () => {
    const { id: plantId } = await postPlant(team.operator);
    const [one, other] = [
      await newTokenDevice(team, { plantId }),
      await newTokenDevice(team, { plantId, type: 'SENSOR' }),
    ];
    const [goes, stays] = [await connect(one), await connect(other)];
    await operate(team.admin, one.id, 'suspend');
    await goes.untilClosed();
    expect(await sendTelemetry(stays, other, { powerKw: 1 })).toBe(true);
    expect(stays.closed).toBeUndefined();
  });
});

describe('a revocation', () => {
  it('is for good: the session is cut, the secret destroyed, the token worth nothing [C-3.3]', async () => {
    const device = await newTokenDevice(team);
    const link = await connect(device);
    const answer = await (await operate(team.admin, device.id, 'revoke', { reason: 'broken' })).json();
    expect(answer).toEqual(await readDevice(team, device.id));
    expect(answer).toMatchObject({ status: 'DECOMMISSIONED', suspendedAt: null, suspendReason: null });
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    expect(await numberOf(device.siteId, 'SELECT count(*) FROM device_secret')).toBe(0);
    for (const operation of OPERATIONS) {
      await expectError(await operate(team.admin, device.id, operation), 409, 'CONFLICT');
    }
  });

  it('of a suspended device is not listed: it is reactivated first, or deleted [C-3.1]', async () => {
    const id = await newDeviceIn(team, 'SUSPENDED');
    await expectError(await operate(team.admin, id, 'revoke'), 409, 'CONFLICT');
    await operate(team.admin, id, 'reactivate');
    expect((await operate(team.admin, id, 'revoke')).status).toBe(200);
  });
});

describe('the reason', () => {
  it('has 500 characters at most, and is all that a body says (spec: Limits)', async () => {
    const { id } = await newTokenDevice(team);
    for (const operation of ['suspend', 'revoke']) {
      for (const body of [
        [],
        'x',
        { reason: 'x'.repeat(501) },
        { reason: 1 },
        { reason: null },
        { why: 'x' },
      ]) {
        await expectError(await operate(team.admin, id, operation, body), 400, 'VALIDATION_ERROR');
      }
    }
    expect((await readDevice(team, id)).status).toBe('ACTIVE');
    const reason = 'x'.repeat(500);
    const suspended = await operate(team.admin, id, 'suspend', { reason });
    expect(await suspended.json()).toMatchObject({ suspendReason: reason });
  });
});

describe('a body that is null', () => {
  it.each([
    ['PENDING', 'provision', 'TOKEN'],
    ['PENDING', 'provision', 'MTLS'],
    ['ACTIVE', 'suspend', 'TOKEN'],
    ['ACTIVE', 'revoke', 'TOKEN'],
    ['ACTIVE', 'mqtt-token', 'TOKEN'],
    ['ACTIVE', 'certificate', 'MTLS'],
    ['SUSPENDED', 'reactivate', 'TOKEN'],
  ] as const)('of a %s device and %s (%s) is 400, and nothing is done (bad input: REST)', async (...one) => {
    const [status, operation, authMethod] = one;
    const id = await newDeviceIn(team, status, { authMethod });
    const before = await readDevice(team, id);
    await expectError(await operate(team.admin, id, operation, null), 400, 'VALIDATION_ERROR');
    expect(await readDevice(team, id)).toEqual(before);
    const inSite = await numberOf(id, `SELECT count(*) FROM device WHERE status = '${status}'`);
    expect(inSite).toBe(status === 'PENDING' ? 0 : 1);
  });
});

describe('a suspension and a reactivation at once', () => {
  it('leave the device in one of the two, and its site with the same word (rule 6)', async () => {
    const device = await newTokenDevice(team);
    const answers = await Promise.all([
      operate(team.admin, device.id, 'suspend', { reason: 'a' }),
      operate(team.admin, device.id, 'suspend', { reason: 'b' }),
      operate(team.admin, device.id, 'reactivate'),
    ]);
    for (const { status } of answers) expect([200, 409]).toContain(status);
    const { status } = await readDevice(team, device.id);
    const inSite = `SELECT count(*) FROM device WHERE status = '${status}'`;
    expect(await numberOf(device.siteId, inSite)).toBe(1);
    const { status: answer } = await dialMqtt(device.id, device.token);
    expect(answer).toBe(status === 'ACTIVE' ? 101 : 401);
  });
});
