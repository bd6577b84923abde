/**
 * A schedule from its publish to its end: the slots its plant receives, and the events for its partner
 * [C-7.9].
 */
import { setScene } from '#workerd/scene.ts';
import { DAY, HOUR, MINUTE, passTime, SECOND, START_MS } from '#workerd/site-clock.ts';
import { commandsOf, connectListening } from '#workerd/site-devices.ts';
import {
  AWAY,
  endOf,
  executionStatuses,
  executionsOf,
  obey,
  PLANNED,
  planned,
  receivedAlarms,
  rowOf,
  sentCommands,
  sentTo,
} from '#workerd/site-plan.ts';
import { readCommands, readConfig } from '#workerd/site-reads.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { cancel, readSchedules, schedule, scheduleOf, statuses } from '#workerd/site-schedules.ts';
import { Submitter, submission, violation } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

describe('a schedule that its plant follows', () => {
  it('a schedule is PENDING, ACCEPTED by its ack, ACTIVE when its window opens, COMPLETED after its last slot [C-7.9]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const set = schedule([5, -3, 'PEAK_SHAVING'], { inMs: MINUTE });
    expect(await partner.acknowledge(set)).toEqual({ status: 'ACCEPTED', commandType: 'SCHEDULE' });
    expect(await statuses(plant.id)).toEqual(['PENDING']);
    await obey(scene, 1, 'RECEIVED', 'COMPLETED');
    expect(await statuses(plant.id)).toEqual(['ACCEPTED']);
    expect(await endOf(plant, set)).toBe('PENDING');
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET']);
    await passTime(plant.id, MINUTE);
    expect(await statuses(plant.id)).toEqual(['ACTIVE']);
    expect(await endOf(plant, set)).toBe('EXECUTING');
    await obey(scene, 2, 'RECEIVED', 'COMPLETED');
    await passTime(plant.id, MINUTE);
    await obey(scene, 3, 'COMPLETED');
    await passTime(plant.id, MINUTE);
    await obey(scene, 4, 'RECEIVED');
    await passTime(plant.id, MINUTE - 1);
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', 5, -3, 'PEAK_SHAVING']);
    expect(await endOf(plant, set)).toBe('EXECUTING');
    await passTime(plant.id, 1);
    // After the schedule the plant follows its mode.
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', 5, -3, 'PEAK_SHAVING', 'STANDARD']);
    expect(await statuses(plant.id)).toEqual(['COMPLETED']);
    expect(await endOf(plant, set)).toBe('COMPLETED');
    expect(await executionsOf(scene, set)).toEqual([
      { commandType: 'SCHEDULE', status: 'EXECUTING' },
      { commandType: 'SCHEDULE', status: 'COMPLETED' },
    ]);
    expect(scene.listener.events('alarm')).toEqual([]);
  });

  it('a schedule is sent as a whole, so that the gateway can run it offline, and then slot by slot [C-7.9], [C-7.10]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const scheduleId = crypto.randomUUID();
    const startMs = Date.now();
    const payload = scheduleOf([5.25, 'ZERO_EXPORT'], { scheduleId, slotMinutes: 15 });
    const set = submission('schedule', payload);
    await partner.submit(set);
    await obey(scene, 1, 'COMPLETED');
    await obey(scene, 2, 'COMPLETED');
    await passTime(plant.id, 15 * MINUTE);
    const commands = await sentCommands(link, plant);
    expect(commands.map(({ action, payload: what }) => [action, what])).toEqual([
      [
        'SCHEDULE_SET',
        {
          scheduleId,
          sequence: expect.any(Number),
          startTime: formatInstant(startMs),
          endTime: formatInstant(startMs + 30 * MINUTE),
          slotDurationMinutes: 15,
          slots: payload.slots,
        },
      ],
      [
        'SITE_SETPOINT',
        {
          scheduleId,
          slotIndex: 0,
          mode: 'STANDARD',
          targetSignedKw: 5.25,
          validUntil: formatInstant(startMs + 15 * MINUTE),
        },
      ],
      [
        'MODE_CHANGE',
        { scheduleId, slotIndex: 1, mode: 'ZERO_EXPORT', validUntil: formatInstant(startMs + 30 * MINUTE) },
      ],
    ]);
    // The mode of a slot applies only during the slot, and is not the mode in force.
    expect(await readConfig(plant.id)).toMatchObject({ operatingMode: 'STANDARD', modeOverride: null });
  });

  it('a schedule that began before it was sent is followed from the current slot on [C-7.9]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const set = schedule([1, 2, 3], { inMs: -90 * SECOND });
    await partner.submit(set);
    await obey(scene, 1, 'COMPLETED');
    expect(await statuses(plant.id)).toEqual(['ACTIVE']);
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', 2]);
    expect((await sentCommands(link, plant))[1]?.payload.slotIndex).toBe(1);
  });

  it('a schedule without an id has the id of its command, and a re-send gets the same acknowledgement [C-7.3]', async () => {
    const { plant, partner, link } = await setScene(PLANNED);
    const set = schedule([1]);
    const acknowledgement = await partner.acknowledge(set);
    expect(await partner.acknowledge(set)).toEqual(acknowledgement);
    expect(await readSchedules(plant.id)).toMatchObject([{ id: (await rowOf(plant, set)).id }]);
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET']);
  });

  it('the log row of a schedule has its type and window [C-4.3]', async () => {
    const { plant, partner } = await setScene(PLANNED);
    const set = schedule([1, 2], { inMs: MINUTE });
    await partner.submit(set);
    expect(await rowOf(plant, set)).toMatchObject({
      commandType: 'SCHEDULE',
      routingKey: 'acme.schedule.set',
      target: 'SITE',
      status: 'PENDING',
      validFrom: formatInstant(Date.now() + MINUTE),
      validUntil: formatInstant(Date.now() + 3 * MINUTE),
      decision: { stage: 'dispatch', facts: { dispatches: [{ action: 'SCHEDULE_SET', isThere: true }] } },
    });
  });
});

