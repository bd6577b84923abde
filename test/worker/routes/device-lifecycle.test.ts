/** The life of a device: the listed transitions, and no others (spec: Device lifecycle; [C-3.3]). */
import { connect } from '#workerd/devices.ts';
import { dialMqtt } from '#workerd/door.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { numberOf } from '#workerd/site-rows.ts';
import { describe, expect, expectError, INSTANT, it } from '#workerd/worker-test.ts';
import { DEVICE_STATUSES, type DeviceStatus } from '../../../protocol/enums.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';

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

/** The status to which an operation leads from each status. An operation that is not listed is a conflict. */
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

describe(`${CASES.length} pairs of status and operation`, () => {
  it.for(CASES)(
    'a %s device allows or refuses %s as the lifecycle says (spec: Device lifecycle)',
    async ([status, operation], { team }) => {
      const authMethod = operation === 'certificate' ? 'MTLS' : 'TOKEN';
      const id = await team.newDeviceIn(status, { authMethod });
      const before = await team.readDevice(id);
      expect(before.status).toBe(status);
      const response = await team.admin.operate(id, operation);
      const to = LEADS_TO[status][operation];
      if (to === undefined) {
        await expectError(response, 409, 'CONFLICT');
        expect(await team.readDevice(id)).toEqual(before);
        return;
      }
      expect(response.status).toBe(operation === 'certificate' ? 201 : 200);
      expect((await team.readDevice(id)).status).toBe(to);
    },
  );
});

describe('a suspension', () => {
  it('returns the record with the reason, which the reactivation deletes [C-3.3]', async ({ team }) => {
    const { id } = await team.newTokenDevice();
    const before = await team.readDevice(id);
    const reason = 'Stolen from hall 2 – “č”';
    const suspended = await (await team.admin.operate(id, 'suspend', { reason })).json();
    expect(suspended).toEqual({
      ...before,
      status: 'SUSPENDED',
      suspendedAt: INSTANT,
      suspendReason: reason,
      updatedAt: INSTANT,
    });
    expect(await team.readDevice(id)).toEqual(suspended);
    const reactivated = await (await team.admin.operate(id, 'reactivate', { reason: 'found' })).json();
    const { suspendedAt, suspendReason } = before;
    expect(reactivated).toEqual({ ...before, suspendedAt, suspendReason, updatedAt: INSTANT });
    expect([suspendedAt, suspendReason]).toEqual([null, null]);
    expect(await team.readDevice(id)).toEqual(reactivated);
    await team.admin.operate(id, 'suspend');
    expect(await team.readDevice(id)).toMatchObject({ status: 'SUSPENDED', suspendReason: null });
  });

  it('closes the session and refuses the device until its reactivation and a new token [C-3.3], [C-14.5]', async ({
    team,
    device,
    link,
  }) => {
    expect(await sendTelemetry(link, device, { gridPowerKw: 1 })).toBe(true);
    expect((await team.admin.operate(device.id, 'suspend')).status).toBe(200);
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    expect((await team.admin.operate(device.id, 'reactivate')).status).toBe(200);
    const { token } = await team.admin.read<{ token: string }>(`/devices/${device.id}/mqtt-token`, {
      method: 'POST',
      body: {},
    });
    const again = await connect({ id: device.id, token });
    expect(await sendTelemetry(again, device, { gridPowerKw: 2 })).toBe(true);
  });

  it('leaves the sessions of other devices open [C-3.3]', async ({ team, plantId, device, link }) => {
    const sensor = await team.newTokenDevice({ plantId, type: 'SENSOR' });
    const stays = await connect(sensor);
    await team.admin.operate(device.id, 'suspend');
    await link.untilClosed();
    expect(await sendTelemetry(stays, sensor, { powerKw: 1 })).toBe(true);
    expect(stays.closed).toBeUndefined();
  });
});

