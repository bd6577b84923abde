/** The listener for certificates: its handshake, and the device that a certificate names [C-3.3]. */
import 'reflect-metadata';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import * as x509 from '@peculiar/x509';
import { describe, expect } from 'vitest';
import { envelope } from '#support/bridge-edge.ts';
import { DEVICE_ID } from '#support/bridge-link.ts';
import { OTHER_ID } from '#support/bridge-mqtt.ts';
import { connectPacket, MqttPeer, publishPacket } from '#support/bridge-mqtt-peer.ts';
import {
  ADDRESS,
  bridgeTest as it,
  OLD_TLS,
  type TestCertificates,
  type WholeBridge,
} from '#support/bridge-whole.ts';
import { freePort } from '../../../tools/ports.ts';

const YEAR_MS = 366 * 86_400_000;

async function selfSigned(): Promise<ConnectionOptions> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: `CN=${DEVICE_ID}`,
    notBefore: new Date(Date.now() - 1_000),
    notAfter: new Date(Date.now() + YEAR_MS),
    signingAlgorithm: algorithm,
    keys,
  });
  const key = await crypto.subtle.exportKey('pkcs8', keys.privateKey);
  return { cert: certificate.toString('pem'), key: x509.PemConverter.encode(key, 'PRIVATE KEY') };
}

/** The number of bytes that a client which sends a whole login receives before its connection ends. */
async function bytesReceived(bridge: WholeBridge, options: ConnectionOptions): Promise<number> {
  const { socket } = bridge.connectTls(bridge.ports.mtls, ADDRESS, options);
  let bytes = 0;
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  socket.on('error', () => {});
  socket.write(connectPacket({ username: DEVICE_ID, password: 'token' }));
  await new Promise((resolve) => socket.once('close', resolve));
  return bytes;
}

describe('a certificate of the trusted authority', () => {
  it.for(['TLSv1.2', 'TLSv1.3'] as const)(
    'opens a session over %s, and the proof has its fingerprint [C-3.3]',
    async (version, { certificates, edge, bridge }) => {
      const { fingerprint, ...identity } = await certificates.device();
      const peer = await bridge.certified({ ...identity, minVersion: version, maxVersion: version });
      const link = await edge.deviceLink();
      expect(await peer.takeConnack()).toBe(0);
      expect(fingerprint).toMatch(/^[0-9a-f]{64}$/);
      expect(edge.dialed).toMatchObject([
        { path: '/link/mqtt', username: DEVICE_ID, password: '', proof: { fingerprint, address: ADDRESS } },
      ]);
      peer.write(publishPacket(`cpi/${DEVICE_ID}/telemetry`, '{}'));
      expect((await link.take('publish')).topic).toBe('telemetry');
    },
  );

  it.for([
    ['no user name', {}],
    ['its own name as user name', { username: DEVICE_ID }],
    ['that in upper case', { username: DEVICE_ID.toUpperCase() }],
    ['a password, which is ignored', { username: DEVICE_ID, password: 'whatever' }],
    ['an empty user name', { username: '' }],
  ] as const)(
    'decides which device connects, with %s in CONNECT [C-3.3]',
    async ([_, options], { certificates, edge, bridge }) => {
      const peer = await bridge.certified(await certificates.device(), options);
      expect(await peer.takeConnack()).toBe(0);
      expect(edge.dialed).toMatchObject([{ username: DEVICE_ID, password: '' }]);
    },
  );

  it('may name its device in upper case', async ({ certificates, edge, bridge }) => {
    const peer = await bridge.certified(await certificates.device(DEVICE_ID.toUpperCase()));
    expect(await peer.takeConnack()).toBe(0);
    expect(edge.dialed[0]?.username).toBe(DEVICE_ID);
  });

  it.for([
    ['another device’s', OTHER_ID, OTHER_ID],
    ['one that is no UUID', 'gateway-1', 'gateway-1'],
    ['a long one', 'x'.repeat(1_000), 'x'.repeat(100)],
  ] as const)(
    'is dialed with both names if CONNECT has a user name that is %s, and its refusal gets code 5 (bad input: MQTT)',
    async ([_, username, claimed], { certificates, edge, bridge }) => {
      edge.answer = () => envelope('UNAUTHORIZED');
      const options = { username, password: 'token' };
      const peer = await bridge.certified(await certificates.device(DEVICE_ID), options);
      expect(await peer.takeRefusal()).toBe(5);
      expect(edge.dialed).toMatchObject([{ username: DEVICE_ID, password: claimed }]);
    },
  );

  it('gets code 5 without a dial if its name is no device id (bad input: MQTT)', async ({
    certificates,
    edge,
    bridge,
  }) => {
    const peer = await bridge.certified(await certificates.device('gateway-1'), { username: DEVICE_ID });
    expect(await peer.takeRefusal()).toBe(5);
    expect(edge.dialed).toEqual([]);
  });

  it('gets code 5 if the edge rejects it (bad input: MQTT)', async ({ certificates, edge, bridge }) => {
    edge.answer = () => envelope('UNAUTHORIZED');
    expect(await (await bridge.certified(await certificates.device())).takeRefusal()).toBe(5);
    expect(edge.dialed).toHaveLength(1);
  });

  it('is rejected without a dial after 30 rejections; a new certificate is dialed [C-3.11]', async ({
    certificates,
    edge,
    bridge,
  }) => {
    edge.answer = () => envelope('UNAUTHORIZED');
    const old = await certificates.device();
    for (let count = 0; count < 31; count++) await (await bridge.certified(old)).takeRefusal();
    expect(edge.dialed).toHaveLength(30);
    edge.reset();
    const renewed = await certificates.device();
    expect(await (await bridge.certified(renewed)).takeConnack()).toBe(0);
    expect(edge.dialed).toMatchObject([{ proof: { fingerprint: renewed.fingerprint } }]);
  });

  it('is checked in each handshake, because no TLS session is resumed', async ({ certificates, bridge }) => {
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const { fingerprint: _known, ...identity } = await certificates.device();
      let session: Buffer | undefined;
      const { socket: first } = bridge.connectTls(bridge.ports.mtls, ADDRESS, { maxVersion, ...identity });
      first.on('session', (given) => {
        session = given;
      });
      first.write(connectPacket({}));
      await once(first, 'data');
      session ??= first.getSession();
      const { socket: second } = bridge.connectTls(bridge.ports.mtls, ADDRESS, {
        maxVersion,
        ...identity,
        session,
      });
      await once(second, 'secureConnect');
      expect(second.isSessionReused()).toBe(false);
      first.destroy();
      second.destroy();
    }
  });
});

