/** From a device's acks to the partner's execution events: EXECUTING once, then one end [C-7.8]. */
import { ackMessage, type DeviceTestLink } from '#workerd/links.ts';
import { RUNNING, setScene } from '#workerd/scene.ts';
import { MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  commandsOf,
  connectListening,
  nthCommand,
  publish,
  publishAll,
  sendAck,
} from '#workerd/site-devices.ts';
import { listen } from '#workerd/site-listener.ts';
import { newestCommand } from '#workerd/site-reads.ts';
import { numberOf } from '#workerd/site-rows.ts';
import { batch, batteryCommand, powerSetpoint, Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, createLinked, createPlant, type Plant } from '#workerd/world.ts';
import type { DeviceCommandItem } from '../../../../protocol/command.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

const STOP: DeviceCommandItem = { deviceId: 'FVE-1', assetType: 'FVE', command: 'FVE_STOP' };

/** Sends acks in one batch. Frames of one batch are handled in order. */
async function sendAcks(
  link: DeviceTestLink,
  plant: Plant,
  cmdId: string,
  ...statuses: Parameters<typeof ackMessage>[2][]
): Promise<void> {
  const payloads = statuses.map((status) => ackMessage(plant.gateway, cmdId, status));
  expect(await publishAll(link, payloads, 'ack')).toEqual(statuses.map(() => true));
}

