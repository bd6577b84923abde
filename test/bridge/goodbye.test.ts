/** A goodbye of the object on a whole bridge: idle clients on real TLS ports are told, and nothing of them is left. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../bridge/amqp/wire/codec.ts';
import { CLOSE_CODES } from '../../protocol/link/live.ts';
import { TestEdge } from '../support/bridge-edge.ts';
import { TestCertificates, WholeBridge } from '../support/bridge-whole.ts';

let certificates: TestCertificates;
let edge: TestEdge;
let bridge: WholeBridge;

beforeAll(async () => {
  certificates = await TestCertificates.create();
});
beforeEach(async () => {
  edge = await TestEdge.start();
  bridge = await WholeBridge.start(edge, certificates);
});
afterEach(async () => {
  await bridge.stop();
  await edge.stop();
});
afterAll(() => certificates.remove());

describe('a goodbye', () => {
  it('ends an idle partner and its link, though the object’s close never arrives', async () => {
    const [peer, link] = await Promise.all([bridge.partner(), edge.vhostLink()]);
    peer.send(METHOD.connectionTuneOk, await peer.takeMethod(METHOD.connectionTune));
    peer.send(METHOD.connectionOpen, { virtualHost: 'partner-k1' });
    await peer.takeMethod(METHOD.connectionOpenOk);
    link.send({ kind: 'goodbye', code: CLOSE_CODES.expired, reason: 'expired' });
    link.socket.pause();
    expect(await peer.takeConnectionClose()).toMatch(/^320 .*the API key has expired/);
    peer.send(METHOD.connectionCloseOk);
    await peer.untilEnded();
    link.socket.resume();
    expect((await link.untilClosed()).code).toBe(1006);
    await vi.waitFor(async () => expect(await bridge.metric('connections{protocol="amqp"}')).toBe(0));
  });

  it('ends forty devices at once, and leaves the forty-first', async () => {
    const sessions = [];
    for (let count = 0; count < 41; count++) {
      const [peer, link] = await Promise.all([bridge.device(), edge.deviceLink()]);
      expect(await peer.takeConnack()).toBe(0);
      sessions.push({ peer, link });
    }
    const last = sessions.pop();
    for (const { link } of sessions) {
      link.send({ kind: 'goodbye', code: CLOSE_CODES.takenOver, reason: 'taken over' });
      link.socket.pause();
    }
    await Promise.all(sessions.map(({ peer }) => peer.untilEnded()));
    for (const { link } of sessions) link.socket.resume();
    expect(
      new Set((await Promise.all(sessions.map(({ link }) => link.untilClosed()))).map(({ code }) => code)),
    ).toEqual(new Set([1006]));
    await last?.peer.ping();
    expect(await bridge.metric('connections{protocol="mqtt"}')).toBe(1);
  });
});
