/** The whole bridge on real TLS ports, between stock clients and a test's edge. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectAmqp } from 'amqplib';
import { connectAsync } from 'mqtt';
import { describe, expect, vi } from 'vitest';
import { envelope, VHOST } from '#support/bridge-edge.ts';
import { DEVICE_ID } from '#support/bridge-link.ts';
import { TELEMETRY } from '#support/bridge-mqtt.ts';
import { ADDRESS, bridgeTest } from '#support/bridge-whole.ts';
import { CLOSE_CODES } from '../../protocol/link/live.ts';

const it = bridgeTest
  .extend('connectPartner', ({ certificates, bridge }) => () => {
    const login = { username: 'acme', password: 'key', vhost: VHOST };
    return connectAmqp(
      { protocol: 'amqps', hostname: ADDRESS, port: bridge.ports.amqps, ...login },
      { ca: [readFileSync(certificates.files.ca)] },
    );
  })
  .extend('connectDevice', ({ certificates, bridge }) => (password = 'token') => {
    const ca = readFileSync(certificates.files.ca);
    const login = { username: DEVICE_ID, password, ca, reconnectPeriod: 0 };
    return connectAsync({ protocol: 'mqtts', host: ADDRESS, port: bridge.ports.mqtts, ...login });
  });

describe('a bridge', () => {
  it('carries messages of partners and devices to the edge', async ({
    edge,
    connectPartner,
    connectDevice,
  }) => {
    const [partner, vhost] = await Promise.all([connectPartner(), edge.vhostLink()]);
    const [device, site] = await Promise.all([connectDevice(), edge.deviceLink()]);
    expect(edge.dialed.map(({ path, username, proof }) => [path, username, proof.address])).toEqual([
      ['/link/amqp', 'acme', '127.0.0.1'],
      ['/link/mqtt', DEVICE_ID, '127.0.0.1'],
    ]);
    expect(new Set(edge.dialed.map(({ proof }) => `${proof.bridge}|${proof.boot}`)).size).toBe(1);
    const channel = await partner.createConfirmChannel();
    channel.publish('vcp', 'acme.command.mode', Buffer.from('command'));
    await vhost.store();
    await channel.waitForConfirms();
    const publishing = device.publishAsync(TELEMETRY, 'telemetry', { qos: 1 });
    await site.store();
    await publishing;
    await partner.close();
    await device.endAsync();
    await Promise.all([vhost.untilClosed(), site.untilClosed()]);
  });

  it('counts connections, publishes and dials', async ({ edge, bridge, connectPartner, connectDevice }) => {
    const partner = await connectPartner();
    const link = await edge.vhostLink();
    const channel = await partner.createConfirmChannel();
    channel.publish('vcp', 'acme.command.mode', Buffer.from('x'));
    await link.take('publish');
    expect(await bridge.metric('connections{protocol="amqp"}')).toBe(1);
    expect(await bridge.metric('published_total{protocol="amqp"}')).toBe(1);
    edge.answer = () => envelope('UNAUTHORIZED');
    await expect(connectDevice('bad')).rejects.toThrow();
    expect(await bridge.metric('dials_total{protocol="amqp",outcome="accepted"}')).toBe(1);
    expect(await bridge.metric('dials_total{protocol="mqtt",outcome="refused"}')).toBe(1);
    channel.on('error', () => {});
    link.close();
    await once(partner, 'close');
    await vi.waitFor(async () => expect(await bridge.metric('connections{protocol="amqp"}')).toBe(0));
  });

  it('is ready only while the edge answers, and healthy even without it', async ({ edge, bridge }) => {
    expect((await bridge.fetch('/readyz')).status).toBe(200);
    await edge.stop();
    expect((await bridge.fetch('/readyz')).status).toBe(503);
    expect((await bridge.fetch('/healthz')).status).toBe(200);
  });

  it('closes all clients when it stops, partners with 320 [C-6.3]', async ({
    edge,
    bridge,
    connectPartner,
    connectDevice,
  }) => {
    const partner = await connectPartner();
    const [vhost, device] = await Promise.all([edge.vhostLink(), connectDevice()]);
    const site = await edge.deviceLink();
    const partnerClosed = once(partner, 'close');
    const deviceClosed = new Promise<void>((resolve) => device.once('close', () => resolve()));
    await bridge.stop();
    expect(String(await partnerClosed)).toMatch(/320 .*shutdown/);
    await deviceClosed;
    await Promise.all([vhost.untilClosed(), site.untilClosed()]);
    await expect(connectPartner()).rejects.toThrow(/ECONNREFUSED/);
    await expect(connectDevice()).rejects.toThrow(/ECONNREFUSED/);
  });

  it('stops without clients, and then accepts no request', async ({ bridge }) => {
    await bridge.stop();
    await expect(bridge.fetch('/readyz')).rejects.toThrow();
  });
});

describe('the goodbye of an object on a whole bridge', () => {
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
