/**
 * The plan of a site: the targets its plant receives while setpoints begin, hide or replace each other, and
 * end.
 */
import { setScene } from '#workerd/scene.ts';
import { HOUR, MINUTE, passTime, SECOND } from '#workerd/site-clock.ts';
import { connectListening, nthCommand } from '#workerd/site-devices.ts';
import {
  endOf,
  executionStatuses,
  obey,
  PLANNED,
  planned,
  rowOf,
  sentCommands,
  sentTo,
} from '#workerd/site-plan.ts';
import { numberOf } from '#workerd/site-rows.ts';
import { submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

describe('a HIGH setpoint over a NORMAL one', () => {
  it('a HIGH setpoint is sent, and the NORMAL one below stays EXECUTING [C-7.7]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const normal = planned(5, 'NORMAL', { forMs: HOUR });
    const high = planned(9, 'HIGH', { forMs: 10 * MINUTE });
    expect(await partner.acknowledge(normal)).toMatchObject({ status: 'ACCEPTED' });
    await obey(scene, 1);
    expect(await partner.acknowledge(high)).toMatchObject({ status: 'ACCEPTED' });
    await obey(scene, 2);
    expect(await sentTo(link, plant)).toEqual([5, 9]);
    expect(await endOf(plant, normal)).toBe('EXECUTING');
    expect(await endOf(plant, high)).toBe('EXECUTING');
  });

  it('the NORMAL setpoint is sent again with a new cmdId when the HIGH one ends, without a second EXECUTING [C-7.7]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const normal = planned(5, 'NORMAL', { forMs: HOUR });
    await partner.submit(normal);
    await obey(scene, 1);
    await partner.submit(planned(9, 'HIGH', { forMs: 10 * MINUTE }));
    await obey(scene, 2);
    await passTime(plant.id, 10 * MINUTE - 1);
    expect(await sentTo(link, plant)).toEqual([5, 9]);
    await passTime(plant.id, 1);
    expect(await sentTo(link, plant)).toEqual([5, 9, 5]);
    await obey(scene, 3, 'RECEIVED', 'IN_PROGRESS');
    const commands = await sentCommands(link, plant);
    expect(new Set(commands.map(({ cmdId }) => cmdId)).size).toBe(3);
    expect(commands[2]?.payload).toEqual(commands[0]?.payload);
    expect(await executionStatuses(scene, normal)).toEqual(['EXECUTING']);
    expect(await endOf(plant, normal)).toBe('EXECUTING');
  });

  it('an unacknowledged HIGH setpoint ends NO_ACK, and the NORMAL one resumes [C-7.8]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    await partner.submit(planned(5, 'NORMAL'));
    await obey(scene, 1);
    const high = planned(9, 'HIGH');
    await partner.submit(high);
    await passTime(plant.id, 90 * SECOND);
    expect(await endOf(plant, high)).toBe('FAILED NO_ACK');
    expect(await sentTo(link, plant)).toEqual([5, 9, 9, 9, 5]);
  });

  it('a NORMAL setpoint that its gateway acknowledges after a HIGH one was sent is EXECUTING, and ends unmeasured if the HIGH one outlasts it [C-7.8]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const normal = planned(5, 'NORMAL', { forMs: 10 * MINUTE });
    await partner.submit(normal, planned(9, 'HIGH', { forMs: HOUR }));
    await obey(scene, 1);
    await obey(scene, 2);
    expect(await endOf(plant, normal)).toBe('EXECUTING');
    await passTime(plant.id, 10 * MINUTE);
    expect(await endOf(plant, normal)).toBe('COMPLETED unmeasured');
    expect(await executionStatuses(scene, normal)).toEqual(['EXECUTING', 'COMPLETED unmeasured']);
    expect(await sentTo(link, plant)).toEqual([5, 9]);
  });

  it('a NORMAL setpoint that was displaced before its ack is not sent again, not even to a gateway that reconnects, until it returns [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    const normal = planned(5, 'NORMAL', { forMs: HOUR });
    await partner.submit(normal, planned(9, 'HIGH', { forMs: 10 * MINUTE }));
    await obey(scene, 2);
    const again = await connectListening(plant);
    expect(await sentTo(again, plant)).not.toContain(5);
    await passTime(plant.id, 5 * MINUTE);
    expect(await sentTo(again, plant)).not.toContain(5);
    expect(await endOf(plant, normal)).toBe('PENDING');
    await passTime(plant.id, 5 * MINUTE);
    expect(await sentTo(again, plant)).toContain(5);
    await obey({ link: again, plant }, (await sentTo(again, plant)).length);
    expect(await endOf(plant, normal)).toBe('EXECUTING');
  });

  it('a NORMAL setpoint that its gateway answers FAILED after a HIGH one was sent returns when the HIGH one ends [C-7.8]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const normal = planned(5, 'NORMAL', { forMs: HOUR });
    await partner.submit(normal, planned(9, 'HIGH', { forMs: 10 * MINUTE }));
    await obey(scene, 1, 'FAILED');
    await obey(scene, 2);
    expect(await endOf(plant, normal)).toBe('PENDING');
    await passTime(plant.id, 10 * MINUTE);
    await obey(scene, 3);
    expect(await sentTo(link, plant)).toEqual([5, 9, 5]);
    expect(await endOf(plant, normal)).toBe('EXECUTING');
  });

  it('when the device rejects the HIGH setpoint, it ends FAILED and the NORMAL one is sent again immediately [C-7.8]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const [normal, high] = [planned(5, 'NORMAL'), planned(9, 'HIGH')];
    await partner.submit(normal, high);
    await obey(scene, 2, 'FAILED');
    expect(await sentTo(link, plant)).toEqual([5, 9, 5]);
    const reason = `${plant.gateway.id}: device answered FAILED`;
    expect(await endOf(plant, high)).toBe(`FAILED ${reason}`);
    expect(await executionStatuses(scene, high)).toEqual([`FAILED ${reason}`]);
    expect(await endOf(plant, normal)).toBe('PENDING');
  });

  it('a NORMAL setpoint that was acknowledged while the HIGH one was active does not begin again when it returns [C-7.7]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    const normal = planned(5, 'NORMAL');
    await partner.submit(normal, planned(9, 'HIGH', { forMs: MINUTE }));
    await obey(scene, 2);
    await obey(scene, 1);
    expect(await endOf(plant, normal)).toBe('EXECUTING');
    await passTime(plant.id, MINUTE);
    await obey(scene, 3);
    expect(await endOf(plant, normal)).toBe('EXECUTING');
    expect(await executionStatuses(scene, normal)).toEqual(['EXECUTING']);
  });

  it('a short HIGH setpoint ends an open-ended HIGH one, and the NORMAL one resumes after it [C-7.6]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const [normal, high] = [planned(5, 'NORMAL'), planned(9, 'HIGH')];
    const short = planned(9, 'HIGH', { forMs: 10 * SECOND });
    await partner.submit(normal, high);
    await obey(scene, 2);
    await partner.submit(short);
    await obey(scene, 3);
    expect(await endOf(plant, high)).toBe(`FAILED SUPERSEDED by ${(await rowOf(plant, short)).id}`);
    await passTime(plant.id, 10 * SECOND);
    expect(await sentTo(link, plant)).toEqual([5, 9, 9, 5]);
    await obey(scene, 4);
    await passTime(plant.id, HOUR);
    expect(await sentTo(link, plant)).toEqual([5, 9, 9, 5]);
    expect(await endOf(plant, normal)).toBe('COMPLETED unmeasured');
  });
});

