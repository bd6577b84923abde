/**
 * The sites that a publish can reach: those of its key, by either name, as the registry lists them [C-7.1].
 */
import { listDurableObjectIds } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it, vi } from 'vitest';
import { charge, commandLog, eventOfAck, setpoint } from '#workerd/partner.ts';
import { fillWithPlants } from '#workerd/registry-changes.ts';
import { failRegistry } from '#workerd/registry-reads.ts';
import { setScene } from '#workerd/scene.ts';
import { createOrganization, createPlant } from '#workerd/world.ts';

/** A partner that reads its acknowledgements, in an organization of two plants with external ids. */
async function openReader(options: { allowed?: 'first' } = {}) {
  const organization = await createOrganization();
  const externalPlantId = `ext-${crypto.randomUUID().slice(0, 8)}`;
  const plant = await createPlant(organization, { externalPlantId });
  const other = await createPlant(organization, { externalPlantId: `${externalPlantId}-2` });
  const allowedPlantIds = options.allowed ? [plant.id] : null;
  const scene = await setScene({ organization, key: { allowedPlantIds }, consumes: 'event.status' });
  return { ...scene, plant, other, externalPlantId };
}

describe('a command for a site that the partner may not command', () => {
  it('gets the same answer text for an unknown, a foreign and a forbidden site [C-7.1]', async () => {
    const { other, externalPlantId, partner } = await openReader({ allowed: 'first' });
    const { plant: foreign } = await setScene({ plant: { externalPlantId: `foreign-${externalPlantId}` } });
    const names = [
      crypto.randomUUID(),
      foreign.id,
      other.id,
      other.id.toUpperCase(),
      `foreign-${externalPlantId}`,
      `${externalPlantId}-2`,
      'no such plant',
      '*',
    ];
    const payloads: unknown[] = [];
    for (const siteId of names) {
      const event = await eventOfAck(partner, partner.command(siteId, 'device', charge()));
      expect(event.siteId).toBe(siteId);
      payloads.push(event.payload);
    }
    expect(payloads[0]).toEqual({
      status: 'REJECTED',
      commandType: 'DEVICE_COMMAND',
      rejectionCode: 'DEVICE_OFFLINE',
      message: expect.any(String),
    });
    for (const payload of payloads) expect(payload).toEqual(payloads[0]);
  });

  it('is logged at no site [C-7.1]', async () => {
    const { plant, other, partner } = await openReader({ allowed: 'first' });
    const foreign = await createPlant(await createOrganization());
    for (const siteId of [other.id, foreign.id]) {
      await eventOfAck(partner, partner.command(siteId, 'emergency', { type: 'STOP' }));
      expect((await commandLog(siteId)).total).toBe(0);
    }
    expect((await commandLog(plant.id)).total).toBe(0);
  });

  it('creates no Site object when the site is unknown', async () => {
    const { partner } = await openReader();
    const siteId = crypto.randomUUID();
    await eventOfAck(partner, partner.command(siteId, 'emergency', { type: 'STOP' }));
    const ids = await listDurableObjectIds(env.SITE);
    expect(ids.map(String)).not.toContain(String(env.SITE.idFromName(siteId)));
  });

  it('is answered with its correlationId, or with its messageId if it has no correlationId [C-8.1]', async () => {
    const { partner } = await openReader();
    const messageId = crypto.randomUUID();
    const siteId = crypto.randomUUID();
    const named = partner.command(siteId, 'mode', { mode: 'STANDARD' }, { correlationId: 'corr-1' });
    expect((await eventOfAck(partner, named)).correlationId).toBe('corr-1');
    const unnamed = partner.command(siteId, 'mode', { mode: 'STANDARD' }, { messageId, correlationId: null });
    expect((await eventOfAck(partner, unnamed)).correlationId).toBe(messageId);
  });

  it('gets the same event messageId in its acknowledgement when its publish is repeated [C-8.1]', async () => {
    const { partner } = await openReader();
    const question = partner.command(crypto.randomUUID(), 'device', charge());
    const first = await eventOfAck(partner, question);
    expect((await eventOfAck(partner, question)).messageId).toBe(first.messageId);
    const another = partner.command(crypto.randomUUID(), 'device', charge());
    expect((await eventOfAck(partner, another)).messageId).not.toBe(first.messageId);
  });
});

