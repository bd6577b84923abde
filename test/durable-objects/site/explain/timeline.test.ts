/** The life of a command as steps [C-13.2]. */
import { setScene } from '#workerd/scene.ts';
import { HOUR, passTime, SECOND, START_MS } from '#workerd/site-clock.ts';
import { nthCommand, sendAck, sendTelemetry } from '#workerd/site-devices.ts';
import { AWAY, obey, PLANNED, planned, rowOf } from '#workerd/site-plan.ts';
import { schedule } from '#workerd/site-schedules.ts';
import { charge, Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { type Plant, siteOf } from '#workerd/world.ts';
import type { Asker, CommandLife } from '../../../../durable-objects/ask-rpc.ts';
import type { Submission } from '../../../../durable-objects/rpc.ts';
import type { DeviceAckStatus } from '../../../../protocol/enums.ts';
import { formatInstant } from '../../../../protocol/ids.ts';
import { timedSteps, timeline } from '../../../../protocol/timeline.ts';

async function read({ id }: Plant, commandId: string, asker: Asker = 'member') {
  const text = await siteOf(id).ask({ kind: 'timeline', siteId: id, asker, commandId });
  if (text === null) return null;
  const { command, steps, events, signed, messages } = JSON.parse(text) as CommandLife;
  const shown = timeline.parse({
    ...{ command: JSON.parse(command), steps: timedSteps(steps), messages },
    signature: signed?.verdict ?? null,
    timestamp: signed ? formatInstant(signed.timestampMs) : null,
  });
  return { ...shown, events };
}

/** The steps as texts: seconds since the start, step, reason, attempt. */
async function stepsOf(plant: Plant, publish: Submission): Promise<string[]> {
  const found = await read(plant, (await rowOf(plant, publish)).id);
  const steps = found?.steps ?? [];
  steps.forEach(({ at, tookMs }, index) => {
    const before = Date.parse(steps[index - 1]?.at ?? at);
    expect(Date.parse(at) - before).toBe(tookMs);
    expect(tookMs).toBeGreaterThanOrEqual(0);
  });
  return steps.map(({ at, step, reason, attempt }) =>
    [(Date.parse(at) - START_MS) / SECOND, step, reason, attempt]
      .filter((part) => part !== undefined)
      .join(' '),
  );
}

describe('the timeline of a command', () => {
  it('shows a batch from its publish to its end, and when the device began [C-13.2]', async ({
    plannedSite: scene,
  }) => {
    const { plant, partner, link } = scene;
    await passTime(plant.id, SECOND);
    const publish = charge(5, { publishedAtMs: START_MS });
    await partner.submit(publish);
    await passTime(plant.id, SECOND);
    const { cmdId } = await obey(scene, 1, 'RECEIVED');
    expect((await stepsOf(plant, publish)).slice(-2)).toEqual(['1 DISPATCHED 1', '2 DEVICE_RECEIVED']);
    await passTime(plant.id, SECOND);
    await sendAck(link, plant.gateway, cmdId, 'IN_PROGRESS');
    await passTime(plant.id, SECOND);
    await sendAck(link, plant.gateway, cmdId, 'COMPLETED');
    expect(await stepsOf(plant, publish)).toEqual([
      ...['0 PUBLISHED', '1 RECORDED', '1 JUDGED dispatch', '1 ACKNOWLEDGED ACCEPTED', '1 PLANNED'],
      ...['1 DISPATCHED', '2 DEVICE_RECEIVED', '3 DEVICE_STARTED', '4 ENDED COMPLETED'],
    ]);
  });

  it('shows when a setpoint was displaced, resumed, measured and ended', async ({ plannedSite: scene }) => {
    const { plant, partner, link } = scene;
    const normal = planned(20, 'NORMAL', { forMs: 300 * SECOND });
    await partner.submit(normal);
    await obey(scene, 1);
    await passTime(plant.id, 100 * SECOND);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 20.1 });
    await partner.submit(planned(30, 'HIGH', { forMs: 10 * SECOND }));
    await obey(scene, 2);
    await passTime(plant.id, 10 * SECOND);
    await obey(scene, 3);
    await passTime(plant.id, 200 * SECOND);
    expect(await stepsOf(plant, normal)).toEqual([
      ...[
        '0 PUBLISHED',
        '0 RECORDED',
        '0 JUDGED plan',
        '0 ACKNOWLEDGED ACCEPTED',
        '0 PLANNED on top, as NORMAL',
      ],
      ...['0 DISPATCHED', '0 DEVICE_RECEIVED', '100 DISPLACED', '110 RESUMED'],
      ...['300 MEASURED 20.1 kW of 20 kW', '300 ENDED COMPLETED'],
    ]);
  });

  it('ends with the refusal of a rejected command, and with the expiry of one that was never sent', async ({
    clock: _clock,
  }) => {
    const { plant, partner } = await setScene(AWAY);
    const over = planned(101, 'HIGH');
    const late = planned(20, 'HIGH', { forMs: 10 * SECOND });
    await partner.submit(over, late);
    expect(await stepsOf(plant, over)).toEqual([
      '0 PUBLISHED',
      '0 RECORDED',
      '0 JUDGED constraint',
      '0 ACKNOWLEDGED CONSTRAINT_VIOLATION',
    ]);
    await passTime(plant.id, HOUR);
    expect((await stepsOf(plant, late)).slice(-2)).toEqual([
      '0 PLANNED on top, as HIGH',
      '10 ENDED FAILED: EXPIRED',
    ]);
  });

  it.each<[string, () => Submission, DeviceAckStatus[], number]>([
    ['a batch', () => charge(5), ['RECEIVED', 'COMPLETED'], SECOND],
    ['a setpoint', () => planned(20, 'HIGH', { forMs: 10 * SECOND }), ['RECEIVED'], HOUR],
    ['a mode', () => submission('mode', { mode: 'MAX_EXPORT', reason: 'night' }), ['COMPLETED'], SECOND],
    ['an emergency', () => submission('emergency', { type: 'HOLD' }), ['COMPLETED'], SECOND],
  ])(
    'has, for %s, the message that the gateway got, while it is open and after its end [C-13.2]',
    async (_name, make, statuses, untilEndMs) => {
      const { scene, plant, partner, link } = await setScene(PLANNED);
      const publish = make();
      await partner.submit(publish);
      const { id } = await rowOf(plant, publish);
      const { cmdId, action, payload } = await nthCommand(link, 1);
      const message = { deviceId: plant.gateway.id, action, payload };
      expect(await read(plant, id)).toMatchObject({
        signature: publish.signature,
        timestamp: formatInstant(publish.timestampMs),
        messages: [{ ...message, cmdId }],
      });
      await obey(scene, 1, ...statuses);
      await passTime(plant.id, untilEndMs);
      const ended = await read(plant, id);
      expect(ended?.command.finishedAt).toBeDefined();
      expect(ended?.messages).toEqual([{ ...message, cmdId: null }]);
    },
  );

  it('has no message of a schedule once its gateway has it: its slots are sent one by one', async () => {
    const { scene, plant, partner } = await setScene(PLANNED);
    const publish = schedule([10, 20]);
    await partner.submit(publish);
    const { id } = await rowOf(plant, publish);
    expect((await read(plant, id))?.messages).toMatchObject([{ action: 'SCHEDULE_SET' }]);
    await obey(scene, 1, 'COMPLETED');
    expect(await read(plant, id)).toMatchObject({ command: { commandType: 'SCHEDULE' }, messages: [] });
  });

  it('has no message if it was never sent, and says what was wrong with its signature', async () => {
    const { plant, partner } = await setScene(AWAY);
    const unsigned = submission('emergency', { type: 'STOP' }, { signature: 'missing' });
    const late = planned(20, 'HIGH', { forMs: 10 * SECOND });
    await partner.submit(unsigned, late);
    await passTime(plant.id, HOUR);
    expect(await read(plant, (await rowOf(plant, unsigned)).id)).toMatchObject({
      signature: 'missing',
      messages: [],
    });
    expect(await read(plant, (await rowOf(plant, late)).id)).toMatchObject({ messages: [] });
  });

  it('is only shown to the key that sent the command, and to members', async ({
    plannedSite: { plant, partner },
  }) => {
    const publish = charge();
    await partner.submit(publish);
    const { id } = await rowOf(plant, publish);
    expect(await read(plant, id, partner.asker)).toMatchObject({ command: { id } });
    expect(await read(plant, id, new Submitter(plant.id, crypto.randomUUID(), 'another').asker)).toBeNull();
    expect(await read(plant, crypto.randomUUID())).toBeNull();
  });
});