describe('a schedule that its plant does not accept', () => {
  it('a schedule that its gateway rejects, even after RECEIVED, is FAILED, and no further slot is sent [C-7.9]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const [refused, dropped] = [schedule([1]), schedule([2, 3])];
    await partner.submit(refused);
    await obey(scene, 1, 'FAILED');
    expect(await endOf(plant, refused)).toBe(`FAILED ${plant.gateway.id}: device answered FAILED`);
    await partner.submit(dropped);
    await obey(scene, 2, 'RECEIVED');
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', 'SCHEDULE_SET', 2]);
    expect(await endOf(plant, dropped)).toBe('EXECUTING');
    await obey(scene, 2, 'FAILED');
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', 'SCHEDULE_SET', 2, 'STANDARD']);
    expect(await endOf(plant, dropped)).toBe(`FAILED ${plant.gateway.id}: device answered FAILED`);
    expect(await statuses(plant.id)).toEqual(['FAILED', 'FAILED']);
    await obey(scene, 4, 'COMPLETED');
    await passTime(plant.id, 3 * MINUTE);
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', 'SCHEDULE_SET', 2, 'STANDARD']);
  });

  it('an unacknowledged schedule is FAILED NO_ACK after three tries, and is not followed meanwhile [C-7.8]', async () => {
    const { plant, link, partner } = await setScene(PLANNED);
    const set = schedule([1, 2, 3]);
    await partner.submit(set);
    await passTime(plant.id, 90 * SECOND);
    expect(await sentTo(link, plant)).toEqual(Array(3).fill('SCHEDULE_SET'));
    expect(await endOf(plant, set)).toBe('FAILED NO_ACK');
    expect(await statuses(plant.id)).toEqual(['FAILED']);
  });

  it('a schedule waits for an offline gateway until the end of its window, and ends EXPIRED with an alarm [C-7.6]', async () => {
    const { scene, plant, partner } = await setScene(AWAY);
    const set = schedule([1, 2]);
    expect(await partner.acknowledge(set)).toEqual({ status: 'QUEUED', commandType: 'SCHEDULE' });
    await passTime(plant.id, 2 * MINUTE - 1);
    expect(await statuses(plant.id)).toEqual(['PENDING']);
    await passTime(plant.id, 1);
    expect(await endOf(plant, set)).toBe('FAILED EXPIRED');
    expect(await statuses(plant.id)).toEqual(['FAILED']);
    const expired = { type: 'COMMAND_EXPIRED', commandType: 'SCHEDULE' };
    expect(await receivedAlarms(scene)).toMatchObject([expired]);
    expect(await readCommands(plant.id, 1, 10)).toMatchObject({ total: 1 });
  });

  it('a waiting schedule is sent when its gateway connects, and is followed from then on [C-7.6]', async () => {
    const { plant, partner } = await setScene(AWAY);
    await partner.submit(schedule([1, 2, 3]));
    await passTime(plant.id, 70 * SECOND);
    const link = await connectListening(plant);
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET']);
    await obey({ link, plant }, 1, 'COMPLETED');
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', 2]);
    expect(await statuses(plant.id)).toEqual(['ACTIVE']);
  });
});

