/** The same messageId published again in any way has one effect and one acknowledgement [C-7.3]. */
import { evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import { connectListener } from '#workerd/links.ts';
import { charge, commandLog, eventOf, Partner, setpoint } from '#workerd/partner.ts';
import { ACKS, setScene } from '#workerd/scene.ts';
import { createKey, siteOf, vhostOf } from '#workerd/world.ts';

/** A partner that reads its acknowledgements, with a device that listens for its commands. */
async function openWithDevice() {
  const { scene, plant, partner } = await setScene({ plant: true, consumes: ACKS });
  const device = await connectListener(plant);
  /** The first acknowledgement; all `count` of them are the same. */
  const expectOneEffect = async (count: number) => {
    await partner.delivered(count);
    const [first, ...repeats] = acknowledgements(partner);
    for (const repeat of repeats) expect(repeat).toEqual(first);
    await device.next((frame) => frame.kind === 'command');
    expect((await commandLog(plant.id)).total).toBe(1);
    expect(device.received.filter(({ kind }) => kind === 'command')).toHaveLength(1);
    return first;
  };
  return { ...scene, device, question: partner.command(plant.id, 'device', charge()), expectOneEffect };
}

/** The identity and content of an acknowledgement; its time may differ. */
function acknowledgements(partner: Partner) {
  return partner.deliveries().map((delivery) => {
    const { messageId, correlationId, payload } = eventOf(delivery);
    return { messageId, correlationId, payload };
  });
}

describe('a repeated messageId', () => {
  it('published again after its confirm has one effect and the same acknowledgement [C-7.3]', async () => {
    const { partner, question, expectOneEffect } = await openWithDevice();
    for (let time = 0; time < 3; time++)
      expect(await partner.ask(question)).toMatchObject({ kind: 'stored' });
    expect((await expectOneEffect(3))?.payload).toMatchObject({ status: 'ACCEPTED' });
  });

  it('published four times in one batch of frames has one effect and the same acknowledgement [C-7.3]', async () => {
    const { partner, question, expectOneEffect } = await openWithDevice();
    const answers = await partner.askAll(question, question, question, question);
    expect(answers.map(({ kind }) => kind)).toEqual(['stored', 'stored', 'stored', 'stored']);
    await expectOneEffect(4);
  });

  it('has one effect if two connections publish it in parallel [C-7.3]', async () => {
    const { partner, connect, question, expectOneEffect } = await openWithDevice();
    const twin = await connect();
    const answers = await Promise.all([partner.ask(question), twin.ask(question)]);
    expect(answers.map(({ kind }) => kind)).toEqual(['stored', 'stored']);
    await expectOneEffect(2);
  });

  it('published again by a client that reconnects before it got the confirm has one effect [C-7.3]', async () => {
    const { partner, connect, question, expectOneEffect } = await openWithDevice();
    partner.link.send({ ...question, seq: 1 });
    partner.link.socket.close();
    const again = await connect();
    await again.consume('event.status', { noAck: true });
    expect(await again.ask(question)).toMatchObject({ kind: 'stored' });
    const acks = await again.delivered(1);
    await again.quiet();
    const ids = new Set([...acks, ...again.deliveries()].map((delivery) => eventOf(delivery).messageId));
    expect(ids.size).toBe(1);
    await expectOneEffect(0);
  });

  it('published again after the objects have slept has one effect and the same acknowledgement [C-7.3]', async () => {
    const { plant, key, partner, question, expectOneEffect } = await openWithDevice();
    await partner.ask(question);
    await partner.delivered(1);
    await evictDurableObject(vhostOf(key.id));
    // The site's outbox is drained, then deleted, before the site sleeps.
    for (let run = 0; run < 2; run++) {
      vi.setSystemTime(Date.now() + 6_000);
      await runDurableObjectAlarm(siteOf(plant.id));
    }
    await evictDurableObject(siteOf(plant.id));
    await partner.ask(question);
    await expectOneEffect(2);
  });

  it('in upper case is the same messageId [C-7.3]', async () => {
    const { plant, partner, expectOneEffect } = await openWithDevice();
    const messageId = crypto.randomUUID();
    await partner.ask(partner.command(plant.id, 'device', charge(), { messageId, correlationId: null }));
    const upper = { messageId: messageId.toUpperCase(), correlationId: null };
    await partner.ask(partner.command(plant.id, 'device', charge(), upper));
    await expectOneEffect(2);
  });

  it('is rejected as reused if payload or routing key are others, and the first stays valid [C-7.3]', async () => {
    const { plant, partner, device } = await openWithDevice();
    const messageId = crypto.randomUUID();
    await partner.ask(partner.command(plant.id, 'device', charge(5), { messageId }));
    await partner.ask(partner.command(plant.id, 'device', charge(6), { messageId }));
    await partner.ask(partner.command(plant.id, 'site-setpoint', setpoint(), { messageId }));
    await partner.delivered(3);
    const [first, ...others] = acknowledgements(partner);
    expect(first?.payload).toMatchObject({ status: 'ACCEPTED' });
    for (const other of others) {
      expect(other.payload).toMatchObject({ rejectionCode: 'INVALID_PAYLOAD', message: 'messageId reused' });
      expect(other.messageId).not.toBe(first?.messageId);
    }
    const dispatched = (await commandLog(plant.id)).items.filter(({ status }) => status !== 'REJECTED');
    expect(dispatched).toHaveLength(1);
    await device.next((frame) => frame.kind === 'command');
    expect(device.received.filter(({ kind }) => kind === 'command')).toHaveLength(1);
  });

  it('from another key is a separate command [C-7.3]', async () => {
    const { organization, plant, partner, device } = await openWithDevice();
    const other = await Partner.connect(organization, await createKey(organization));
    const messageId = crypto.randomUUID();
    await partner.ask(partner.command(plant.id, 'device', charge(), { messageId }));
    await other.ask(other.command(plant.id, 'device', charge(), { messageId }));
    expect((await commandLog(plant.id)).total).toBe(2);
    await device.next((frame) => frame === device.received.filter(({ kind }) => kind === 'command')[1]);
  });

  it('whose first publish had a wrong signature is accepted when the next one has the right signature [C-7.3]', async () => {
    const { plant, partner } = await openWithDevice();
    const messageId = crypto.randomUUID();
    const forged = { messageId, signingKey: '00'.repeat(32) };
    await partner.ask(partner.command(plant.id, 'device', charge(), forged));
    await partner.ask(partner.command(plant.id, 'device', charge(), { messageId }));
    await partner.delivered(2);
    expect(acknowledgements(partner).map(({ payload }) => payload.status)).toEqual(['REJECTED', 'ACCEPTED']);
  });
});
