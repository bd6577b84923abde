/** A goodbye on a whole bridge with real TLS ports: idle clients are closed completely. */
import { describe, expect, vi } from 'vitest';
import { bridgeTest as it } from '#support/bridge-whole.ts';
import { CLOSE_CODES } from '../../protocol/link/live.ts';

describe('the goodbye of an object', () => {
  it('ends an idle partner and its link, without a close of the WebSocket', async ({ bridge }) => {
    const { peer, link } = await bridge.openPartner();
    link.sayGoodbye(CLOSE_CODES.expired, 'expired');
    expect(await peer.takeConnectionClose()).toMatch(/^320 .*the API key has expired/);
    await peer.acceptClose();
    expect(await link.closeCode()).toBe(1006);
    await vi.waitFor(async () => expect(await bridge.metric('connections{protocol="amqp"}')).toBe(0));
  });

  it('to each of forty devices ends these, and the forty-first stays connected', async ({ bridge }) => {
    const sessions = [];
    for (let count = 0; count < 41; count++) sessions.push(await bridge.openDevice());
    const last = sessions.pop();
    for (const { link } of sessions) link.sayGoodbye(CLOSE_CODES.takenOver, 'taken over');
    await Promise.all(sessions.map(({ peer }) => peer.untilEnded()));
    const codes = await Promise.all(sessions.map(({ link }) => link.closeCode()));
    expect(new Set(codes)).toEqual(new Set([1006]));
    await last?.peer.ping();
    expect(await bridge.metric('connections{protocol="mqtt"}')).toBe(1);
  });
});