describe('a command can name its site', () => {
  it('by its id, in upper or lower case [C-7.1]', async () => {
    const { plant, partner } = await openReader({ allowed: 'first' });
    for (const siteId of [plant.id, plant.id.toUpperCase()]) {
      const event = await eventOfAck(partner, partner.command(siteId, 'device', charge()));
      expect(event).toMatchObject({ siteId: plant.id, payload: { status: 'QUEUED' } });
    }
    expect((await commandLog(plant.id)).total).toBe(2);
  });

  it("by its externalPlantId within the key's organization [C-7.1]", async () => {
    const { plant, other, externalPlantId, partner } = await openReader();
    const event = await eventOfAck(partner, partner.command(externalPlantId, 'device', charge()));
    expect(event.payload).toMatchObject({ status: 'QUEUED' });
    expect((await commandLog(plant.id)).total).toBe(1);
    expect((await commandLog(other.id)).total).toBe(0);
  });

  it('by an externalPlantId that another organization uses too: each key reaches its own site [C-7.1]', async () => {
    const { plant, externalPlantId, partner } = await openReader();
    const { organization: stranger, plant: twin } = await setScene({ plant: { externalPlantId } });
    const { partner: twinPartner } = await setScene({ organization: stranger, partner: 'connected' });
    await twinPartner.consume('event.status');
    await eventOfAck(partner, partner.command(externalPlantId, 'emergency', { type: 'STOP' }));
    expect([(await commandLog(plant.id)).total, (await commandLog(twin.id)).total]).toEqual([1, 0]);
    await eventOfAck(twinPartner, twinPartner.command(externalPlantId, 'emergency', { type: 'STOP' }));
    expect([(await commandLog(plant.id)).total, (await commandLog(twin.id)).total]).toEqual([1, 1]);
  });

  it('only by the exact case of an externalPlantId [C-7.1]', async () => {
    const { externalPlantId, partner } = await openReader();
    const event = await eventOfAck(
      partner,
      partner.command(externalPlantId.toUpperCase(), 'device', charge()),
    );
    expect(event.payload).toMatchObject({ rejectionCode: 'DEVICE_OFFLINE' });
  });
});

describe('the copy of the registry', () => {
  it('is read again for a site that was created after the connection', async () => {
    const { organization, partner } = await openReader();
    await eventOfAck(partner, partner.command(crypto.randomUUID(), 'device', charge()));
    const plant = await createPlant(organization);
    vi.setSystemTime(Date.now() + 2_000);
    const event = await eventOfAck(partner, partner.command(plant.id, 'device', charge()));
    expect(event.payload).toMatchObject({ status: 'QUEUED' });
  });

  it('is a failure, not a rejection, if it cannot be read: a publish for a new site is not confirmed (rule 7)', async () => {
    const { organization, partner } = await openReader();
    await eventOfAck(partner, partner.command(crypto.randomUUID(), 'device', charge()));
    const plant = await createPlant(organization);
    vi.setSystemTime(Date.now() + 2_000);
    failRegistry();
    const question = partner.command(plant.id, 'site-setpoint', setpoint());
    expect(await partner.ask(question)).toMatchObject({ kind: 'unstored' });
    vi.restoreAllMocks();
    expect(await partner.ask(question)).toMatchObject({ kind: 'stored' });
    expect((await commandLog(plant.id)).total).toBe(1);
  });

  it('may list 10 000 sites with long external ids (rule 9)', async () => {
    const { organization, plant } = await setScene({ plant: true });
    await fillWithPlants(organization);
    const { partner } = await setScene({ organization, partner: 'connected' });
    const question = partner.command(plant.id, 'mode', { mode: 'STANDARD' });
    expect(await partner.ask(question)).toMatchObject({ kind: 'stored' });
  });
});