describe('a failed handshake', () => {
  it.for<[string, (certificates: TestCertificates) => Promise<ConnectionOptions>]>([
    ['no certificate', async () => ({})],
    ['a self-signed certificate', selfSigned],
    ['a certificate of another authority of the same name', (certificates) => certificates.foreignDevice()],
    ['an expired certificate', (certificates) => certificates.device(DEVICE_ID, Date.now() - YEAR_MS)],
    ['a certificate of the future', (certificates) => certificates.device(DEVICE_ID, Date.now() + YEAR_MS)],
    [
      'the listener’s own certificate',
      async ({ files }) => ({ cert: readFileSync(files.certificate), key: readFileSync(files.key) }),
    ],
  ])(
    'a client with %s receives nothing, and the edge no dial (bad input: MQTT)',
    async ([_, issue], { certificates, edge, bridge }) => {
      const identity = await issue(certificates);
      for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const)
        expect(await bytesReceived(bridge, { ...identity, maxVersion })).toBe(0);
      expect(edge.dialed).toEqual([]);
      expect(await (await bridge.certified(await certificates.device())).takeConnack()).toBe(0);
    },
  );

  it('a client with TLS 1.1 receives nothing (bad input: MQTT)', async ({ certificates, edge, bridge }) => {
    const identity = await certificates.device();
    expect(await bytesReceived(bridge, { ...identity, ...OLD_TLS })).toBe(0);
    expect(edge.dialed).toEqual([]);
  });
});

describe('a bridge without a device authority', async () => {
  const port = await freePort();
  const environment = { SITEWIRE_DEVICE_CA: undefined, SITEWIRE_MTLS_PORT: String(port) };
  const plainIt = it.extend('environment', () => environment);

  plainIt('does not listen on the port for certificates, but accepts tokens', async ({ bridge }) => {
    expect(bridge.ports.mtls).toBeUndefined();
    const [error] = (await once(connectTcp({ host: ADDRESS, port }), 'error')) as [Error & { code?: string }];
    expect(error.code).toBe('ECONNREFUSED');
    expect(await (await bridge.device()).takeConnack()).toBe(0);
  });
});

describe('the listener for tokens', () => {
  it('a certificate alone gets code 4 without a dial [C-3.11]', async ({ certificates, edge, bridge }) => {
    const { socket } = bridge.connectTls(bridge.ports.mqtts, ADDRESS, await certificates.device());
    const peer = new MqttPeer(socket);
    peer.write(connectPacket({ username: DEVICE_ID }));
    expect(await peer.takeRefusal()).toBe(4);
    expect(edge.dialed).toEqual([]);
  });
});
