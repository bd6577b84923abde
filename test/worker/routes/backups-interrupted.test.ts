/** What holds when an organization is suspended behind a fence, and when a restore stops before its last step [C-14.8]. */
import { env } from 'cloudflare:workers';
import { type BackupObject, backUp, lower, raise, readParts } from '#workerd/backups.ts';
import { connect } from '#workerd/devices.ts';
import { dialAmqp, dialMqtt } from '#workerd/door.ts';
import { operator } from '#workerd/operator.ts';
import { setClock, stopClock } from '#workerd/site-clock.ts';
import { numberOf } from '#workerd/site-rows.ts';
import { describe, expect, expectError, test } from '#workerd/worker-test.ts';
import { siteOf } from '#workerd/world.ts';
import { dueChanges } from '../../../registry/changes.ts';
import { announceDue } from '../../../worker/lifecycle/registry-change.ts';

const REASON = { reason: 'the account was taken over' };

const it = test.extend('object', async ({ ownTeam }): Promise<BackupObject> => {
  return { object: 'plant', id: (await ownTeam.newPlant()).id };
});

describe('an organization that is suspended while its plant and its key are behind fences', () => {
  it('is suspended at once, and the objects learn it when the change is announced again', async ({
    ownTeam,
    object,
  }) => {
    const device = await ownTeam.newTokenDevice({ plantId: object.id });
    const key = await ownTeam.newKey();
    const link = await connect(device);
    const objects: BackupObject[] = [object, { object: 'key', id: key.id }];
    const fences = await Promise.all(objects.map((object) => raise(object)));
    expect(await link.closed).toBeDefined();

    const answer = await operator.post(`/platform/organizations/${ownTeam.id}/suspend`, REASON);
    const { message } = await expectError(answer, 503, 'SERVICE_UNAVAILABLE');
    expect(message).toContain('The change is stored');
    expect(await operator.read(`/platform/organizations?slug=${ownTeam.organization.slug}`)).toMatchObject({
      data: [{ status: 'SUSPENDED' }],
    });

    const expectShut = async () => {
      await expectError(await key.call('/vcp/sites'), 401, 'UNAUTHORIZED');
      expect((await dialAmqp(ownTeam.organization, key)).status).toBe(401);
      expect((await dialMqtt(device.id, device.token)).status).toBe(401);
    };
    await expectShut();
    for (const [index, object] of objects.entries()) await lower(object, fences[index] ?? '');
    await expectShut();
    const later = stopClock() + 120_000;
    setClock(later);
    const isOwn = ({ organizationId }: { organizationId: string }) => organizationId === ownTeam.id;
    expect((await dueChanges(env.DB, later, 100)).filter(isOwn)).toHaveLength(1);
    await announceDue(env, later);
    expect((await dueChanges(env.DB, later, 100)).filter(isOwn)).toEqual([]);
    await expectShut();
  });
});

describe('a restore that stops before it has settled the devices', () => {
  it('lets no device in that D1 has revoked, suspended or moved, and the next restore settles them', async ({
    ownTeam,
    object,
  }) => {
    const [revoked, suspended, moved] = await Promise.all([
      ownTeam.newTokenDevice({ plantId: object.id }),
      ownTeam.newTokenDevice({ plantId: object.id }),
      ownTeam.newTokenDevice({ plantId: object.id, type: 'SENSOR' }),
    ]);
    const text = await backUp(object);
    await ownTeam.admin.operate(revoked.id, 'revoke');
    await ownTeam.admin.operate(suspended.id, 'suspend');
    const elsewhere = (await ownTeam.newPlant()).id;
    await ownTeam.moveDevice(moved.id, elsewhere);

    const fence = await raise(object);
    await siteOf(object.id).stageBackup(fence, 0, text);
    expect(await siteOf(object.id).restoreBackup(object.id, fence)).toMatchObject({
      rows: expect.any(Number),
    });
    await lower(object, fence);
    const rows = `SELECT count(*) FROM device WHERE id = '${moved.id}'`;
    expect(await numberOf(object.id, rows), 'the restored tables still have the moved device').toBe(1);
    for (const one of [revoked, suspended]) expect((await dialMqtt(one.id, one.token)).status).toBe(401);
    // The moved device is served by the plant that D1 names, not by the restored one.
    await connect(moved);
    expect(await numberOf(elsewhere, `${rows} AND connection_id IS NOT NULL`)).toBe(1);

    const again = await raise(object);
    for (const [part, one] of (await readParts(object, again)).entries())
      await operator.post('/platform/backups/stage', { ...object, fence: again, part, text: one });
    const answer = await operator.post('/platform/backups/restore', { ...object, fence: again });
    expect(answer.status).toBe(200);
    expect(await numberOf(object.id, rows)).toBe(0);
  });
});
