/** The whole bridge on real TLS ports, with stock clients before it and an edge of the test behind it. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ChannelModel, connect as connectAmqp } from 'amqplib';
import { connectAsync, type MqttClient } from 'mqtt';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { Bridge } from '../../bridge/bridge.ts';
import { readConfig } from '../../bridge/config.ts';
import { type CertificateFiles, ensureCertificates } from '../../tools/certificates.ts';
import { envelope, SECRET, TestEdge, VHOST } from '../support/bridge-edge.ts';
import { DEVICE_ID } from '../support/bridge-link.ts';
import { TELEMETRY } from '../support/bridge-mqtt.ts';

let folder: string;
let files: CertificateFiles;
let edge: TestEdge;
let bridge: Bridge;
let ports: Awaited<ReturnType<Bridge['start']>>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sitewire-bridge-'));
  files = await ensureCertificates(folder);
});
beforeEach(async () => {
  edge = await TestEdge.start();
  const config = readConfig({
    SITEWIRE_EDGE_URL: edge.url,
    SITEWIRE_BRIDGE_SECRET: SECRET,
    SITEWIRE_BRIDGE_ID: 'bridge-test',
    SITEWIRE_TLS_CERT: files.certificate,
    SITEWIRE_TLS_KEY: files.key,
    SITEWIRE_HOST: '127.0.0.1',
    SITEWIRE_AMQPS_PORT: '0',
    SITEWIRE_MQTTS_PORT: '0',
    SITEWIRE_METRICS_PORT: '0',
  });
  bridge = new Bridge(config, pino({ level: 'silent' }));
  ports = await bridge.start();
});
afterEach(async () => {
  await bridge.stop();
  await edge.stop();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function connectPartner(): Promise<ChannelModel> {
  return connectAmqp(
    {
      protocol: 'amqps',
      hostname: '127.0.0.1',
      port: ports.amqps,
      username: 'acme',
      password: 'key',
      vhost: VHOST,
    },
    { ca: [readFileSync(files.ca)] },
  );
}

function connectDevice(password = 'token'): Promise<MqttClient> {
  return connectAsync({
    protocol: 'mqtts',
    host: '127.0.0.1',
    port: ports.mqtts,
    ca: readFileSync(files.ca),
    username: DEVICE_ID,
    password,
    reconnectPeriod: 0,
  });
}

async function metric(line: string): Promise<string | undefined> {
  const text = await (await fetch(`http://127.0.0.1:${ports.metrics}/metrics`)).text();
  return text.split('\n').find((one) => one.startsWith(`sitewire_bridge_${line} `));
}

async function readyStatus(): Promise<number> {
  return (await fetch(`http://127.0.0.1:${ports.metrics}/readyz`)).status;
}

describe('a bridge', () => {
  it('carries a partner over AMQPS and a device over MQTTS, each to its own object', async () => {
    const [partner, vhost] = await Promise.all([connectPartner(), edge.vhostLink()]);
    const [device, site] = await Promise.all([connectDevice(), edge.deviceLink()]);
    expect(edge.dialed.map(({ path, username, proof }) => [path, username, proof.address])).toEqual([
      ['/link/amqp', 'acme', '127.0.0.1'],
      ['/link/mqtt', DEVICE_ID, '127.0.0.1'],
    ]);
    expect(new Set(edge.dialed.map(({ proof }) => `${proof.bridge}|${proof.boot}`)).size).toBe(1);
    const channel = await partner.createConfirmChannel();
    channel.publish('vcp', 'acme.command.mode', Buffer.from('command'));
    vhost.send({ kind: 'stored', seqs: [(await vhost.take('publish')).seq] });
    await channel.waitForConfirms();
    const publishing = device.publishAsync(TELEMETRY, 'telemetry', { qos: 1 });
    site.send({ kind: 'stored', seqs: [(await site.take('publish')).seq] });
    await publishing;
    await partner.close();
    await device.endAsync();
    await Promise.all([vhost.untilClosed(), site.untilClosed()]);
  });

  it('counts what it does', async () => {
    const partner = await connectPartner();
    const link = await edge.vhostLink();
    const channel = await partner.createConfirmChannel();
    channel.publish('vcp', 'acme.command.mode', Buffer.from('x'));
    await link.take('publish');
    expect(await metric('connections{protocol="amqp"}')).toMatch(/ 1$/);
    expect(await metric('published_total{protocol="amqp"}')).toMatch(/ 1$/);
    edge.answer = () => envelope('UNAUTHORIZED');
    await expect(connectDevice('bad')).rejects.toThrow();
    expect(await metric('dials_total{protocol="amqp",outcome="accepted"}')).toMatch(/ 1$/);
    expect(await metric('dials_total{protocol="mqtt",outcome="refused"}')).toMatch(/ 1$/);
    channel.on('error', () => {});
    link.close();
    await new Promise((resolve) => partner.once('close', resolve));
    await vi.waitFor(async () => expect(await metric('connections{protocol="amqp"}')).toMatch(/ 0$/));
  });

  it('is ready while the edge answers, and not when it does not', async () => {
    expect(await readyStatus()).toBe(200);
    await edge.stop();
    expect(await readyStatus()).toBe(503);
    expect((await fetch(`http://127.0.0.1:${ports.metrics}/healthz`)).status).toBe(200);
  });

  it('that stops tells its partners to come back, closes its devices, and takes no more [C-6.3]', async () => {
    const partner = await connectPartner();
    const [vhost, device] = await Promise.all([edge.vhostLink(), connectDevice()]);
    const site = await edge.deviceLink();
    const partnerClosed = new Promise<Error | undefined>((resolve) => partner.once('close', resolve));
    const deviceClosed = new Promise<void>((resolve) => device.once('close', () => resolve()));
    await bridge.stop();
    expect((await partnerClosed)?.message).toMatch(/320 .*shutdown/);
    await deviceClosed;
    await Promise.all([vhost.untilClosed(), site.untilClosed()]);
    await expect(connectPartner()).rejects.toThrow(/ECONNREFUSED/);
    await expect(connectDevice()).rejects.toThrow(/ECONNREFUSED/);
  });

  it('that is stopped with nobody there just stops', async () => {
    await bridge.stop();
    await expect(readyStatus()).rejects.toThrow();
  });
});
