/**
 * The organization's copy decides while it is younger than 20 minutes, and is read anew from 15 on; an older one is read
 * first (rule 7). That is the net: whoever changes something tells the vhost.
 */
import { evictDurableObject } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { commandLog, eventOf, type Partner, setpoint } from '../../../support/workerd/partner.ts';
import { openPartnerWithPlant } from '../../../support/workerd/partner-scenes.ts';
import { changeRegistry, changeSettings, removePlant } from '../../../support/workerd/registry-changes.ts';
import {
  failRegistry,
  hangRegistry,
  holdNextAnswer,
  watchRegistry,
} from '../../../support/workerd/registry-reads.ts';
import { holdClock, MINUTE, setClock } from '../../../support/workerd/site-clock.ts';
import { vhostOf } from '../../../support/workerd/world.ts';

const OLD_MS = 20 * MINUTE;
/** From here on it is read anew behind what it decides. */
const AGEING_MS = 15 * MINUTE;
const YOUNG_MS = AGEING_MS - 1;

holdClock();
beforeEach(() => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});

/** A partner whose copy was read just now: it has published before. */
async function openReader() {
  const scene = await openPartnerWithPlant();
  const { partner, plant } = scene;
  await partner.consume('event.status', { noAck: true });
  await partner.ask(partner.command(crypto.randomUUID(), 'emergency', { type: 'STOP' }));
  expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'stored' });
  await partner.delivered(2);
  return scene;
}

/** Accepted unless the organization wants every command signed. */
function unsigned(partner: Partner, siteId: string) {
  return partner.command(siteId, 'site-setpoint', setpoint(), { signingKey: null });
}

async function acknowledged(partner: Partner, siteId: string) {
  const before = partner.deliveries().length;
  expect(await partner.ask(unsigned(partner, siteId))).toMatchObject({ kind: 'stored' });
  const ack = (await partner.delivered(before + 1)).at(-1);
  return ack && eventOf(ack).payload;
}

describe('a copy that is 20 minutes old', () => {
  it('does not decide: what an admin changed meanwhile is in force [C-7.2]', async () => {
    const { organization, plant, partner } = await openReader();
    await changeRegistry(organization, changeSettings({ requireSignedCommands: true }));
    setClock(Date.now() + OLD_MS);
    expect(await acknowledged(partner, plant.id)).toMatchObject({ status: 'REJECTED' });
  });

  it('does not decide of a plant that is gone: there is no such site [C-7.1]', async () => {
    const { organization, plant, partner } = await openReader();
    await changeRegistry(organization, removePlant(plant));
    setClock(Date.now() + OLD_MS);
    expect(await acknowledged(partner, plant.id)).toMatchObject({
      status: 'REJECTED',
      rejectionCode: 'DEVICE_OFFLINE',
      message: 'no such site',
    });
  });

  it('and cannot be read anew is trouble: the publish is not confirmed, and nothing recorded (rule 7)', async () => {
    const { plant, partner } = await openReader();
    const { total } = await commandLog(plant.id);
    setClock(Date.now() + OLD_MS);
    failRegistry();
    expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'unstored' });
    vi.restoreAllMocks();
    expect((await commandLog(plant.id)).total).toBe(total);
    expect(await acknowledged(partner, plant.id)).not.toMatchObject({ status: 'REJECTED' });
  });

  it('and is read without an answer is trouble after three seconds (rule 7)', async () => {
    const { plant, partner } = await openReader();
    const { total } = await commandLog(plant.id);
    setClock(Date.now() + OLD_MS);
    hangRegistry();
    expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'unstored' });
    vi.restoreAllMocks();
    expect((await commandLog(plant.id)).total).toBe(total);
  });

  it('and is read without an answer holds up no frame of another kind (rule 4)', async () => {
    const { plant, partner } = await openReader();
    setClock(Date.now() + OLD_MS);
    hangRegistry();
    partner.link.send({ ...unsigned(partner, plant.id), seq: 1 });
    await partner.quiet();
    expect(await partner.get('event.alarm')).toMatchObject({ kind: 'got' });
  });

  it('is read once for all that wait for it (rule 9)', async () => {
    const { plant, partner } = await openReader();
    setClock(Date.now() + OLD_MS);
    const reads = watchRegistry();
    await partner.askAll(...Array.from({ length: 20 }, () => unsigned(partner, plant.id)));
    // The vhost's, and the site's own.
    expect(reads.count).toBe(2);
  });
});

describe('a copy that is younger', () => {
  it('decides alone: the registry may be away (rule 7)', async () => {
    const { plant, partner } = await openReader();
    setClock(Date.now() + OLD_MS - 1);
    failRegistry();
    expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'stored' });
  });

  it('is not read again for 15 minutes, and then behind a publish that does not wait for it (rule 9)', async () => {
    const { organization, plant, partner } = await openReader();
    const atMs = Date.now();
    const reads = watchRegistry();
    setClock(atMs + YOUNG_MS);
    expect(await acknowledged(partner, plant.id)).toMatchObject({ status: 'QUEUED' });
    expect(reads.count).toBe(0);
    vi.restoreAllMocks();
    await changeRegistry(organization, changeSettings({ requireSignedCommands: true }));
    const { reads: ageing, release } = holdNextAnswer();
    setClock(atMs + AGEING_MS);
    expect(await acknowledged(partner, plant.id)).toMatchObject({ status: 'QUEUED' });
    release();
    await vi.waitFor(async () =>
      expect(await acknowledged(partner, plant.id)).toMatchObject({ status: 'REJECTED' }),
    );
    // The vhost's, and the site's own.
    expect(ageing.count).toBe(2);
  });

  it('still does after the object has slept: its age is stored (rule 7)', async () => {
    const { key, plant, partner } = await openReader();
    setClock(Date.now() + YOUNG_MS);
    await evictDurableObject(vhostOf(key.id));
    failRegistry();
    expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'stored' });
  });

  it('is as old after a sleep as it was: from 20 minutes on it is read anew (rule 7)', async () => {
    const { key, organization, plant, partner } = await openReader();
    setClock(Date.now() + YOUNG_MS);
    await evictDurableObject(vhostOf(key.id));
    expect(await acknowledged(partner, plant.id)).not.toMatchObject({ status: 'REJECTED' });
    await changeRegistry(organization, changeSettings({ requireSignedCommands: true }));
    await evictDurableObject(vhostOf(key.id));
    setClock(Date.now() + OLD_MS - YOUNG_MS);
    expect(await acknowledged(partner, plant.id)).toMatchObject({ status: 'REJECTED' });
  });
});
