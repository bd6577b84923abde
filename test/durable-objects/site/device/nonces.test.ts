/**
 * The nonce memory at its capacity: further messages wait until nonces expire, and no nonce is forgotten
 * early [C-3.8].
 */
import { setScene } from '#workerd/scene.ts';
import { boundSite } from '#workerd/site-bounds.ts';
import { MINUTE, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  type DeviceCredential,
  droppedOf,
  nthCommand,
  publish,
  publishAll,
  rawTelemetry,
  sendAck,
} from '#workerd/site-devices.ts';
import { newestCommand } from '#workerd/site-reads.ts';
import { evictSite, journalLines } from '#workerd/site-rows.ts';
import { charge, Submitter } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import type { DeviceLinkDown } from '../../../../protocol/link/device.ts';

const CAP = 100;

/** Fills the memory. The first message is dated ahead: its nonce counts for 9 minutes, the others for 5. */
async function newFullSite() {
  const scene = await setScene({ gateway: 'connected' });
  await boundSite(scene.plant.id, { nonces: CAP });
  const sent = Array.from({ length: CAP }, (_none, index) => {
    const ts = index === 0 ? START_MS + 4 * MINUTE : START_MS;
    return rawTelemetry(scene.gateway, { data: '{"gridPowerKw":1}', nonce: `n-${index}`, ts });
  });
  expect(await publishAll(scene.link, sent)).toEqual(Array(CAP).fill(true));
  return scene;
}

/** Other data with a used nonce. */
const replayOf = (gateway: DeviceCredential, index: number) =>
  rawTelemetry(gateway, { data: '{"gridPowerKw":666}', nonce: `n-${index}` });

describe('a site at its nonce capacity', () => {
  it('a message over the nonce capacity waits, neither stored nor dropped, until nonces expire [rule 9]', async () => {
    const { plant, link, gateway } = await newFullSite();
    const next = rawTelemetry(gateway, {
      data: '{"gridPowerKw":2}',
      nonce: 'next',
      ts: START_MS + 4 * MINUTE,
    });
    const isAnswer = (frame: DeviceLinkDown) => 'seqs' in frame && frame.seqs.includes(9_000_000);
    link.send({ kind: 'publish', seq: 9_000_000, topic: 'telemetry', payload: next });
    expect((await link.next(isAnswer)).kind).toBe('wait');
    expect(await journalLines(plant.id)).toBe(CAP);
    setClock(START_MS + 5 * MINUTE + SECOND);
    expect(await publish(link, next)).toBe(true);
    expect(await journalLines(plant.id)).toBe(CAP + 1);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
  });

  it('acks are accepted at the nonce capacity, because they have no nonce [C-3.9]', async () => {
    const { plant, link, gateway } = await newFullSite();
    link.send({ kind: 'subscribed', commands: true });
    const partner = new Submitter(plant.id);
    expect(await sendAck(link, gateway, 'none', 'RECEIVED')).toBe(true);
    await partner.submit(charge());
    expect(await sendAck(link, gateway, (await nthCommand(link, 1)).cmdId, 'COMPLETED')).toBe(true);
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'COMPLETED' });
  });

  it('the longest-lived nonce is still known after others expire, also after an eviction: a replay is rejected [C-3.8]', async () => {
    const { plant, link, gateway } = await newFullSite();
    setClock(START_MS + 5 * MINUTE + SECOND);
    await publish(link, replayOf(gateway, 0));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ NONCE: 1 });
    await evictSite(plant.id);
    await publish(link, replayOf(gateway, 0));
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ NONCE: 2 });
    expect(await journalLines(plant.id)).toBe(CAP);
  });

  it('every nonce is known after a wake with a larger capacity: no replay is accepted [C-3.8]', async () => {
    const { plant, link, gateway } = await newFullSite();
    setClock(START_MS + 10 * SECOND);
    await boundSite(plant.id, { nonces: CAP + 10 });
    await publishAll(
      link,
      Array.from({ length: CAP }, (_none, index) => replayOf(gateway, index)),
    );
    expect(await droppedOf(plant.id, gateway.id)).toEqual({ NONCE: CAP });
    expect(await journalLines(plant.id)).toBe(CAP);
  });
});
