/**
 * A plant that returns receives the current target once; a plant whose temporary mode ends receives the mode
 * in force.
 */
import { setScene } from '#workerd/scene.ts';
import { HOUR, MINUTE, passTime, SECOND } from '#workerd/site-clock.ts';
import { connectListening, nthCommand, sendAck, subscribe } from '#workerd/site-devices.ts';
import {
  AWAY,
  endOf,
  executionStatuses,
  obey,
  PLANNED,
  type PlannedScene,
  planned,
  rowOf,
  sentCommands,
  sentTo,
} from '#workerd/site-plan.ts';
import { readConfig } from '#workerd/site-reads.ts';
import { crashSite, evictSite, numberOf } from '#workerd/site-rows.ts';
import { submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

/** The gateway accepts a mode for the given time, as its n-th command. */
async function overrideFor(scene: PlannedScene, forMs: number, n: number, mode = 'MAX_EXPORT') {
  const validUntil = formatInstant(Date.now() + forMs);
  await scene.partner.submit(submission('mode', { mode, validUntil }));
  await obey(scene, n, 'RECEIVED', 'COMPLETED');
}

describe('a gateway that was offline while the plan changed', () => {
  it('after several changes a returning gateway receives only the current setpoint [C-7.7]', async () => {
    const { plant, partner } = await setScene(AWAY);
    await partner.submit(
      planned(1, 'NORMAL'),
      planned(2, 'NORMAL', { inMs: MINUTE }),
      planned(3, 'HIGH', { inMs: 2 * MINUTE, forMs: 10 * MINUTE }),
      planned(4, 'HIGH', { inMs: 3 * MINUTE, forMs: MINUTE }),
      planned(5, 'NORMAL', { inMs: 5 * MINUTE, forMs: HOUR }),
    );
    await passTime(plant.id, 10 * MINUTE);
    const link = await connectListening(plant);
    expect(await sentTo(link, plant)).toEqual([5]);
    await obey({ link, plant }, 1);
    await passTime(plant.id, MINUTE);
    expect(await sentTo(link, plant)).toEqual([5]);
  });

  it('a returning gateway receives the setpoint that is active again once, under a new cmdId [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    const normal = planned(5, 'NORMAL');
    await partner.submit(normal);
    const { cmdId } = await obey(scene, 1);
    await crashSite(plant.id);
    await partner.submit(planned(9, 'HIGH', { forMs: MINUTE }));
    await passTime(plant.id, 2 * MINUTE);
    const next = await connectListening(plant);
    expect(await sentTo(next, plant)).toEqual([5]);
    expect((await sentCommands(next, plant))[0]?.cmdId).not.toBe(cmdId);
    await obey({ link: next, plant }, 1);
    expect(await executionStatuses(scene, normal)).toEqual(['EXECUTING']);
    expect(link.received.filter((frame) => frame.kind === 'command')).toHaveLength(1);
  });

  it('a returning gateway receives the mode in force once if no setpoint is active any more [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    await partner.submit(planned(5, 'NORMAL', { forMs: MINUTE }));
    await obey(scene, 1);
    await crashSite(plant.id);
    await passTime(plant.id, HOUR);
    const link = await connectListening(plant);
    expect(await sentTo(link, plant)).toEqual(['STANDARD']);
    await obey({ link, plant }, 1, 'RECEIVED', 'COMPLETED');
    await evictSite(plant.id);
    expect(await sentTo(link, plant)).toEqual(['STANDARD']);
  });

  it('a gateway that connects first after the last setpoint expired receives the mode in force [C-7.7]', async () => {
    const { plant, partner } = await setScene(AWAY);
    const passed = planned(5, 'NORMAL', { forMs: MINUTE });
    await partner.submit(passed);
    await passTime(plant.id, MINUTE);
    expect(await endOf(plant, passed)).toBe('FAILED EXPIRED');
    const link = await connectListening(plant);
    expect(await sentTo(link, plant)).toEqual(['STANDARD']);
  });
});

