/** A device that a sub-device links to cannot move, whichever request comes first [C-2.2], [C-3.1]. */
import { rowsFrom, valueFrom } from '#workerd/d1.ts';
import { rowsOf } from '#workerd/site-rows.ts';
import { describe, expect, expectError, it } from '#workerd/worker-test.ts';
import type { DeviceRecord } from '../../../protocol/device-record.ts';

/** How many reads of D1 lie between the two requests. */
const READS_APART = [0, 2, 4];

/** The registry’s rows of a device and of the sub-device that links to it. */
async function linksOf(id: string): Promise<object[]> {
  return await rowsFrom(
    `SELECT d.plant_id AS home, d.moving_to AS movingTo, s.plant_id AS linkedFrom FROM devices d
     LEFT JOIN sub_devices s ON s.linked_device_id = d.id WHERE d.id = ?`,
    id,
  );
}

/** Sends both requests, the second after some reads of D1. */
async function atOnce(
  acts: { link: () => Promise<Response>; move: () => Promise<Response> },
  first: 'link' | 'move',
  reads: number,
): Promise<{ link: Response; move: Response }> {
  const start = async (name: 'link' | 'move') => {
    if (name !== first) for (let read = 0; read < reads; read++) await valueFrom('SELECT 1');
    return await acts[name]();
  };
  const [link, move] = await Promise.all([start('link'), start('move')]);
  return { link, move };
}

describe('concurrent linking and moving', () => {
  describe.each(['link', 'move'] as const)('the %s request first', (first) => {
    it.for(READS_APART)(
      'at most one of the two succeeds, and registry and Sites agree (the other request starts %i D1 reads later) [C-2.2]',
      async (reads, { team }) => {
        for (const kind of ['POST', 'PATCH'] as const) {
          for (const to of [(await team.newPlant()).id, null]) {
            const { id: from } = await team.newPlant();
            const { id } = await team.newTokenDevice({ plantId: from });
            const path = `/plants/${from}/sub-devices`;
            const made = kind === 'PATCH' ? await team.newSubDevice(from) : undefined;
            const fields = { externalId: 'M-1', assetType: 'METER', name: 'Meter', linkedDeviceId: id };
            const body = made ? { linkedDeviceId: id } : fields;
            const link = () => team.operator.call(made ? `${path}/${made.id}` : path, { method: kind, body });
            const move = () => team.operator.patch(`/devices/${id}`, { plantId: to });
            const answers = await atOnce({ link, move }, first, reads);
            expect(answers.link.ok && answers.move.ok).toBe(false);
            expect([200, 201, 400]).toContain(answers.link.status);
            expect([200, 409]).toContain(answers.move.status);
            const home = answers.move.ok ? to : from;
            const linkedFrom = answers.link.ok ? from : null;
            expect(await linksOf(id)).toEqual([{ home, movingTo: null, linkedFrom }]);
            expect((await team.readDevice(id)).plantId).toBe(home);
            const sites = [from, to ?? id];
            const isIn = await Promise.all(
              sites.map((siteId) => rowsOf(siteId, `SELECT status FROM device WHERE id = '${id}'`)),
            );
            const isThere = [{ status: 'ACTIVE' }];
            expect(isIn).toEqual(answers.move.ok ? [[], isThere] : [isThere, []]);
          }
        }
      },
    );
  });
});

describe('a PATCH that moves a linked device', () => {
  it.for(['ACTIVE', 'PENDING'] as const)(
    'gets 409 and changes nothing, if the device is %s [C-3.1]',
    async (status, { team }) => {
      const [{ id: from }, { id: to }] = [await team.newPlant(), await team.newPlant()];
      const id = await team.newDeviceIn(status, { plantId: from, metadata: { a: 1 } });
      await team.newSubDevice(from, { linkedDeviceId: id });
      const before = await team.readDevice(id);
      const events = async () => (await team.auditRowsOf(id)).map(({ event }) => event);
      const earlier = await events();
      for (const plantId of [to, null]) {
        for (const also of [{ name: 'Other' }, { type: 'SENSOR' }, { name: 'Other', metadata: {} }]) {
          const refused = await team.operator.patch(`/devices/${id}`, { ...also, plantId });
          await expectError(refused, 409, 'CONFLICT');
          expect(await team.readDevice(id)).toEqual(before);
        }
      }
      expect(await events()).toEqual(earlier);
      expect(earlier).not.toContain('device.updated');
      expect(await linksOf(id)).toEqual([{ home: from, movingTo: null, linkedFrom: from }]);
      const body = { name: 'Other', plantId: from };
      const renamed: DeviceRecord = await team.operator.change(`/devices/${id}`, body);
      expect(renamed).toEqual({ ...before, name: 'Other', updatedAt: expect.any(String) });
      expect(await events()).toEqual([...earlier, 'device.updated']);
    },
  );
});
