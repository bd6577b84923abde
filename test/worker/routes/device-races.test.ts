/** Two concurrent requests for different states of a device: registry and object agree afterwards (rule 6). */
import { env } from 'cloudflare:workers';
import { connect, type TokenDevice } from '#workerd/devices.ts';
import { dialMqtt } from '#workerd/door.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import { evictSite, numberOf, statusOf } from '#workerd/site-rows.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import type { ProvisioningPackage } from '../../../protocol/device-record.ts';

/** Each round lets the two requests meet at another step. */
const ROUNDS = [1, 2];
/** How many reads of D1 lie between the two requests. */
const READS_APART = [0, 2, 4];

/** `device` has no plant; `plantId` is the plant to which it moves. */
const it = test
  .extend('device', ({ team }) => team.newTokenDevice())
  .extend('move', ({ team, plantId }) => (id: string) => {
    return team.operator.patch(`/devices/${id}`, { plantId });
  })
  /** Whether the object that the device has now accepts its message. */
  .extend('isAccepted', ({ team }) => async (device: Pick<TokenDevice, 'id' | 'hmacSecret' | 'token'>) => {
    await sendTelemetry(await connect(device), device, { powerKw: 1 });
    return Object.keys((await team.diagnosticsOf(device.id)).drops).length === 0;
  });

function inRegistry(id: string): Promise<{ status: string; plantId: string | null } | null> {
  const row = env.DB.prepare('SELECT status, plant_id AS plantId FROM devices WHERE id = ?').bind(id);
  return row.first<{ status: string; plantId: string | null }>();
}

/** The status of a device in each of the objects that has it. */
async function inObjects(id: string, siteIds: readonly string[]): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const siteId of siteIds) {
    const status = await statusOf({ id, siteId });
    if (status) found[siteId] = status;
  }
  return found;
}