describe('a setpoint below the active one', () => {
  it('is QUEUED, and sent when the active one ends [C-7.6]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    await partner.submit(planned(9, 'HIGH', { forMs: 10 * MINUTE }));
    await obey(scene, 1);
    const normal = planned(5, 'NORMAL');
    expect(await partner.acknowledge(normal)).toMatchObject({ status: 'QUEUED' });
    await passTime(plant.id, 10 * MINUTE - 1);
    expect(await sentTo(link, plant)).toEqual([9]);
    expect(await endOf(plant, normal)).toBe('PENDING');
    expect(await rowOf(plant, normal)).not.toHaveProperty('dispatchedAt');
    await passTime(plant.id, 1);
    expect(await sentTo(link, plant)).toEqual([9, 5]);
    await obey(scene, 2);
    const dispatchedAt = formatInstant(Date.now());
    expect(await rowOf(plant, normal)).toMatchObject({ status: 'EXECUTING', dispatchedAt });
  });

  it('whose window passes unsent ends FAILED EXPIRED with COMMAND_EXPIRED [C-7.7]', async () => {
    const { scene, plant, link, partner, listener } = await setScene(PLANNED);
    await partner.submit(planned(9, 'HIGH'));
    await obey(scene, 1);
    const normal = planned(5, 'NORMAL', { forMs: MINUTE });
    await partner.submit(normal);
    await passTime(plant.id, MINUTE);
    expect(await endOf(plant, normal)).toBe('FAILED EXPIRED');
    expect(await sentTo(link, plant)).toEqual([9]);
    expect(await executionStatuses(scene, normal)).toEqual(['FAILED EXPIRED']);
    expect(listener.events('alarm').map(({ payload }) => payload.type)).toEqual(['COMMAND_EXPIRED']);
  });
});

