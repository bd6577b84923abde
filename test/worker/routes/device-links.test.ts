/** A device that a sub-device links to stays where it is, whoever comes first [C-2.2], [C-3.1]. */
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it } from 'vitest';
import type { DeviceRecord } from '../../../protocol/device-record.ts';
import { newTokenDevice, postDevice, readDevice } from '../../support/workerd/devices.ts';
import { auditRows } from '../../support/workerd/door.ts';
import { postPlant, postSubDevice } from '../../support/workerd/fleet.ts';
import { createTeam, type Team } from '../../support/workerd/people.ts';
import { expectError } from '../../support/workerd/rest.ts';
import { rowsOf } from '../../support/workerd/site-rows.ts';

/** How many reads of D1 the second comes behind the first. */
const BEHIND = [0, 2, 4];

let team: Team;

beforeAll(async () => {
  team = await createTeam();
});

async function newPlantId(): Promise<string> {
  return (await postPlant(team.operator)).id;
}

function patch(id: string, body: object): Promise<Response> {
  return team.operator.call(`/devices/${id}`, { method: 'PATCH', body });
}

/** What the registry says of a device, and of what links to it. */
async function linksOf(id: string): Promise<object[]> {
  const { results } = await env.DB.prepare(
    `SELECT d.plant_id AS home, d.moving_to AS movingTo, s.plant_id AS linkedFrom FROM devices d
     LEFT JOIN sub_devices s ON s.linked_device_id = d.id WHERE d.id = ?`,
  )
    .bind(id)
    .all();
  return results;
}

/** Both at once, the second so many reads behind; their answers in the order of their names. */
async function atOnce(
  acts: { link: () => Promise<Response>; move: () => Promise<Response> },
  first: 'link' | 'move',
  reads: number,
): Promise<{ link: Response; move: Response }> {
  const start = async (name: 'link' | 'move') => {
    if (name !== first) for (let read = 0; read < reads; read++) await env.DB.prepare('SELECT 1').first();
    return await acts[name]();
  };
  const [link, move] = await Promise.all([start('link'), start('move')]);
  return { link, move };
}

describe('linked and moved at once', () => {
  describe.each(['link', 'move'] as const)('%s first', (first) => {
    it.each(BEHIND)('never both (%i reads apart) [C-2.2]', async (reads) => {
      for (const kind of ['POST', 'PATCH'] as const) {
        for (const to of [await newPlantId(), null]) {
          const from = await newPlantId();
          const { id } = await newTokenDevice(team, { plantId: from });
          const path = `/plants/${from}/sub-devices`;
          const made = kind === 'PATCH' ? await postSubDevice(team.operator, from) : undefined;
          const fields = { externalId: 'M-1', assetType: 'METER', name: 'Meter', linkedDeviceId: id };
          const body = made ? { linkedDeviceId: id } : fields;
          const link = () => team.operator.call(made ? `${path}/${made.id}` : path, { method: kind, body });
          const answers = await atOnce({ link, move: () => patch(id, { plantId: to }) }, first, reads);
          expect(answers.link.ok && answers.move.ok).toBe(false);
          expect([200, 201, 400]).toContain(answers.link.status);
          expect([200, 409]).toContain(answers.move.status);
          const home = answers.move.ok ? to : from;
          const linkedFrom = answers.link.ok ? from : null;
          expect(await linksOf(id)).toEqual([{ home, movingTo: null, linkedFrom }]);
          expect((await readDevice(team, id)).plantId).toBe(home);
          const sites = [from, to ?? id];
          const isIn = await Promise.all(
            sites.map((siteId) => rowsOf(siteId, `SELECT status FROM device WHERE id = '${id}'`)),
          );
          const isThere = [{ status: 'ACTIVE' }];
          expect(isIn).toEqual(answers.move.ok ? [[], isThere] : [isThere, []]);
        }
      }
    });
  });
});

describe('a PATCH that moves a linked device and changes more', () => {
  it.each(['ACTIVE', 'PENDING'])('is 409 of a %s one, and nothing is changed [C-3.1]', async (status) => {
    const [from, to] = [await newPlantId(), await newPlantId()];
    const fields = { plantId: from, metadata: { a: 1 } };
    const { id } = await (status === 'ACTIVE'
      ? newTokenDevice(team, fields)
      : postDevice(team.operator, fields));
    await postSubDevice(team.operator, from, { linkedDeviceId: id });
    const before = await readDevice(team, id);
    const about = async () => (await auditRows(team.id)).filter(({ target }) => target === id);
    const told = await about();
    for (const plantId of [to, null]) {
      for (const also of [{ name: 'Other' }, { type: 'SENSOR' }, { name: 'Other', metadata: {} }]) {
        await expectError(await patch(id, { ...also, plantId }), 409, 'CONFLICT');
        expect(await readDevice(team, id)).toEqual(before);
      }
    }
    expect(await about()).toEqual(told);
    expect(told.map(({ event }) => event)).not.toContain('device.updated');
    expect(await linksOf(id)).toEqual([{ home: from, movingTo: null, linkedFrom: from }]);
    const body = { name: 'Other', plantId: from };
    const renamed: DeviceRecord = await team.operator.read(`/devices/${id}`, { method: 'PATCH', body });
    expect(renamed).toEqual({ ...before, name: 'Other', updatedAt: expect.any(String) });
    expect((await about()).map(({ event }) => event)).toEqual([
      ...told.map(({ event }) => event),
      'device.updated',
    ]);
  });
});