async function secretsIn(siteIds: readonly string[]): Promise<number> {
  const counts = siteIds.map((siteId) => numberOf(siteId, 'SELECT count(*) FROM device_secret'));
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

describe('concurrent requests for a device', () => {
  it.for(ROUNDS)(
    'concurrent provision and move: the package is valid where the device is afterwards (round %i) [C-3.3]',
    async (_case, { team, plantId, move, isAccepted }) => {
      const { id } = await team.newDevice();
      const [provisioned, moved] = await Promise.all([team.admin.operate(id, 'provision'), move(id)]);
      expect([200, 409]).toContain(provisioned.status);
      expect([200, 409]).toContain(moved.status);
      const answer = provisioned.ok ? provisioned : await team.admin.operate(id, 'provision');
      const { hmacSecret, mqttToken = '' } = ((await answer.json()) as ProvisioningPackage).security;
      const home = moved.ok ? plantId : id;
      expect((await team.readDevice(id)).plantId ?? id).toBe(home);
      expect(await isAccepted({ id, hmacSecret, token: mqttToken })).toBe(true);
      expect(await inObjects(id, [id, plantId])).toEqual({ [home]: 'ACTIVE' });
    },
  );

  it.for(ROUNDS)(
    'concurrent suspend and move: registry and object have the same status (round %i) [C-3.1]',
    async (_case, { team, plantId, device, move }) => {
      const [suspended] = await Promise.all([team.admin.operate(device.id, 'suspend'), move(device.id)]);
      expect([200, 409]).toContain(suspended.status);
      const status = suspended.ok ? 'SUSPENDED' : 'ACTIVE';
      const record = await team.readDevice(device.id);
      expect(record.status).toBe(status);
      expect(await inObjects(device.id, [device.id, plantId])).toEqual({
        [record.plantId ?? device.id]: status,
      });
      expect((await dialMqtt(device.id, device.token)).status).toBe(suspended.ok ? 401 : 101);
    },
  );

  it.for(ROUNDS)(
    'concurrent rotate and move: the old and the new secret are valid (round %i) [C-3.3]',
    async (_case, { team, device, move, isAccepted }) => {
      const [rotated, moved] = await Promise.all([
        team.admin.operate(device.id, 'rotate-secret'),
        move(device.id),
      ]);
      expect([rotated.status, moved.status]).toEqual([expect.toBeOneOf([200, 409]), 200]);
      const { hmacSecret } = rotated.ok ? ((await rotated.json()) as { hmacSecret: string }) : device;
      expect(await isAccepted({ ...device, hmacSecret })).toBe(true);
      expect(await isAccepted(device)).toBe(true);
    },
  );

  it.for(ROUNDS)(
    'concurrent delete and move: nothing is left of the device (round %i) [C-3.2]',
    async (_case, { team, plantId, device, move }) => {
      const [removed, moved] = await Promise.all([
        team.admin.delete(`/devices/${device.id}`),
        move(device.id),
      ]);
      expect(removed.status).toBe(200);
      expect([200, 404, 409]).toContain(moved.status);
      expect(await inRegistry(device.id)).toBeNull();
      const everywhere = [device.id, plantId];
      expect([await inObjects(device.id, everywhere), await secretsIn(everywhere)]).toEqual([{}, 0]);
    },
  );

  it.for(ROUNDS)(
    'concurrent move and deletion of the new plant: the device can connect (round %i) [C-3.1]',
    async (_case, { team, plantId, device, move, isAccepted }) => {
      const [removed] = await Promise.all([team.operator.delete(`/plants/${plantId}`), move(device.id)]);
      expect((await team.readDevice(device.id)).plantId).toBe(removed.ok ? null : plantId);
      expect(await isAccepted(device)).toBe(true);
    },
  );

  it.for(ROUNDS)(
    'concurrent suspend and revoke: one succeeds, the other gets 409 (round %i) [C-3.3]',
    async (round, { team, device }) => {
      const wanted = { suspend: 'SUSPENDED', revoke: 'DECOMMISSIONED' } as const;
      const order = round % 2 ? (['suspend', 'revoke'] as const) : (['revoke', 'suspend'] as const);
      const answers = await Promise.all(order.map((operation) => team.admin.operate(device.id, operation)));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
      const done = order[answers.findIndex(({ ok }) => ok)] ?? 'suspend';
      await expectError(answers.find(({ ok }) => !ok) ?? new Response(), 409, 'CONFLICT');
      const { status } = await team.readDevice(device.id);
      expect(status).toBe(wanted[done]);
      expect(await inRegistry(device.id)).toMatchObject({ status });
      expect(await inObjects(device.id, [device.id])).toEqual({ [device.id]: status });
      expect(await secretsIn([device.id])).toBe(status === 'SUSPENDED' ? 1 : 0);
      await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
      await evictSite(device.id);
      expect(await inObjects(device.id, [device.id])).toEqual({ [device.id]: status });
    },
  );

  it.for(READS_APART)(
    'concurrent provision and delete: nothing is left of the device (the second starts %i D1 reads later) [C-3.2]',
    async (reads, { team, plantId }) => {
      for (const home of [null, plantId]) {
        for (const first of ['provision', 'delete'] as const) {
          const { id } = await team.newDevice({ plantId: home });
          const acts = [() => team.admin.operate(id, 'provision'), () => team.admin.delete(`/devices/${id}`)];
          if (first === 'delete') acts.reverse();
          const answers = await Promise.all(
            acts.map(async (act, index) => {
              for (let read = 0; read < index * reads; read++) await inRegistry(id);
              return await act();
            }),
          );
          if (first === 'delete') answers.reverse();
          const [provisioned, removed] = answers;
          expect([200, 404, 409]).toContain(provisioned?.status);
          expect(removed?.status).toBe(200);
          expect(await inRegistry(id)).toBeNull();
          const site = home ?? id;
          expect([await inObjects(id, [site]), await secretsIn([site])]).toEqual([{}, 0]);
          // A token that was issued meanwhile is refused.
          const issued = provisioned?.ok ? ((await provisioned.json()) as ProvisioningPackage) : undefined;
          const dialled = await dialMqtt(id, issued?.security.mqttToken ?? 'x');
          await expectError(dialled, 401, 'UNAUTHORIZED');
        }
      }
    },
  );
});
