/** When a valid command is sent to its device, how often, and when it expires. */
import { setScene } from '#workerd/scene.ts';
import { MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  commandsOf,
  connectListening,
  connectTo,
  nthCommand,
  sendAck,
  sendTelemetry,
  stayConnected,
  subscribe,
} from '#workerd/site-devices.ts';
import { newestCommand, newestEnd, readCommands } from '#workerd/site-reads.ts';
import { batch, batteryCommand, charge, powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, createLinked, LIMITED, siteOf } from '#workerd/world.ts';
import { hmacHex } from '../../../../durable-objects/secrets/hmac.ts';
import { formatInstant } from '../../../../protocol/ids.ts';
import { commandSigningString } from '../../../../protocol/signing.ts';

describe('a command for an offline device', () => {
  it('is QUEUED, and sent with a new ts when the device subscribes [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'QUEUED' });
    setClock(START_MS + MINUTE);
    const link = await connectTo(plant.id, plant.gateway.id);
    expect(await newestCommand(plant.id)).not.toHaveProperty('dispatchedAt');
    await subscribe(link, plant.gateway);
    const { cmdId, ts, action, payload, sig } = await nthCommand(link, 1);
    expect(ts).toBe(START_MS + MINUTE);
    const signed = commandSigningString(plant.gateway.id, cmdId, ts, action, JSON.stringify(payload));
    expect(sig).toBe(hmacHex(plant.gateway.hmacSecret, signed));
    expect(await newestCommand(plant.id)).toMatchObject({
      status: 'PENDING',
      createdAt: formatInstant(START_MS),
      ackedAt: formatInstant(START_MS),
      dispatchedAt: formatInstant(START_MS + MINUTE),
    });
  });

  it('waiting commands are sent in the order of their submission [rule 4]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(...[1, 2, 3].map((kw) => submission('device', batch(batteryCommand(kw)))));
    const link = await connectListening(plant);
    await nthCommand(link, 3);
    const powers = commandsOf(link).map(
      ({ payload }) => JSON.stringify(payload).match(/"powerKw":(\d)/)?.[1],
    );
    expect(powers).toEqual(['1', '2', '3']);
  });

  it('the commands of one batch travel to their device in one message, in their order [rule 4]', async () => {
    const { partner, link } = await setScene({ gateway: 'listening' });
    const messages: unknown[][] = [];
    link.socket.addEventListener('message', ({ data }) => messages.push(JSON.parse(String(data))));
    await partner.submit(...[1, 2, 3].map((kw) => submission('device', batch(batteryCommand(kw)))));
    await nthCommand(link, 3);
    expect(messages.map((frames) => frames.length)).toEqual([3]);
    expect(
      commandsOf(link).map(({ payload }) => /"powerKw":(\d)/.exec(JSON.stringify(payload))?.[1]),
    ).toEqual(['1', '2', '3']);
  });

  it('a command waits while the device is connected but not subscribed [C-7.6]', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'connected' });
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'QUEUED' });
    link.send({ kind: 'subscribed', commands: false });
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 });
    expect(commandsOf(link)).toEqual([]);
  });

  it('a waiting device command ends FAILED EXPIRED after 15 minutes, and is not sent [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(charge());
    await passTime(plant.id, 15 * MINUTE - 1);
    expect((await newestCommand(plant.id)).status).toBe('PENDING');
    await passTime(plant.id, 1);
    const finishedAt = formatInstant(START_MS + 15 * MINUTE);
    expect(await newestCommand(plant.id)).toMatchObject({ finishedAt });
    expect(await newestEnd(plant.id)).toMatch(/^FAILED EXPIRED/);
    const link = await connectListening(plant);
    expect(commandsOf(link)).toEqual([]);
  });

  it('a waiting command ends at its validUntil; without one, only device commands expire [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const validUntil = formatInstant(START_MS + 2 * MINUTE);
    await partner.submit(
      submission('site-setpoint', powerSetpoint(1, { validUntil })),
      submission('site-setpoint', powerSetpoint(2)),
      submission('mode', { mode: 'STANDARD' }),
      charge(),
    );
    await passTime(plant.id, 60 * MINUTE);
    const { items } = await readCommands(plant.id);
    expect(items.map((command) => command.status)).toEqual(['FAILED', 'PENDING', 'PENDING', 'FAILED']);
    const link = await connectListening(plant);
    await nthCommand(link, 2);
    expect(commandsOf(link).map((command) => command.action)).toEqual([
      'SITE_SETPOINT',
      'MODE_CHANGE',
      'SITE_SETPOINT',
    ]);
  });

  it('a waiting command that violates a new limit ends FAILED when it would be sent [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(charge(), submission('site-setpoint', powerSetpoint(90)));
    const constraints = { ...LIMITED.constraints, maxChargeKw: 4, maxImportKw: 89 };
    await siteOf(plant.id).configure(plant.id, { ...LIMITED, constraints } as typeof LIMITED);
    const link = await connectListening(plant);
    const { items } = await readCommands(plant.id);
    expect(items).toHaveLength(2);
    for (const command of items) {
      expect(command.status).toBe('FAILED');
      expect(command.reason).toMatch(/^CONSTRAINT_VIOLATION/);
    }
    expect(commandsOf(link).filter(({ action }) => action !== 'MODE_CHANGE')).toEqual([]);
  });

  it('a command for a connected device that was silent for a minute is sent when the device sends something [C-7.6]', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'listening' });
    setClock(START_MS + 61 * SECOND);
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'QUEUED' });
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 });
    await stayConnected(plant, link, 2 * MINUTE);
    expect(new Set(commandsOf(link).map((command) => command.cmdId)).size).toBe(1);
  });
});