describe('a slot that its plant does not accept', () => {
  it('a rejected or unanswered slot is skipped with an alarm, and the schedule continues [C-7.9]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const set = schedule([1, 2, 3], { slotMinutes: 5 });
    await partner.submit(set);
    await obey(scene, 1, 'COMPLETED');
    await obey(scene, 2, 'RECEIVED', 'FAILED');
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', 1, 'STANDARD']);
    await obey(scene, 3, 'COMPLETED');
    await passTime(plant.id, 5 * MINUTE + 90 * SECOND);
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', 1, 'STANDARD', 2, 2, 2, 'STANDARD']);
    await obey(scene, 7, 'COMPLETED');
    await passTime(plant.id, 5 * MINUTE - 90 * SECOND);
    await obey(scene, 8, 'COMPLETED');
    await passTime(plant.id, 5 * MINUTE);
    expect(await endOf(plant, set)).toBe(
      'COMPLETED slot 0 skipped: device answered FAILED; slot 1 skipped: NO_ACK',
    );
    expect(await receivedAlarms(scene)).toMatchObject([
      { type: 'SETPOINT_DEVIATION', message: 'SCHEDULE slot 0 is no longer active: device answered FAILED' },
      { type: 'SETPOINT_DEVIATION', message: 'SCHEDULE slot 1 is no longer active: NO_ACK' },
    ]);
  });

  it('a schedule whose slots were all skipped is FAILED with their reasons [C-7.9]', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    const set = schedule([1], { slotMinutes: 5 });
    await partner.submit(set);
    await obey(scene, 1, 'COMPLETED');
    await obey(scene, 2, 'FAILED');
    await passTime(plant.id, 5 * MINUTE);
    expect(await endOf(plant, set)).toBe('FAILED slot 0 skipped: device answered FAILED');
    expect(await statuses(plant.id)).toEqual(['FAILED']);
  });
});

describe('a cancelled schedule', () => {
  it('ends immediately, SCHEDULE_CANCEL is sent, and the plant follows the rest of the plan [C-7.9]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const scheduleId = crypto.randomUUID();
    const set = schedule([5, 6], { scheduleId });
    await partner.submit(planned(2, 'NORMAL'), set);
    await obey(scene, 1);
    await obey(scene, 2, 'COMPLETED');
    await obey(scene, 3, 'COMPLETED');
    expect(await sentTo(link, plant)).toEqual([2, 'SCHEDULE_SET', 5]);
    const end = cancel(scheduleId, { reason: 'the market has moved' });
    expect(await partner.acknowledge(end)).toEqual({ status: 'ACCEPTED', commandType: 'SCHEDULE' });
    expect(await sentTo(link, plant)).toEqual([2, 'SCHEDULE_SET', 5, 'SCHEDULE_CANCEL', 2]);
    expect((await sentCommands(link, plant))[3]?.payload).toEqual({ scheduleId });
    expect(await statuses(plant.id)).toEqual(['CANCELLED']);
    expect(await executionStatuses(scene, set)).toEqual(['EXECUTING', 'FAILED CANCELLED']);
    await obey(scene, 4, 'COMPLETED');
    expect(await executionStatuses(scene, end)).toEqual(['EXECUTING', 'COMPLETED']);
    await obey(scene, 5);
    await passTime(plant.id, HOUR);
    expect((await sentTo(link, plant)).slice(5)).toEqual([]);
  });

  it('is that of the cancelling partner, although another partner used the same scheduleId [C-15.1]', async () => {
    const { plant, link, partner } = await setScene(PLANNED);
    const scheduleId = crypto.randomUUID();
    await partner.submit(schedule([5, 6], { scheduleId }));
    const other = new Submitter(plant.id, crypto.randomUUID(), 'another');
    const second = schedule([7, 8], { scheduleId, inMs: HOUR });
    expect(await other.acknowledge(second)).toMatchObject({ status: 'ACCEPTED' });
    expect(await other.acknowledge(cancel(scheduleId))).toMatchObject({ status: 'ACCEPTED' });
    const { id } = await rowOf(plant, second);
    const ids = (await sentCommands(link, plant)).map(({ action, payload }) => [action, payload.scheduleId]);
    expect(ids).toEqual([
      ['SCHEDULE_SET', scheduleId],
      ['SCHEDULE_SET', id],
      ['SCHEDULE_CANCEL', id],
    ]);
    expect(await statuses(plant.id)).toEqual(['PENDING', 'CANCELLED']);
  });

  it('a schedule cancelled before it was sent is sent only as SCHEDULE_CANCEL [C-7.9]', async () => {
    const { plant, partner } = await setScene(AWAY);
    const scheduleId = crypto.randomUUID();
    const set = schedule([5, 6], { scheduleId, inMs: MINUTE });
    await partner.submit(set);
    expect(await partner.acknowledge(cancel(scheduleId))).toMatchObject({ status: 'QUEUED' });
    expect(await endOf(plant, set)).toBe('FAILED CANCELLED');
    const link = await connectListening(plant);
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_CANCEL']);
    await passTime(plant.id, 2 * MINUTE);
    expect(commandsOf(link).filter(({ action }) => action === 'SITE_SETPOINT')).toEqual([]);
  });
});