describe('the acks of a device command', () => {
  it('acks make a device command EXECUTING once, then COMPLETED, each with one event and the correlationId [C-7.8]', async () => {
    const { plant, listener, link, partner } = await setScene(RUNNING);
    await partner.submit(submission('device', batch(batteryCommand(5)), { correlationId: 'corr-1' }));
    const { cmdId } = await nthCommand(link, 1);
    setClock(START_MS + SECOND);
    await sendAcks(link, plant, cmdId, 'RECEIVED', 'RECEIVED', 'IN_PROGRESS', 'IN_PROGRESS');
    expect(await newestCommand(plant.id)).toMatchObject({
      status: 'EXECUTING',
      startedAt: formatInstant(START_MS + SECOND),
    });
    setClock(START_MS + 2 * SECOND);
    await sendAcks(link, plant, cmdId, 'COMPLETED');
    const completed = await listener.event('execution', 'COMPLETED');
    expect(completed).toMatchObject({ correlationId: 'corr-1', payload: { commandType: 'DEVICE_COMMAND' } });
    expect(listener.statuses('execution')).toEqual(['EXECUTING', 'COMPLETED']);
    expect(await newestCommand(plant.id)).toMatchObject({
      status: 'COMPLETED',
      finishedAt: formatInstant(START_MS + 2 * SECOND),
    });
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(0);
  });

  it('an execution event has the messageId of the command as its correlationId if the command had none [C-8.1]', async () => {
    const { plant, listener, link, partner } = await setScene(RUNNING);
    const one = submission('device', batch(batteryCommand(5)));
    await partner.submit(one);
    const { cmdId } = await nthCommand(link, 1);
    await sendAcks(link, plant, cmdId, 'RECEIVED');
    expect((await listener.event('execution', 'EXECUTING')).correlationId).toBe(one.messageId);
  });

  it('acks only advance: RECEIVED after IN_PROGRESS, or any ack after COMPLETED, changes nothing [C-3.9]', async () => {
    const { plant, listener, link, partner } = await setScene(RUNNING);
    await partner.submit(submission('device', batch(batteryCommand(5), STOP)));
    const first = await nthCommand(link, 1);
    const second = await nthCommand(link, 2);
    await sendAcks(link, plant, first.cmdId, 'IN_PROGRESS', 'RECEIVED', 'COMPLETED', 'RECEIVED', 'FAILED');
    expect((await newestCommand(plant.id)).status).toBe('EXECUTING');
    await sendAcks(link, plant, second.cmdId, 'COMPLETED', 'FAILED');
    await sendAcks(link, plant, first.cmdId, 'FAILED', 'RECEIVED');
    await listener.event('execution', 'COMPLETED');
    expect(listener.statuses('execution')).toEqual(['EXECUTING', 'COMPLETED']);
    expect((await newestCommand(plant.id)).status).toBe('COMPLETED');
  });

  it('acks with an unknown cmdId or from another device are answered as stored and have no effect [C-3.9]', async () => {
    const { organization, plant, link, partner } = await setScene(RUNNING);
    const other = await createDevice(organization, plant.id, 'ACTUATOR');
    const otherLink = await connectListening(plant, other);
    await partner.submit(submission('device', batch(batteryCommand(5))));
    const { cmdId } = await nthCommand(link, 1);
    expect(await sendAck(otherLink, other, cmdId, 'COMPLETED')).toBe(true);
    expect(await sendAck(otherLink, other, cmdId, 'FAILED')).toBe(true);
    expect(await sendAck(link, plant.gateway, crypto.randomUUID(), 'COMPLETED')).toBe(true);
    expect((await newestCommand(plant.id)).status).toBe('PENDING');
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(1);
  });

  it('acks that are stale, or signed for another command, are dropped [spec: Device MQTT]', async () => {
    const { plant, link, partner } = await setScene(RUNNING);
    await partner.submit(submission('device', batch(batteryCommand(5))));
    const { cmdId } = await nthCommand(link, 1);
    const stale = ackMessage(plant.gateway, cmdId, 'COMPLETED');
    const forged = { ...JSON.parse(ackMessage(plant.gateway, 'other', 'COMPLETED')), cmdId };
    await publish(link, JSON.stringify(forged), 'ack');
    setClock(START_MS + 5 * MINUTE + 1);
    await publish(link, stale, 'ack');
    expect((await newestCommand(plant.id)).status).toBe('PENDING');
  });

  it('a batch is COMPLETED with its last COMPLETED ack [C-7.8]', async () => {
    const { plant, listener, link, partner } = await setScene(RUNNING);
    await partner.submit(submission('device', batch(batteryCommand(5), STOP)));
    const [first, second] = [await nthCommand(link, 1), await nthCommand(link, 2)];
    await sendAcks(link, plant, first.cmdId, 'COMPLETED');
    expect((await newestCommand(plant.id)).status).toBe('EXECUTING');
    await sendAcks(link, plant, second.cmdId, 'COMPLETED');
    await listener.event('execution', 'COMPLETED');
    expect(listener.statuses('execution')).toEqual(['EXECUTING', 'COMPLETED']);
  });

  it('one FAILED ack makes the batch FAILED once all its commands have ended, and the reason names the assets [C-7.8]', async () => {
    const { plant, listener, link, partner } = await setScene(RUNNING);
    await partner.submit(submission('device', batch(batteryCommand(5), STOP)));
    const commands = [await nthCommand(link, 1), await nthCommand(link, 2)];
    const stop = commands.find((command) => command.action === 'FVE_STOP');
    const charge = commands.find((command) => command.action === 'BESS_CHARGE');
    await sendAcks(link, plant, stop?.cmdId ?? '', 'RECEIVED', 'FAILED');
    expect((await newestCommand(plant.id)).status).toBe('EXECUTING');
    await sendAcks(link, plant, charge?.cmdId ?? '', 'COMPLETED');
    const failed = await listener.event('execution', 'FAILED');
    const reason = 'FVE-1: device answered FAILED';
    expect(failed.payload.reason).toBe(reason);
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'FAILED', reason });
  });
});