describe('a command with a future validFrom', () => {
  it('is QUEUED and sent at that moment, not before [C-7.6]', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'listening' });
    const payload = powerSetpoint(5, { validFrom: formatInstant(START_MS + 10 * MINUTE) });
    expect((await partner.acknowledge(submission('site-setpoint', payload))).status).toBe('QUEUED');
    await stayConnected(plant, link, 10 * MINUTE - 1);
    expect(commandsOf(link)).toEqual([]);
    await passTime(plant.id, 1);
    expect((await nthCommand(link, 1)).ts).toBe(START_MS + 10 * MINUTE);
  });

  it('is not sent to a device that connects earlier, and is sent at its time [C-7.6]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    const validFrom = formatInstant(START_MS + MINUTE);
    await partner.submit(submission('site-setpoint', powerSetpoint(5, { validFrom })));
    const early = await connectListening(plant);
    expect(commandsOf(early)).toEqual([]);
    early.send({ kind: 'subscribed', commands: false });
    await passTime(plant.id, MINUTE);
    const late = await connectListening(plant);
    expect((await nthCommand(late, 1)).action).toBe('SITE_SETPOINT');
  });
});

describe('how often a command is sent', () => {
  it('an unacknowledged command is sent three times, 30 s apart, each with a new ts, and ends FAILED NO_ACK [C-7.8]', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'listening' });
    await partner.submit(charge());
    await stayConnected(plant, link, 90 * SECOND - 1);
    expect((await newestCommand(plant.id)).status).toBe('PENDING');
    await passTime(plant.id, 1);
    const commands = commandsOf(link);
    expect(commands.map((command) => command.ts - START_MS)).toEqual([0, 30_000, 60_000]);
    expect(new Set(commands.map((command) => command.cmdId)).size).toBe(1);
    expect(new Set(commands.map((command) => command.sig)).size).toBe(3);
    expect(await newestCommand(plant.id)).toMatchObject({ dispatchedAt: formatInstant(START_MS) });
    expect(await newestEnd(plant.id)).toMatch(/^FAILED NO_ACK/);
    await stayConnected(plant, link, 2 * MINUTE);
    expect(commandsOf(link)).toHaveLength(3);
  });

  it('a command is not sent again after its first acknowledgement [C-7.8]', async () => {
    const { plant, partner, link } = await setScene({ gateway: 'listening' });
    await partner.submit(charge());
    await stayConnected(plant, link, 40 * SECOND);
    const { cmdId } = await nthCommand(link, 2);
    await sendAck(link, plant.gateway, cmdId, 'RECEIVED');
    await stayConnected(plant, link, 10 * MINUTE);
    expect(commandsOf(link)).toHaveLength(2);
    expect((await newestCommand(plant.id)).status).toBe('EXECUTING');
  });

  it('an unacknowledged command is sent again on the next link of its device, and only there [rule 5]', async () => {
    const { plant, partner, link: older } = await setScene({ gateway: 'listening' });
    await partner.submit(charge());
    const { cmdId } = await nthCommand(older, 1);
    setClock(START_MS + 5 * SECOND);
    const newer = await connectListening(plant, plant.gateway, { bridge: 'bridge-2' });
    expect(await nthCommand(newer, 1)).toMatchObject({ cmdId, ts: START_MS + 5 * SECOND });
    expect(commandsOf(older)).toHaveLength(1);
  });
});

describe('the recipients of an emergency', () => {
  it('an emergency is sent to the gateway and to every linked device, and to no other device [C-2.4]', async () => {
    const { organization, plant, partner } = await setScene({ plant: true });
    const linked = await createLinked(organization, plant.id);
    const unlinked = await createDevice(organization, plant.id, 'SENSOR');
    const gatewayLink = await connectListening(plant);
    const linkedLink = await connectListening(plant, linked);
    const unlinkedLink = await connectListening(plant, unlinked);
    const stop = submission('emergency', { type: 'STOP', reason: 'fire' });
    expect(await partner.acknowledge(stop)).toMatchObject({ status: 'ACCEPTED', commandType: 'EMERGENCY' });
    for (const link of [gatewayLink, linkedLink]) {
      const { action, payload } = await nthCommand(link, 1);
      expect([action, payload]).toEqual(['EMERGENCY_STOP', { type: 'STOP' }]);
    }
    expect(commandsOf(unlinkedLink)).toEqual([]);
    await partner.submit(submission('emergency', { type: 'HOLD' }));
    expect((await nthCommand(gatewayLink, 2)).action).toBe('EMERGENCY_HOLD');
  });
});