describe('a revocation', () => {
  it('closes the session, deletes the secret, refuses the token and is final [C-3.3]', async ({ team }) => {
    const device = await team.newTokenDevice();
    const link = await connect(device);
    const answer = await (await team.admin.operate(device.id, 'revoke', { reason: 'broken' })).json();
    expect(answer).toEqual(await team.readDevice(device.id));
    expect(answer).toMatchObject({ status: 'DECOMMISSIONED', suspendedAt: null, suspendReason: null });
    expect(await link.untilClosed()).toMatchObject({ code: CLOSE_CODES.revoked });
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    expect(await numberOf(device.siteId, 'SELECT count(*) FROM device_secret')).toBe(0);
    for (const operation of OPERATIONS) {
      await expectError(await team.admin.operate(device.id, operation), 409, 'CONFLICT');
    }
  });

  it('gets 409 for a suspended device until the device is reactivated [C-3.1]', async ({ team }) => {
    const id = await team.newDeviceIn('SUSPENDED');
    await expectError(await team.admin.operate(id, 'revoke'), 409, 'CONFLICT');
    await team.admin.operate(id, 'reactivate');
    expect((await team.admin.operate(id, 'revoke')).status).toBe(200);
  });
});

describe('the reason of a suspension or revocation', () => {
  it('gets 400 if it has more than 500 characters (spec: Limits)', async ({ team }) => {
    const { id } = await team.newTokenDevice();
    for (const operation of ['suspend', 'revoke']) {
      const reasons = ['x'.repeat(501), 1, null].map((reason) => ({ reason }));
      for (const body of [[], 'x', ...reasons, { why: 'x' }]) {
        await expectError(await team.admin.operate(id, operation, body), 400, 'VALIDATION_ERROR');
      }
    }
    expect((await team.readDevice(id)).status).toBe('ACTIVE');
    const reason = 'x'.repeat(500);
    const suspended = await team.admin.operate(id, 'suspend', { reason });
    expect(await suspended.json()).toMatchObject({ suspendReason: reason });
  });
});

describe('a body that is null', () => {
  it.for([
    ['PENDING', 'provision', 'TOKEN'],
    ['PENDING', 'provision', 'MTLS'],
    ['ACTIVE', 'suspend', 'TOKEN'],
    ['ACTIVE', 'revoke', 'TOKEN'],
    ['ACTIVE', 'mqtt-token', 'TOKEN'],
    ['ACTIVE', 'certificate', 'MTLS'],
    ['SUSPENDED', 'reactivate', 'TOKEN'],
  ] as const)(
    'gets 400 and changes nothing for a %s device and the operation %s (%s) (bad input: REST)',
    async ([status, operation, authMethod], { team }) => {
      const id = await team.newDeviceIn(status, { authMethod });
      const before = await team.readDevice(id);
      await expectError(await team.admin.operate(id, operation, null), 400, 'VALIDATION_ERROR');
      expect(await team.readDevice(id)).toEqual(before);
      const inSite = await numberOf(id, `SELECT count(*) FROM device WHERE status = '${status}'`);
      expect(inSite).toBe(status === 'PENDING' ? 0 : 1);
    },
  );
});

describe('concurrent suspension and reactivation', () => {
  it('leave registry and Site with the same status (rule 6)', async ({ team }) => {
    const device = await team.newTokenDevice();
    const answers = await Promise.all([
      team.admin.operate(device.id, 'suspend', { reason: 'a' }),
      team.admin.operate(device.id, 'suspend', { reason: 'b' }),
      team.admin.operate(device.id, 'reactivate'),
    ]);
    for (const { status } of answers) expect([200, 409]).toContain(status);
    const { status } = await team.readDevice(device.id);
    const inSite = `SELECT count(*) FROM device WHERE status = '${status}'`;
    expect(await numberOf(device.siteId, inSite)).toBe(1);
    const { status: answer } = await dialMqtt(device.id, device.token);
    expect(answer).toBe(status === 'ACTIVE' ? 101 : 401);
  });
});