describe('a gateway that returns while a setpoint is active', () => {
  it('a returning gateway receives the active setpoint once per session under its cmdId, without a new event [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    const normal = planned(5, 'NORMAL', { forMs: HOUR });
    await partner.submit(normal);
    const { cmdId } = await obey(scene, 1);
    await subscribe(link, plant.gateway);
    expect(await sentTo(link, plant)).toEqual([5]);
    for (let session = 0; session < 3; session++) {
      await passTime(plant.id, 10 * SECOND);
      const next = await connectListening(plant);
      await obey({ link: next, plant }, 1, 'RECEIVED', 'COMPLETED');
      next.send({ kind: 'subscribed', commands: false });
      await subscribe(next, plant.gateway);
      await evictSite(plant.id);
      await subscribe(next, plant.gateway);
      const commands = await sentCommands(next, plant);
      expect(commands.map((command) => command.cmdId)).toEqual([cmdId]);
    }
    expect(await endOf(plant, normal)).toBe('EXECUTING');
    expect(await executionStatuses(scene, normal)).toEqual(['EXECUTING']);
  });

  it('a returning gateway receives an active setpoint after its verdict too [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    await partner.submit(planned(5, 'NORMAL'));
    const { cmdId } = await obey(scene, 1);
    await crashSite(plant.id);
    await passTime(plant.id, HOUR);
    const next = await connectListening(plant);
    const commands = await sentCommands(next, plant);
    expect(commands.map((command) => command.cmdId)).toEqual([cmdId]);
  });

  it('a returning gateway does not receive a setpoint that is below another one [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    await partner.submit(planned(5, 'NORMAL'));
    await obey(scene, 1);
    await partner.submit(planned(9, 'HIGH'));
    await obey(scene, 2);
    const next = await connectListening(plant);
    expect(await sentTo(next, plant)).toEqual([9]);
  });

  it('a returning gateway receives an active emergency, before and after it completed it [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    await partner.submit(planned(5, 'NORMAL'), submission('emergency', { type: 'STOP' }));
    await nthCommand(scene.link, 2);
    const next = await connectListening(plant);
    expect(await sentTo(next, plant)).toEqual(['EMERGENCY_STOP']);
    await obey({ link: next, plant }, 1, 'RECEIVED', 'COMPLETED');
    const last = await connectListening(plant);
    expect(await sentTo(last, plant)).toEqual(['EMERGENCY_STOP']);
  });
});

