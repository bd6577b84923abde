/** The unacknowledged commands of a suspended device wait, because the device may be reactivated [C-3.3]. */
import { setScene } from '#workerd/scene.ts';
import { MINUTE, passTime, SECOND } from '#workerd/site-clock.ts';
import { connectListening, nthCommand, sendAck } from '#workerd/site-devices.ts';
import { endOf, executionsOf, PLANNED, type PlannedScene, planned, sentTo } from '#workerd/site-plan.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { charge, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import type { Submission } from '../../../../durable-objects/rpc.ts';

const DISPATCHES = 'SELECT count(*) FROM dispatch';

const KINDS: [string, () => Submission][] = [
  ['a device command', () => charge()],
  ['a setpoint', () => planned(5, 'HIGH')],
  ['an emergency', () => submission('emergency', { type: 'STOP' })],
  ['a mode', () => submission('mode', { mode: 'ZERO_EXPORT' })],
];

/** Lets the site send the command `tries` times to its only gateway, which does not answer and is then suspended. */
async function newSuspended(publish: Submission, tries = 1): Promise<PlannedScene> {
  const scene = await setScene(PLANNED);
  await scene.partner.submit(publish);
  await nthCommand(scene.link, 1);
  if (tries > 1) await passTime(scene.plant.id, (tries - 1) * 30 * SECOND);
  await scene.site.setDeviceStatus(scene.gateway.id, 'SUSPENDED');
  return scene;
}

describe.each(KINDS)('%s that the only gateway received and has not answered', (_title, publishOf) => {
  it('the command waits while the gateway is suspended after two tries, past each retry time [C-7.8]', async () => {
    const publish = publishOf();
    const scene = await newSuspended(publish, 2);
    for (const ms of [29 * SECOND, SECOND, SECOND, 30 * SECOND, 5 * MINUTE]) {
      await passTime(scene.plant.id, ms);
      expect([ms, await endOf(scene.plant, publish)]).toEqual([ms, 'PENDING']);
    }
  });

  it('the command is sent again after an eviction and the reactivation, and the ack of the gateway advances it', async () => {
    const publish = publishOf();
    const scene = await newSuspended(publish);
    const { plant, gateway, site } = scene;
    await passTime(plant.id, 2 * MINUTE);
    await evictSite(plant.id);
    await site.setDeviceStatus(gateway.id, 'ACTIVE');
    await passTime(plant.id, 31 * SECOND);
    expect(await endOf(plant, publish)).toBe('PENDING');
    const link = await connectListening(plant);
    expect(await sentTo(link, plant)).toHaveLength(1);
    await sendAck(link, gateway, (await nthCommand(link, 1)).cmdId, 'RECEIVED');
    expect(await endOf(plant, publish)).toBe('EXECUTING');
  });

  it('the command ends FAILED DEVICE_GONE when the suspended gateway is deleted [C-3.2]', async () => {
    const publish = publishOf();
    const { plant, gateway, site } = await newSuspended(publish);
    await passTime(plant.id, MINUTE);
    await site.forgetDevice(gateway.id);
    await passTime(plant.id, MINUTE);
    expect(await endOf(plant, publish)).toMatch(/^FAILED DEVICE_GONE/);
  });
});

describe('commands that wait for a suspended gateway', () => {
  it('a command ends FAILED once when its time is over, and is not sent after the reactivation [C-7.6]', async () => {
    const publish = charge();
    const scene = await newSuspended(publish);
    await passTime(scene.plant.id, 20 * MINUTE);
    expect(await endOf(scene.plant, publish)).toMatch(/^FAILED (NO_ACK|EXPIRED)/);
    expect(await executionsOf(scene, publish)).toMatchObject([{ status: 'FAILED' }]);
    expect(await numberOf(scene.plant.id, DISPATCHES)).toBe(0);
    await scene.site.setDeviceStatus(scene.gateway.id, 'ACTIVE');
    expect(await sentTo(await connectListening(scene.plant), scene.plant)).toEqual([]);
  });

  it('a REST command is sent after the reactivation, or ends FAILED when its time is over before [C-3.4]', async () => {
    const { plant, site, gateway, link } = await setScene(PLANNED);
    const ask = async (idempotencyKey: string, validUntilMs: number | null) => {
      const asked = { action: 'PING', payload: {}, validUntilMs, idempotencyKey };
      const answer = await site.submitRestCommand(gateway.id, asked);
      if (!('command' in answer)) throw new Error(answer.refused);
      return answer.command.cmdId;
    };
    const [short, long] = [await ask('a', Date.now() + MINUTE), await ask('b', null)];
    await nthCommand(link, 2);
    await site.setDeviceStatus(gateway.id, 'SUSPENDED');
    await passTime(plant.id, 31 * SECOND);
    for (const cmdId of [short, long]) {
      expect(await site.findRestCommand(gateway.id, cmdId)).not.toHaveProperty('reason');
    }
    await passTime(plant.id, 5 * MINUTE);
    const ended = await site.findRestCommand(gateway.id, short);
    expect(ended).toMatchObject({ status: 'FAILED', reason: expect.stringMatching(/^(NO_ACK|EXPIRED)$/) });
    expect(await site.findRestCommand(gateway.id, long)).toMatchObject({ status: 'PENDING' });
    await site.setDeviceStatus(gateway.id, 'ACTIVE');
    const again = await connectListening(plant);
    expect((await nthCommand(again, 1)).cmdId).toBe(long);
    await sendAck(again, gateway, long, 'COMPLETED');
    expect(await site.findRestCommand(gateway.id, long)).toMatchObject({ status: 'COMPLETED' });
  });
});