describe('an invalid schedule', () => {
  const UNKNOWN = '00000000-0000-4000-8000-00000000dead';
  const slot = (slotIndex: number, more: object = {}) => ({ slotIndex, mode: 'STANDARD', ...more });
  const AT_ONCE = formatInstant(START_MS);
  const slots = [slot(0)];
  const tooMany = Array.from({ length: 673 }, (_none, index) => slot(index));
  const withSetpoint = (setpoint: object) => [slot(0, { setpoint })];
  const sixteenMinutesLater = formatInstant(START_MS + 16 * MINUTE);

  it.for<[string, object, RegExp, word?: string]>([
    ['no slots', { slots: [] }, /^slots: /],
    ['more than 672 slots', { slots: tooMany }, /^slots: /],
    ['slots that do not begin at 0', { slots: [slot(1)] }, /^slots\.0\.slotIndex: /],
    ['slots with a gap', { slots: [slot(0), slot(2)] }, /^slots\.1\.slotIndex: must be 1/],
    ['slots of 0 minutes', { slotDurationMinutes: 0, slots }, /^slotDurationMinutes: /],
    ['slots of 61 minutes', { slotDurationMinutes: 61, slots }, /^slotDurationMinutes: /],
    ['an end that differs from the end of its slots', { endTime: sixteenMinutesLater, slots }, /^endTime: /],
    ['a time without a zone', { startTime: '2030-03-05T09:00:00', slots }, /^startTime: /],
    ['a past window', { startTime: '2030-03-05T08:45:00Z', slots }, /^endTime: must be in the future/],
    ['an unknown mode', { slots: [slot(0, { mode: 'DANCE' })] }, /^slots\.0\.mode: /],
    ['a setpoint without a value', { slots: withSetpoint({}) }, /^slots\.0\.setpoint\.value: /],
    ['a value over a billion', { slots: withSetpoint({ value: 1.1e9 }) }, /^slots\.0\.setpoint\.value: /],
    ['an unknown field', { slots, priority: 'HIGH' }, /priority/],
    ['an invalid id', { scheduleId: 'mine', slots }, /^scheduleId: /],
    ['a routing key that ends with put', { slots }, /schedule\.put; use schedule\.set or/, 'put'],
    ['an unknown schedule to cancel', { scheduleId: UNKNOWN }, /no such schedule/, 'cancel'],
    ['nothing to cancel', {}, /^scheduleId: /, 'cancel'],
    ['a start under schedule.cancel', { scheduleId: UNKNOWN, startTime: AT_ONCE }, /startTime/, 'cancel'],
    ['slots under schedule.cancel', { scheduleId: UNKNOWN, slots }, /slots/, 'cancel'],
  ])(
    'a schedule message with this error is INVALID_PAYLOAD, and nothing of it is stored: %s [C-7.9]',
    async ([_what, fields, message, word = 'set'], { plannedSite: { plant, partner, link } }) => {
      const routingKey = `acme.schedule.${word}`;
      const payload = word === 'cancel' ? fields : { startTime: AT_ONCE, ...fields };
      expect(await partner.acknowledge(submission('schedule', payload, { routingKey }))).toMatchObject({
        status: 'REJECTED',
        commandType: 'SCHEDULE',
        rejectionCode: 'INVALID_PAYLOAD',
        message: expect.stringMatching(message),
      });
      expect(await readSchedules(plant.id)).toEqual([]);
      expect(await sentTo(link, plant)).toEqual([]);
    },
  );

  it('a used scheduleId, open or ended, and the cancel of an ended schedule are rejected [C-7.9]', async () => {
    const { plant, partner } = await setScene(PLANNED);
    const scheduleId = crypto.randomUUID();
    await partner.submit(schedule([1], { scheduleId }));
    const message = expect.stringMatching(/scheduleId: another/);
    const taken = { status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD', message };
    const same = { scheduleId: scheduleId.toUpperCase(), inMs: DAY };
    const again = () => partner.acknowledge(schedule([2], same));
    expect(await again()).toMatchObject(taken);
    await partner.submit(cancel(scheduleId));
    expect(await again()).toMatchObject(taken);
    expect(await partner.acknowledge(cancel(scheduleId))).toMatchObject({
      status: 'REJECTED',
      message: 'scheduleId: the schedule is already CANCELLED',
    });
    expect(await readSchedules(plant.id)).toHaveLength(1);
  });

  it('a schedule with slots over a limit is CONSTRAINT_VIOLATION: the text names each slot, the alarm the first [C-7.9]', async () => {
    const { scene, plant, partner, link } = await setScene(PLANNED);
    const set = schedule([100, -80, 99, -81, 101]);
    expect(await partner.acknowledge(set)).toMatchObject({
      status: 'REJECTED',
      rejectionCode: 'CONSTRAINT_VIOLATION',
      message: 'slot 3: 81 kW exceeds maxExportKw 80 kW; slot 4: 101 kW exceeds maxImportKw 100 kW',
    });
    expect(await readSchedules(plant.id)).toEqual([]);
    expect(await sentTo(link, plant)).toEqual([]);
    const alarm = { ...violation('maxExportKw', 80, 81), commandType: 'SCHEDULE' };
    expect(await receivedAlarms(scene)).toMatchObject([alarm]);
  });

  it('a schedule with a slot that no asset supports is UNSUPPORTED_FOR_TOPOLOGY and names the slot [C-7.4]', async () => {
    const { partner } = await setScene({
      ...PLANNED,
      plant: { subDevices: [{ externalId: 'METER-1', assetType: 'METER' }] },
    });
    const refused = { status: 'REJECTED', rejectionCode: 'UNSUPPORTED_FOR_TOPOLOGY' };
    for (const [slots, start] of [
      [[1, -1], 'slot 1: '],
      [[1, 2, 'PEAK_SHAVING'], 'slot 2: '],
    ] as const) {
      const message = expect.stringMatching(`^${start}`);
      expect(await partner.acknowledge(schedule(slots))).toMatchObject({ ...refused, message });
    }
  });
});

describe('a day of slots', () => {
  it('a schedule is sent slot by slot, each once, when the site is evicted between all steps [C-7.9]', async () => {
    const { scene, plant, link, partner } = await setScene(PLANNED);
    const powers = Array.from({ length: 24 }, (_none, index) => index + 1);
    const set = schedule(powers, { slotMinutes: 15 });
    await partner.submit(set);
    await evictSite(plant.id);
    await obey(scene, 1, 'COMPLETED');
    for (let slot = 0; slot < 24; slot++) {
      await evictSite(plant.id);
      await obey(scene, slot + 2, 'COMPLETED');
      await evictSite(plant.id);
      await passTime(plant.id, 15 * MINUTE);
    }
    expect(await sentTo(link, plant)).toEqual(['SCHEDULE_SET', ...powers, 'STANDARD']);
    expect(await executionStatuses(scene, set)).toEqual(['EXECUTING', 'COMPLETED']);
  });
});