describe('a newer setpoint of the same level', () => {
  it('a newer setpoint ends the older permanently, and the mode in force is sent when the newer ends [C-7.7]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const [older, newer] = [planned(5, 'NORMAL'), planned(7, 'NORMAL', { forMs: 10 * MINUTE })];
    await partner.submit(older);
    await obey(scene, 1);
    await partner.submit(newer);
    await obey(scene, 2);
    const reason = `SUPERSEDED by ${(await rowOf(plant, newer)).id}`;
    expect(await rowOf(plant, older)).toMatchObject({ status: 'FAILED', reason });
    await passTime(plant.id, 10 * MINUTE);
    expect(await sentTo(link, plant)).toEqual([5, 7, 'STANDARD']);
    const last = await nthCommand(link, 3);
    expect(last).toMatchObject({ action: 'MODE_CHANGE', payload: { mode: 'STANDARD' } });
    await obey(scene, 3, 'RECEIVED', 'COMPLETED');
    expect(await executionStatuses(scene, older)).toEqual(['EXECUTING', `FAILED ${reason}`]);
    expect(await executionStatuses(scene, newer)).toEqual(['EXECUTING', 'COMPLETED unmeasured']);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(0);
  });

  it('a newer setpoint with a future validFrom ends the older at that moment, also below a HIGH one [C-7.7]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const older = planned(5, 'NORMAL');
    const newer = planned(7, 'NORMAL', { inMs: 5 * MINUTE });
    await partner.submit(older, newer, planned(9, 'HIGH', { forMs: 10 * MINUTE }));
    await obey(scene, 2);
    await passTime(plant.id, 5 * MINUTE - 1);
    expect(await endOf(plant, older)).toBe('PENDING');
    await passTime(plant.id, 1);
    expect(await endOf(plant, older)).toBe(`FAILED SUPERSEDED by ${(await rowOf(plant, newer)).id}`);
    await passTime(plant.id, 5 * MINUTE);
    expect(await sentTo(link, plant)).toEqual([5, 9, 7]);
  });

  it('a newer setpoint does not replace one that ends when it begins [C-7.7]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const first = planned(5, 'NORMAL', { forMs: 10 * MINUTE });
    const next = planned(7, 'NORMAL', { inMs: 10 * MINUTE, forMs: 10 * MINUTE });
    await partner.submit(first, next);
    await obey(scene, 1);
    await passTime(plant.id, 10 * MINUTE);
    await obey(scene, 2);
    expect(await endOf(plant, first)).toBe('COMPLETED unmeasured');
    expect(await sentTo(link, plant)).toEqual([5, 7]);
  });
});

describe('a plan entry after its verdict', () => {
  it('a plan entry is still the target after its verdict, and resumes without further events [C-7.7]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const open = planned(5, 'NORMAL');
    await partner.submit(open);
    await obey(scene, 1);
    await passTime(plant.id, 5 * MINUTE - 1);
    expect(await endOf(plant, open)).toBe('EXECUTING');
    await passTime(plant.id, 1);
    expect(await endOf(plant, open)).toBe('COMPLETED unmeasured');
    await passTime(plant.id, 2 * HOUR);
    expect(await sentTo(link, plant)).toEqual([5]);
    await partner.submit(planned(9, 'HIGH', { forMs: MINUTE }));
    await obey(scene, 2);
    await passTime(plant.id, MINUTE);
    await obey(scene, 3, 'RECEIVED', 'COMPLETED');
    await passTime(plant.id, HOUR);
    expect(await sentTo(link, plant)).toEqual([5, 9, 5]);
    expect(await executionStatuses(scene, open)).toEqual(['EXECUTING', 'COMPLETED unmeasured']);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM plan_entry')).toBe(1);
  });

  it('is replaced without an event, because its command has ended [C-7.8]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const open = planned(5, 'NORMAL');
    await partner.submit(open);
    await obey(scene, 1);
    await passTime(plant.id, 5 * MINUTE);
    await partner.submit(planned(7, 'NORMAL'));
    expect(await sentTo(link, plant)).toEqual([5, 7]);
    expect(await endOf(plant, open)).toBe('COMPLETED unmeasured');
    expect(await executionStatuses(scene, open)).toHaveLength(2);
  });
});

describe('a mode next to setpoints', () => {
  it('a mode is sent immediately, then the active setpoint again, and the mode again when the setpoint ends [C-7.7]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const normal = planned(5, 'NORMAL', { forMs: 10 * MINUTE });
    await partner.submit(normal);
    await obey(scene, 1);
    const mode = submission('mode', { mode: 'PEAK_SHAVING' });
    expect(await partner.acknowledge(mode)).toMatchObject({ status: 'ACCEPTED' });
    await obey(scene, 2, 'COMPLETED');
    expect(await sentTo(link, plant)).toEqual([5, 'PEAK_SHAVING', 5]);
    await obey(scene, 3);
    await passTime(plant.id, 10 * MINUTE);
    expect(await sentTo(link, plant)).toEqual([5, 'PEAK_SHAVING', 5, 'PEAK_SHAVING']);
    expect(await executionStatuses(scene, normal)).toEqual(['EXECUTING', 'COMPLETED unmeasured']);
  });
});
