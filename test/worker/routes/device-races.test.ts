/** Two who want different things of one device at once: whoever wins, registry and object say the same (rule 6). */
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ProvisioningPackage } from '../../../protocol/device-record.ts';
import {
  connect,
  diagnosticsOf,
  newTokenDevice,
  operate,
  postDevice,
  readDevice,
  type TokenDevice,
} from '../../support/workerd/devices.ts';
import { dialMqtt } from '../../support/workerd/door.ts';
import { postPlant } from '../../support/workerd/fleet.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { sendTelemetry } from '../../support/workerd/site-devices.ts';
import { evictSite, rowsOf } from '../../support/workerd/site-rows.ts';

/** Each time the two meet at another step. */
const ROUNDS = [1, 2];
/** How many reads of D1 the second comes behind the first. */
const BEHIND = [0, 2, 4];

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

async function newPlantId(): Promise<string> {
  return (await postPlant(team.operator)).id;
}

function remove(id: string): Promise<Response> {
  return team.admin.call(`/devices/${id}`, { method: 'DELETE' });
}

function move(id: string, plantId: string): Promise<Response> {
  return team.operator.call(`/devices/${id}`, { method: 'PATCH', body: { plantId } });
}

function inRegistry(id: string): Promise<{ status: string; plantId: string | null } | null> {
  const row = env.DB.prepare('SELECT status, plant_id AS plantId FROM devices WHERE id = ?').bind(id);
  return row.first<{ status: string; plantId: string | null }>();
}

/** The status of a device in each of the objects that has it. */
async function inObjects(id: string, siteIds: readonly string[]): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const siteId of siteIds) {
    const [row] = await rowsOf<{ status: string }>(siteId, `SELECT status FROM device WHERE id = '${id}'`);
    if (row) found[siteId] = row.status;
  }
  return found;
}

async function secretsIn(siteIds: readonly string[]): Promise<number> {
  const rows = await Promise.all(
    siteIds.map((siteId) => rowsOf(siteId, 'SELECT device_id FROM device_secret')),
  );
  return rows.flat().length;
}

/** How many of a device's messages count where it is now. */
async function isHeard(device: Pick<TokenDevice, 'id' | 'hmacSecret' | 'token'>): Promise<boolean> {
  await sendTelemetry(await connect(device), device, { powerKw: 1 });
  return Object.keys((await diagnosticsOf(team, device.id)).drops).length === 0;
}

