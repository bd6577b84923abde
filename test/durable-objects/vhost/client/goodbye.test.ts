/**
 * The last frame of a link that the object closes gives the reason, so that the bridge need not wait for the
 * close [C-5.6].
 */
import { evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test';
import { describe, expect, it, vi } from 'vitest';
import type { VhostTestLink } from '#workerd/links.ts';
import { breakWrites, consumption, type Partner } from '#workerd/partner.ts';
import { setScene } from '#workerd/scene.ts';
import { vhostOf } from '#workerd/world.ts';
import { CLOSE_CODES } from '../../../../protocol/link/live.ts';

const LIFE_MS = 30_000;

/** A key with two clients, which expires after LIFE_MS. */
async function twoClients() {
  vi.useFakeTimers({ toFake: ['Date'] });
  const expiresAtMs = Date.now() + LIFE_MS;
  const scene = await setScene({ partner: 'connected', key: { expiresAtMs } });
  const first = await scene.connect();
  const second = await scene.connect();
  return { ...scene, expiresAtMs, clients: [first, second] as const };
}

/** The object closes the link with that code, and its last frame before gives the reason. */
async function expectGoodbye(link: VhostTestLink, code: number): Promise<void> {
  expect(await link.untilClosed()).toMatchObject({ code });
  expect(link.received.at(-1)).toMatchObject({ kind: 'goodbye', code, reason: expect.stringMatching(/\S/) });
}

async function expectGoodbyes(clients: readonly Partner[], code: number): Promise<void> {
  for (const { link } of clients) await expectGoodbye(link, code);
}

describe('a client receives goodbye before its link is closed', () => {
  it('when its key is revoked [C-5.6]', async () => {
    const { key, clients } = await twoClients();
    await vhostOf(key.id).revoke();
    await expectGoodbyes(clients, CLOSE_CODES.revoked);
  });

  it('when its key is revoked while the object sleeps [C-5.6]', async () => {
    const { key, clients } = await twoClients();
    await evictDurableObject(vhostOf(key.id));
    await vhostOf(key.id).revoke();
    await expectGoodbyes(clients, CLOSE_CODES.revoked);
  });

  it('when its key expires, by the alarm of an object that sleeps [C-5.6]', async () => {
    const { key, clients, expiresAtMs } = await twoClients();
    await evictDurableObject(vhostOf(key.id));
    vi.setSystemTime(expiresAtMs);
    await runDurableObjectAlarm(vhostOf(key.id));
    await expectGoodbyes(clients, CLOSE_CODES.expired);
  });

  it('when it, or another client of its key, sends a frame after the key expired [C-5.6]', async () => {
    const { clients, expiresAtMs } = await twoClients();
    vi.setSystemTime(expiresAtMs);
    clients[0].link.send({ kind: 'credit', drainedBytes: 1 });
    await expectGoodbyes(clients, CLOSE_CODES.expired);
  });

  it('when its bridge has rebooted (rule 8)', async () => {
    const { clients, connect } = await twoClients();
    const elsewhere = await connect({ bridge: 'bridge-2' });
    await connect({ boot: 'boot-2' });
    await expectGoodbyes(clients, CLOSE_CODES.takenOver);
    expect(elsewhere.link.closed).toBeUndefined();
  });

  it('when it has been silent for two minutes (rule 2)', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const { key, connect } = await setScene({ partner: 'connected' });
    const client = await connect();
    vi.setSystemTime(Date.now() + 121_000);
    await runDurableObjectAlarm(vhostOf(key.id));
    await expectGoodbye(client.link, CLOSE_CODES.takenOver);
  });

  it('when its frames are malformed (rule 1)', async () => {
    const { clients } = await twoClients();
    clients[0].link.socket.send('hello');
    await expectGoodbye(clients[0].link, CLOSE_CODES.protocolError);
    await clients[1].quiet();
    expect(clients[1].link.closed).toBeUndefined();
  });

  it('when the object fails to handle one of its frames (rule 3)', async () => {
    vi.spyOn(console, 'error').mockReturnValue(undefined);
    const { key, clients } = await twoClients();
    await breakWrites(key, 'consumer');
    const [client] = clients;
    client.link.send({ ...consumption(client.queueName('event.alarm')), seq: 1 });
    await expectGoodbye(client.link, CLOSE_CODES.protocolError);
  });
});