describe('a mode with validUntil', () => {
  it('ends at that time: the mode in force is sent, and the snapshot has no override [C-7.7]', async () => {
    const { scene, plant, link } = await setScene(PLANNED);
    await overrideFor(scene, 10 * MINUTE, 1);
    expect((await readConfig(plant.id)).modeOverride).toMatchObject({ mode: 'MAX_EXPORT' });
    await passTime(plant.id, 10 * MINUTE - 1);
    expect(await sentTo(link, plant)).toEqual(['MAX_EXPORT']);
    expect((await readConfig(plant.id)).modeOverride).not.toBeNull();
    await evictSite(plant.id);
    await passTime(plant.id, 1);
    expect(await sentTo(link, plant)).toEqual(['MAX_EXPORT', 'STANDARD']);
    expect(await readConfig(plant.id)).toMatchObject({ modeOverride: null, operatingMode: 'STANDARD' });
    await obey(scene, 2, 'RECEIVED', 'COMPLETED');
    await passTime(plant.id, HOUR);
    expect(await sentTo(link, plant)).toHaveLength(2);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM command')).toBe(1);
  });

  it('still ends at that time if it was sent again to its gateway [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    const validUntil = formatInstant(Date.now() + 10 * MINUTE);
    await partner.submit(submission('mode', { mode: 'MAX_EXPORT', validUntil }));
    await obey(scene, 1, 'RECEIVED');
    const next = await connectListening(plant);
    await obey({ link: next, plant }, 1, 'COMPLETED');
    await passTime(plant.id, 10 * MINUTE);
    expect(await sentTo(next, plant)).toEqual(['MAX_EXPORT', 'STANDARD']);
  });

  it('a mode that ends under a setpoint sends nothing, and the mode in force is sent after that setpoint [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await overrideFor(scene, 10 * MINUTE, 1);
    await partner.submit(planned(5, 'NORMAL', { forMs: 20 * MINUTE }));
    await obey(scene, 2);
    await passTime(plant.id, 20 * MINUTE - 1);
    expect(await sentTo(link, plant)).toEqual(['MAX_EXPORT', 5]);
    expect((await readConfig(plant.id)).modeOverride).toBeNull();
    await passTime(plant.id, 1);
    expect(await sentTo(link, plant)).toEqual(['MAX_EXPORT', 5, 'STANDARD']);
  });

  it('is sent again when a setpoint above it ends first [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await overrideFor(scene, 20 * MINUTE, 1);
    await partner.submit(planned(5, 'NORMAL', { forMs: 10 * MINUTE }));
    await obey(scene, 2);
    await passTime(plant.id, 10 * MINUTE);
    expect(await sentTo(link, plant)).toEqual(['MAX_EXPORT', 5, 'MAX_EXPORT']);
    await obey(scene, 3, 'COMPLETED');
    await passTime(plant.id, 10 * MINUTE);
    expect(await sentTo(link, plant)).toEqual(['MAX_EXPORT', 5, 'MAX_EXPORT', 'STANDARD']);
  });

  it('sends nothing at its end if a permanent mode replaced it [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    await overrideFor(scene, 10 * MINUTE, 1);
    await partner.submit(submission('mode', { mode: 'PEAK_SHAVING' }));
    await obey(scene, 2, 'COMPLETED');
    await passTime(plant.id, HOUR);
    expect(await sentTo(link, plant)).toEqual(['MAX_EXPORT', 'PEAK_SHAVING']);
  });

  it('an older mode that was sent again after a newer one ends with the ack of the newer, which is sent once more [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    const older = submission('mode', { mode: 'MAX_EXPORT' });
    const newer = submission('mode', { mode: 'PEAK_SHAVING' });
    await partner.submit(older);
    await passTime(plant.id, 10 * SECOND);
    await partner.submit(newer);
    await passTime(plant.id, 20 * SECOND);
    expect(await sentTo(link, plant)).toEqual(['MAX_EXPORT', 'PEAK_SHAVING', 'MAX_EXPORT']);
    await obey(scene, 2, 'RECEIVED', 'COMPLETED');
    expect(await endOf(plant, older)).toMatch(/^FAILED SUPERSEDED by /);
    expect(await sentTo(link, plant)).toEqual(['MAX_EXPORT', 'PEAK_SHAVING', 'MAX_EXPORT', 'PEAK_SHAVING']);
  });

  it('a mode whose validUntil passes while its plant is offline ends FAILED EXPIRED, and never takes effect [C-7.7]', async () => {
    const { plant, partner } = await setScene(AWAY);
    const validUntil = formatInstant(Date.now() + 10 * MINUTE);
    const mode = submission('mode', { mode: 'MAX_EXPORT', validUntil });
    expect(await partner.acknowledge(mode)).toMatchObject({ status: 'QUEUED' });
    await passTime(plant.id, 10 * MINUTE);
    expect(await endOf(plant, mode)).toBe('FAILED EXPIRED');
    expect(await readConfig(plant.id)).toMatchObject({ modeOverride: null, operatingMode: 'STANDARD' });
  });
});

describe('the plan of an offline plant', () => {
  it('an unsent setpoint of an offline plant ends FAILED EXPIRED with COMMAND_EXPIRED, and the plan continues [C-7.7]', async () => {
    const { scene, plant, partner, listener } = await setScene(AWAY);
    const [normal, high] = [planned(5, 'NORMAL'), planned(9, 'HIGH', { forMs: MINUTE })];
    for (const one of [normal, high]) {
      expect(await partner.acknowledge(one)).toMatchObject({ status: 'QUEUED' });
    }
    await passTime(plant.id, MINUTE);
    expect(await endOf(plant, high)).toBe('FAILED EXPIRED');
    expect(await executionStatuses(scene, high)).toEqual(['FAILED EXPIRED']);
    expect(listener.events('alarm').map(({ payload }) => payload.type)).toEqual(['COMMAND_EXPIRED']);
    const link = await connectListening(plant);
    const { cmdId } = await nthCommand(link, 1);
    await sendAck(link, plant.gateway, cmdId, 'RECEIVED');
    expect(await sentTo(link, plant)).toEqual([5]);
    expect(await rowOf(plant, normal)).toMatchObject({ status: 'EXECUTING' });
  });
});