describe('the acks of a setpoint', () => {
  it('a COMPLETED ack does not end a setpoint, which ends COMPLETED unmeasured at validUntil [C-7.8]', async () => {
    const { organization, plant, key, listener, link, partner } = await setScene(RUNNING);
    const validUntil = formatInstant(START_MS + 10 * MINUTE);
    await partner.submit(submission('site-setpoint', powerSetpoint(5, { validUntil, direction: 'EXPORT' })));
    const { cmdId, payload } = await nthCommand(link, 1);
    expect(payload).toMatchObject({ targetSignedKw: -5, targetValueKw: 5, direction: 'EXPORT', validUntil });
    await sendAcks(link, plant, cmdId, 'RECEIVED', 'COMPLETED', 'COMPLETED');
    await passTime(plant.id, 10 * MINUTE - 1);
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'EXECUTING', targetValueKw: -5 });
    await passTime(plant.id, 1);
    const later = await listen(organization, key);
    const completed = await later.event('execution', 'COMPLETED');
    expect(completed.payload).toMatchObject({
      commandType: 'SITE_SETPOINT',
      targetValueKw: -5,
      reason: 'unmeasured',
    });
    expect(completed.payload).not.toHaveProperty('actualValueKw');
    expect(listener.statuses('execution')).toEqual(['EXECUTING']);
    expect(later.statuses('execution')).toEqual(['COMPLETED']);
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'COMPLETED', reason: 'unmeasured' });
  });

  it('a setpoint without validUntil ends five minutes after its first ack, however many acks follow [C-7.8]', async () => {
    const { plant, link, partner } = await setScene(RUNNING);
    await partner.submit(submission('site-setpoint', powerSetpoint(5)));
    const { cmdId } = await nthCommand(link, 1);
    await passTime(plant.id, 10 * SECOND);
    await sendAcks(link, plant, cmdId, 'RECEIVED');
    for (let minute = 0; minute < 4; minute++) {
      await passTime(plant.id, MINUTE);
      await sendAcks(link, plant, cmdId, 'IN_PROGRESS', 'COMPLETED');
    }
    await passTime(plant.id, MINUTE - 1);
    expect((await newestCommand(plant.id)).status).toBe('EXECUTING');
    await passTime(plant.id, 1);
    expect((await newestCommand(plant.id)).status).toBe('COMPLETED');
  });

  it('a FAILED ack ends a setpoint, and no later ack reopens it [C-7.8]', async () => {
    const { plant, listener, link, partner } = await setScene(RUNNING);
    await partner.submit(submission('site-setpoint', powerSetpoint(5)));
    const { cmdId } = await nthCommand(link, 1);
    await sendAcks(link, plant, cmdId, 'IN_PROGRESS', 'FAILED', 'COMPLETED', 'IN_PROGRESS');
    await listener.event('execution', 'FAILED');
    expect(listener.statuses('execution')).toEqual(['EXECUTING', 'FAILED']);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch WHERE command_sequence > 0')).toBe(0);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM plan_entry')).toBe(0);
    expect((await newestCommand(plant.id)).status).toBe('FAILED');
  });
});

describe('the acks of modes and emergencies', () => {
  it('a mode change is COMPLETED by the COMPLETED ack of its device [C-7.8]', async () => {
    const { plant, listener, link, partner } = await setScene(RUNNING);
    await partner.submit(submission('mode', { mode: 'PEAK_SHAVING' }));
    const { cmdId, action, payload } = await nthCommand(link, 1);
    expect([action, payload]).toEqual(['MODE_CHANGE', { mode: 'PEAK_SHAVING' }]);
    await sendAcks(link, plant, cmdId, 'RECEIVED', 'COMPLETED');
    expect((await listener.event('execution', 'COMPLETED')).payload.commandType).toBe('MODE_CHANGE');
    expect(listener.statuses('execution')).toEqual(['EXECUTING', 'COMPLETED']);
  });

  it('an emergency is COMPLETED when every device that received it has completed [C-7.8]', async () => {
    const { organization, plant, listener, partner, link } = await setScene(RUNNING);
    const other = await createPlant(organization);
    const linked = await createLinked(organization, other.id);
    const gatewayLink = await connectListening(other);
    const linkedLink = await connectListening(other, linked);
    const submitter = new Submitter(other.id, partner.keyId);
    await submitter.submit(submission('emergency', { type: 'HOLD' }));
    await sendAcks(gatewayLink, other, (await nthCommand(gatewayLink, 1)).cmdId, 'COMPLETED');
    expect((await newestCommand(other.id)).status).toBe('EXECUTING');
    await sendAck(linkedLink, linked, (await nthCommand(linkedLink, 1)).cmdId, 'COMPLETED');
    expect((await listener.event('execution', 'COMPLETED')).siteId).toBe(other.id);
    expect(commandsOf(link)).toEqual([]);
    expect((await newestCommand(other.id)).status).toBe('COMPLETED');
    expect(await numberOf(plant.id, 'SELECT count(*) FROM command')).toBe(0);
  });
});
