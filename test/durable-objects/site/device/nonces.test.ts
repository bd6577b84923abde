/** The memory of nonces at its cap: what no longer fits waits until some are over, and none is forgotten for it [C-3.8]. */
import { describe, expect, it } from 'vitest';
import type { DeviceLinkDown } from '../../../../protocol/link/device.ts';
import { boundSite, restoreBounds } from '../../../support/workerd/site-bounds.ts';
import { holdClock, MINUTE, SECOND, START_MS, setClock } from '../../../support/workerd/site-clock.ts';
import {
  droppedOf,
  nthCommand,
  publish,
  publishAll,
  rawTelemetry,
  sendAck,
} from '../../../support/workerd/site-devices.ts';
import { newestCommand } from '../../../support/workerd/site-reads.ts';
import { evictSite, numberOf } from '../../../support/workerd/site-rows.ts';
import { newConnectedSite } from '../../../support/workerd/site-scenes.ts';
import { charge, Submitter } from '../../../support/workerd/site-submissions.ts';

holdClock();
restoreBounds();

const CAP = 100;
const LINES = `SELECT sum(length(data) - length(replace(data, char(10), ''))) FROM journal_block`;

async function newFullSite() {
  const scene = await newConnectedSite();
  await boundSite(scene.plant.id, { nonces: CAP });
  const sent = Array.from({ length: CAP }, (_none, index) =>
    rawTelemetry(scene.gateway, { data: '{"gridPowerKw":1}', nonce: `n-${index}` }),
  );
  expect(await publishAll(scene.link, sent)).toEqual(Array(CAP).fill(true));
  return scene;
}

describe('a site that remembers as many nonces as it can', () => {
  it('lets the next message wait, unstored and not dropped, until some are over [rule 9]', async () => {
    const { plant, link, gateway } = await newFullSite();
    const next = rawTelemetry(gateway, {
      data: '{"gridPowerKw":2}',
      nonce: 'next',
      ts: START_MS + 4 * MINUTE,
    });
    const isAnswer = (frame: DeviceLinkDown) => 'seqs' in frame && frame.seqs.includes(9_000_000);
    link.send({ kind: 'publish', seq: 9_000_000, topic: 'telemetry', payload: next });
    expect((await link.next(isAnswer)).kind).toBe('wait');
    expect(await numberOf(plant.id, LINES)).toBe(CAP);
    setClock(START_MS + 5 * MINUTE + SECOND);
    expect(await publish(link, next)).toBe(true);
    expect(await numberOf(plant.id, LINES)).toBe(CAP + 1);
    expect(await droppedOf(plant.id, gateway.id)).toEqual({});
  });

  it('takes acknowledgements all the same: they have no nonce, and their command must not hang [C-3.9]', async () => {
    const { plant, link, gateway } = await newFullSite();
    link.send({ kind: 'subscribed', commands: true });
    const partner = new Submitter(plant.id);
    expect(await sendAck(link, gateway, 'none', 'RECEIVED')).toBe(true);
    await partner.submit(charge());
    expect(await sendAck(link, gateway, (await nthCommand(link, 1)).cmdId, 'COMPLETED')).toBe(true);
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'COMPLETED' });
  });

  it('still knows the first of them: a replay is no way in, over a wake either [C-3.8]', async () => {
    const { plant, link, gateway } = await newFullSite();
    for (const state of ['awake', 'woken']) {
      if (state === 'woken') await evictSite(plant.id);
      setClock(Date.now() + 10 * SECOND);
      const forged = rawTelemetry(gateway, { data: '{"gridPowerKw":666}', nonce: 'n-0' });
      const isAnswer = (frame: DeviceLinkDown) => 'seqs' in frame && frame.seqs.includes(9_000_001);
      link.send({ kind: 'publish', seq: 9_000_001, topic: 'telemetry', payload: forged });
      await link.next(isAnswer);
      expect([state, await numberOf(plant.id, LINES)]).toEqual([state, CAP]);
    }
  });
});