describe('at once', () => {
  it.each(ROUNDS)('provisioned and moved: what it was told is good where it is (%i) [C-3.3]', async () => {
    const plantId = await newPlantId();
    const { id } = await postDevice(team.operator);
    const [provisioned, moved] = await Promise.all([operate(team.admin, id, 'provision'), move(id, plantId)]);
    expect([200, 409]).toContain(provisioned.status);
    expect([200, 409]).toContain(moved.status);
    const answer = provisioned.ok ? provisioned : await operate(team.admin, id, 'provision');
    const { hmacSecret, mqttToken = '' } = ((await answer.json()) as ProvisioningPackage).security;
    const home = moved.ok ? plantId : id;
    expect((await readDevice(team, id)).plantId ?? id).toBe(home);
    expect(await isHeard({ id, hmacSecret, token: mqttToken })).toBe(true);
    expect(await inObjects(id, [id, plantId])).toEqual({ [home]: 'ACTIVE' });
  });

  it.each(ROUNDS)(
    'suspended and moved: the suspension is where it is, or was refused (%i) [C-3.1]',
    async () => {
      const plantId = await newPlantId();
      const device = await newTokenDevice(team);
      const [suspended] = await Promise.all([
        operate(team.admin, device.id, 'suspend'),
        move(device.id, plantId),
      ]);
      expect([200, 409]).toContain(suspended.status);
      const status = suspended.ok ? 'SUSPENDED' : 'ACTIVE';
      const record = await readDevice(team, device.id);
      expect(record.status).toBe(status);
      expect(await inObjects(device.id, [device.id, plantId])).toEqual({
        [record.plantId ?? device.id]: status,
      });
      expect((await dialMqtt(device.id, device.token)).status).toBe(suspended.ok ? 401 : 101);
    },
  );

  it.each(ROUNDS)('rotated and moved: the secret that was told is good (%i) [C-3.3]', async () => {
    const plantId = await newPlantId();
    const device = await newTokenDevice(team);
    const [rotated, moved] = await Promise.all([
      operate(team.admin, device.id, 'rotate-secret'),
      move(device.id, plantId),
    ]);
    expect([rotated.status, moved.status]).toEqual([expect.toBeOneOf([200, 409]), 200]);
    const told = rotated.ok ? ((await rotated.json()) as { hmacSecret: string }) : device;
    expect(await isHeard({ ...device, hmacSecret: told.hmacSecret })).toBe(true);
    expect(await isHeard(device)).toBe(true);
  });

  it.each(ROUNDS)('deleted and moved: it is gone from everywhere (%i) [C-3.2]', async () => {
    const plantId = await newPlantId();
    const device = await newTokenDevice(team);
    const [removed, moved] = await Promise.all([remove(device.id), move(device.id, plantId)]);
    expect(removed.status).toBe(200);
    expect([200, 404, 409]).toContain(moved.status);
    expect(await inRegistry(device.id)).toBeNull();
    const everywhere = [device.id, plantId];
    expect([await inObjects(device.id, everywhere), await secretsIn(everywhere)]).toEqual([{}, 0]);
  });

  it.each(ROUNDS)('moved, and its new plant deleted: it is let in wherever it is (%i) [C-3.1]', async () => {
    const plantId = await newPlantId();
    const device = await newTokenDevice(team);
    const [removed] = await Promise.all([
      team.operator.call(`/plants/${plantId}`, { method: 'DELETE' }),
      move(device.id, plantId),
    ]);
    expect((await readDevice(team, device.id)).plantId).toBe(removed.ok ? null : plantId);
    expect(await isHeard(device)).toBe(true);
  });

  it.each(ROUNDS)('suspended and revoked: one is done, the other refused (%i) [C-3.3]', async (round) => {
    const device = await newTokenDevice(team);
    const wanted = { suspend: 'SUSPENDED', revoke: 'DECOMMISSIONED' } as const;
    const order = round % 2 ? (['suspend', 'revoke'] as const) : (['revoke', 'suspend'] as const);
    const answers = await Promise.all(order.map((operation) => operate(team.admin, device.id, operation)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409]);
    const done = order[answers.findIndex(({ ok }) => ok)] ?? 'suspend';
    await expectError(answers.find(({ ok }) => !ok) ?? new Response(), 409, 'CONFLICT');
    const { status } = await readDevice(team, device.id);
    expect(status).toBe(wanted[done]);
    expect(await inRegistry(device.id)).toMatchObject({ status });
    expect(await inObjects(device.id, [device.id])).toEqual({ [device.id]: status });
    expect(await secretsIn([device.id])).toBe(status === 'SUSPENDED' ? 1 : 0);
    await expectError(await dialMqtt(device.id, device.token), 401, 'UNAUTHORIZED');
    await evictSite(device.id);
    expect(await inObjects(device.id, [device.id])).toEqual({ [device.id]: status });
  });

  it.each(BEHIND)(
    'provisioned and deleted: nothing is left of it (%i reads apart) [C-3.2]',
    async (reads) => {
      for (const plantId of [null, await newPlantId()]) {
        for (const first of ['provision', 'delete'] as const) {
          const { id } = await postDevice(team.operator, { plantId });
          const acts = [() => operate(team.admin, id, 'provision'), () => remove(id)];
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
          const site = plantId ?? id;
          expect([await inObjects(id, [site]), await secretsIn([site])]).toEqual([{}, 0]);
          // What it may have been told lets nobody in.
          const told = provisioned?.ok ? ((await provisioned.json()) as ProvisioningPackage) : undefined;
          const dialled = await dialMqtt(id, told?.security.mqttToken ?? 'x');
          await expectError(dialled, 401, 'UNAUTHORIZED');
        }
      }
    },
  );
});
