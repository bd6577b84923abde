/**
 * The organization's copy decides while it is younger than 20 minutes. From 15 minutes on the vhost refreshes
 * it; an older copy is refreshed before it decides (rule 7). This is only the fallback: every change notifies
 * the vhost.
 */
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { ackOf, commandLog, type Partner, setpoint } from '#workerd/partner.ts';
import { changeRegistry, changeSettings, removePlant } from '#workerd/registry-changes.ts';
import { failRegistry, hangRegistry, holdNextAnswer, watchRegistry } from '#workerd/registry-reads.ts';
import { ACKS, setScene } from '#workerd/scene.ts';
import { turn } from '#workerd/site-calls.ts';
import { holdClock, MINUTE, SECOND, setClock } from '#workerd/site-clock.ts';
import { vhostOf } from '#workerd/world.ts';

const OLD_MS = 20 * MINUTE;
/** From this age on the vhost refreshes the copy after it decided. */
const AGEING_MS = 15 * MINUTE;
const YOUNG_MS = AGEING_MS - 1;

holdClock();
beforeEach(() => {
  vi.spyOn(console, 'warn').mockReturnValue(undefined);
});

/** A partner whose copy was just read, because it has published before. */
async function openReader() {
  const { scene, partner, plant } = await setScene({ plant: true, consumes: ACKS });
  await partner.ask(partner.command(crypto.randomUUID(), 'emergency', { type: 'STOP' }));
  expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'stored' });
  await partner.delivered(2);
  return scene;
}

/** Accepted unless the organization requires every command to be signed. */
function unsigned(partner: Partner, siteId: string) {
  return partner.command(siteId, 'site-setpoint', setpoint(), { signingKey: null });
}

async function acknowledged(partner: Partner, siteId: string) {
  return await ackOf(partner, unsigned(partner, siteId));
}

describe('a copy of the registry that is 20 minutes old', () => {
  it('does not decide: a change made meanwhile applies [C-7.2]', async () => {
    const { organization, plant, partner } = await openReader();
    await changeRegistry(organization, changeSettings({ requireSignedCommands: true }));
    setClock(Date.now() + OLD_MS);
    expect(await acknowledged(partner, plant.id)).toMatchObject({ status: 'REJECTED' });
  });

  it('does not decide: a command for a plant that was deleted meanwhile is rejected as for an unknown site [C-7.1]', async () => {
    const { organization, plant, partner } = await openReader();
    await changeRegistry(organization, removePlant(plant));
    setClock(Date.now() + OLD_MS);
    expect(await acknowledged(partner, plant.id)).toMatchObject({
      status: 'REJECTED',
      rejectionCode: 'DEVICE_OFFLINE',
      message: 'no such site',
    });
  });

  it('leaves a publish neither confirmed nor recorded if it cannot be refreshed (rule 7)', async () => {
    const { plant, partner } = await openReader();
    const { total } = await commandLog(plant.id);
    setClock(Date.now() + OLD_MS);
    failRegistry();
    expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'unstored' });
    vi.restoreAllMocks();
    expect((await commandLog(plant.id)).total).toBe(total);
    expect(await acknowledged(partner, plant.id)).not.toMatchObject({ status: 'REJECTED' });
  });

  it('leaves a publish unconfirmed after three seconds, and not recorded, if its refresh gets no answer (rule 7)', async () => {
    const { key, plant, partner } = await openReader();
    const { total } = await commandLog(plant.id);
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: Date.now() + OLD_MS });
    const reads = hangRegistry();
    // The timer is the vhost's: its context must run it.
    const pass = (ms: number) =>
      runInDurableObject(vhostOf(key.id), () => {
        vi.advanceTimersByTime(ms);
      });
    const isAnswered = () => partner.link.received.some(({ kind }) => kind === 'unstored');
    const answer = partner.ask(unsigned(partner, plant.id));
    while (reads.count === 0) await turn();
    await pass(3 * SECOND - 1);
    await partner.quiet();
    expect(isAnswered()).toBe(false);
    await pass(1);
    expect(await answer).toMatchObject({ kind: 'unstored' });
    vi.restoreAllMocks();
    expect((await commandLog(plant.id)).total).toBe(total);
  });

  it('delays no frame of another kind if its refresh gets no answer (rule 4)', async () => {
    const { plant, partner } = await openReader();
    setClock(Date.now() + OLD_MS);
    hangRegistry();
    partner.link.send({ ...unsigned(partner, plant.id), seq: 1 });
    await partner.quiet();
    expect(await partner.get('event.alarm')).toMatchObject({ kind: 'got' });
  });

  it('is refreshed once for all publishes that wait for it (rule 9)', async () => {
    const { plant, partner } = await openReader();
    setClock(Date.now() + OLD_MS);
    const reads = watchRegistry();
    await partner.askAll(...Array.from({ length: 20 }, () => unsigned(partner, plant.id)));
    // One read by the vhost, one by the site.
    expect(reads.count).toBe(2);
  });
});

describe('a copy of the registry that is younger than 20 minutes', () => {
  it('decides even if D1 fails (rule 7)', async () => {
    const { plant, partner } = await openReader();
    setClock(Date.now() + OLD_MS - 1);
    failRegistry();
    expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'stored' });
  });

  it('is not refreshed for 15 minutes, and then after a publish, which does not wait for it (rule 9)', async () => {
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
    // One read by the vhost, one by the site.
    expect(ageing.count).toBe(2);
  });

  it('still decides after the object has slept, because its age is stored (rule 7)', async () => {
    const { key, plant, partner } = await openReader();
    setClock(Date.now() + YOUNG_MS);
    await evictDurableObject(vhostOf(key.id));
    failRegistry();
    expect(await partner.ask(unsigned(partner, plant.id))).toMatchObject({ kind: 'stored' });
  });

  it('keeps its age over a sleep: from 20 minutes on it is refreshed before it decides (rule 7)', async () => {
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
