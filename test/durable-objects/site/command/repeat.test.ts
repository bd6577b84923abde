/** Signature, repeat and freshness: one effect per messageId, however often it is sent [C-7.2], [C-7.3]. */

import { setScene } from '#workerd/scene.ts';
import { DAY, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { commandsOf, nthCommand, sendTelemetry } from '#workerd/site-devices.ts';
import { newestCommand, readCommands } from '#workerd/site-reads.ts';
import { evictSite, numberOf } from '#workerd/site-rows.ts';
import { charge, powerSetpoint, Submitter, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { siteOf } from '#workerd/world.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

const REUSED = { status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD', message: 'messageId reused' };

describe('the signature of a submission', () => {
  it.for(['missing', 'mismatch'] as const)(
    'a command whose signature result is %s is REJECTED with INVALID_PAYLOAD, logged and not dispatched [C-7.2]',
    async (signature, { listeningSite: { plant, link, partner } }) => {
      const message = `signature ${signature}`;
      const expected = { status: 'REJECTED', rejectionCode: 'INVALID_PAYLOAD', message };
      expect(await partner.acknowledge(charge(5, { signature }))).toMatchObject(expected);
      expect(await newestCommand(plant.id)).toMatchObject(expected);
      await partner.submit(charge(5));
      await nthCommand(link, 1);
      expect(commandsOf(link)).toHaveLength(1);
    },
  );

  it('the signature is checked first: payload, target and limits are not evaluated [C-7.4]', async () => {
    const { partner } = await setScene({ gateway: 'listening' });
    const broken = submission('device', { commands: 'none' }, { signature: 'mismatch' });
    expect(await partner.acknowledge(broken)).toMatchObject({ message: 'signature mismatch' });
    expect(await partner.acknowledge(charge(5_000, { signature: 'missing' }))).toMatchObject({
      message: 'signature missing',
    });
    expect(partner.alarms()).toEqual([]);
  });

  it('an invalid signature does not reserve the messageId: the real sender can still use it [C-7.3]', async () => {
    const { partner } = await setScene({ gateway: 'listening' });
    const forged = charge(49, { signature: 'mismatch' });
    await partner.submit(forged);
    const honest = charge(5, { messageId: forged.messageId });
    expect(await partner.acknowledge(honest)).toMatchObject({ status: 'ACCEPTED' });
  });

  it.each([
    [-300_000, 'ACCEPTED'],
    [300_000, 'ACCEPTED'],
    [-300_001, 'REJECTED'],
    [300_001, 'REJECTED'],
  ])('a signed command with a timestamp %i ms from the clock is %s [C-7.2]', async (offsetMs, status) => {
    const { partner } = await setScene({ gateway: 'listening' });
    const timestampMs = Date.now() + offsetMs;
    const ack = await partner.acknowledge(charge(5, { timestampMs }));
    expect(ack.status).toBe(status);
    if (status === 'REJECTED') {
      expect(ack).toMatchObject({
        rejectionCode: 'INVALID_PAYLOAD',
        message: `signature timestamp outside tolerance; timestamp ${formatInstant(timestampMs)} is more than 300 s ${
          offsetMs < 0 ? 'behind' : 'ahead of'
        } the platform's clock`,
      });
    }
  });

  it('an unsigned command with an old timestamp is accepted [C-7.2]', async () => {
    const { partner } = await setScene({ gateway: 'listening' });
    const old = submission('site-setpoint', powerSetpoint(5), { timestampMs: START_MS - DAY });
    expect(await partner.acknowledge(old)).toMatchObject({ status: 'ACCEPTED' });
  });
});

describe('a repeated messageId', () => {
  it('a re-send with the same content gets the same acknowledgement and has no effect [C-7.3]', async () => {
    const { plant, link, partner } = await setScene({ gateway: 'listening' });
    const one = charge(5, { correlationId: 'corr-1' });
    const first = await partner.acknowledgeEvent(one);
    setClock(START_MS + SECOND);
    const spaced = one.payloadText.replaceAll(':', ' : ').replaceAll(',', ',\n');
    for (const payloadText of [one.payloadText, spaced]) {
      const again = await partner.acknowledgeEvent({ ...one, payloadText });
      expect(again.messageId).toBe(first.messageId);
      expect(again.payloadText).toBe(first.payloadText);
      expect(again.correlationId).toBe('corr-1');
    }
    await nthCommand(link, 1);
    expect(commandsOf(link)).toHaveLength(1);
    expect((await readCommands(plant.id)).total).toBe(1);
  });

  it('a re-send of a rejected command gets the same rejection, with one log row and one alarm [C-7.3]', async () => {
    const { plant, partner } = await setScene({ gateway: 'listening' });
    const one = charge(51);
    const first = await partner.acknowledgeEvent(one);
    const again = await partner.acknowledgeEvent(one);
    expect(again.messageId).toBe(first.messageId);
    expect(JSON.parse(again.payloadText)).toMatchObject({ rejectionCode: 'CONSTRAINT_VIOLATION' });
    expect((await readCommands(plant.id)).total).toBe(1);
    expect(partner.alarms()).toHaveLength(1);
  });

  it('a re-send ten minutes later gets the first acknowledgement, although its timestamp is too old by then [C-7.3]', async () => {
    const { partner } = await setScene({ gateway: 'listening' });
    const one = charge(5);
    const first = await partner.acknowledgeEvent(one);
    setClock(START_MS + 10 * MINUTE);
    const again = await partner.acknowledgeEvent(one);
    expect(again.messageId).toBe(first.messageId);
    expect(JSON.parse(again.payloadText)).toMatchObject({ status: 'ACCEPTED' });
  });

  it('a messageId with another payload, routing key or family is "messageId reused", and the first is unaffected [C-7.3]', async () => {
    const { plant, link, partner } = await setScene({ gateway: 'listening' });
    const one = charge(5);
    const first = await partner.acknowledgeEvent(one);
    const others = [
      charge(6, { messageId: one.messageId }),
      { ...one, routingKey: 'acme.command.device.BESS-1' },
      submission('site-setpoint', powerSetpoint(5), { messageId: one.messageId }),
      submission('device', { commands: 'none' }, { messageId: one.messageId }),
    ];
    for (const other of others) {
      const ack = await partner.acknowledgeEvent(other);
      expect(JSON.parse(ack.payloadText)).toMatchObject(REUSED);
      expect(ack.messageId).not.toBe(first.messageId);
      expect(await newestCommand(plant.id)).toMatchObject(REUSED);
    }
    expect((await partner.acknowledgeEvent(one)).messageId).toBe(first.messageId);
    await nthCommand(link, 1);
    expect(commandsOf(link)).toHaveLength(1);
  });

  it('is rejected for its signature if that is invalid, and does not get the first acknowledgement [C-7.4]', async () => {
    const { partner } = await setScene({ gateway: 'listening' });
    const one = charge(5);
    await partner.submit(one);
    const ack = await partner.acknowledge({ ...one, signature: 'mismatch' });
    expect(ack).toMatchObject({ status: 'REJECTED', message: 'signature mismatch' });
  });

  it('parallel calls and one batch with the same messageId have one effect and one acknowledgement id [C-7.3]', async () => {
    const { plant, link, partner } = await setScene({ gateway: 'listening' });
    const one = charge(5);
    const calls = Array.from({ length: 8 }, () => siteOf(plant.id).submit(partner.batchOf([one, one, one])));
    const answers = await Promise.all(calls);
    const events = answers.flatMap((answer) => answer.events);
    expect(new Set(events.map((event) => event.messageId)).size).toBe(1);
    expect(answers.flatMap((answer) => answer.outcomes)).toEqual(Array(24).fill('recorded'));
    expect((await readCommands(plant.id)).total).toBe(1);
    expect(await numberOf(plant.id, 'SELECT count(*) FROM dispatch')).toBe(1);
    await nthCommand(link, 1);
    expect(commandsOf(link)).toHaveLength(1);
  });

  it('the same messageId from another key is another message [C-7.3]', async () => {
    const { plant, partner } = await setScene({ gateway: 'listening' });
    const one = charge(5);
    const first = await partner.acknowledgeEvent(one);
    const other = await new Submitter(plant.id).acknowledgeEvent(one);
    expect(other.messageId).not.toBe(first.messageId);
    expect((await readCommands(plant.id)).total).toBe(2);
  });

  it('a messageId is remembered for seven days, across evictions and new blocks, and is new after that [C-7.3]', async () => {
    const { plant, link, partner } = await setScene({ gateway: 'listening' });
    const one = submission('site-setpoint', powerSetpoint(5, { validUntil: '2030-12-31T00:00:00Z' }));
    const first = await partner.acknowledgeEvent(one);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 1 });
    setClock(START_MS + 7 * DAY - MINUTE);
    await sendTelemetry(link, plant.gateway, { gridPowerKw: 2 });
    await evictSite(plant.id);
    expect((await partner.acknowledgeEvent(one)).messageId).toBe(first.messageId);
    await passTime(plant.id, 11 * MINUTE);
    expect((await partner.acknowledgeEvent(one)).messageId).not.toBe(first.messageId);
  });
});
