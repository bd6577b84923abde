/** The listener for certificates: who gets through its handshake, and as whom it then logs in [C-3.3]. */
import 'reflect-metadata';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import * as x509 from '@peculiar/x509';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { freePort } from '../../../tools/ports.ts';
import { type Authority, issueCertificate } from '../../../worker/lifecycle/device-certificate.ts';
import { envelope, TestEdge } from '../../support/bridge-edge.ts';
import { DEVICE_ID } from '../../support/bridge-link.ts';
import { OTHER_ID } from '../../support/bridge-mqtt.ts';
import { connectPacket, MqttPeer, publishPacket } from '../../support/bridge-mqtt-peer.ts';
import { ADDRESS, TestCertificates, WholeBridge } from '../../support/bridge-whole.ts';

const YEAR_MS = 366 * 86_400_000;

type Identity = Pick<ConnectionOptions, 'cert' | 'key'>;

let certificates: TestCertificates;
let ours: Authority;
let foreign: Authority;
let edge: TestEdge;
let bridge: WholeBridge;

beforeAll(async () => {
  certificates = await TestCertificates.create();
  ours = certificates.authority;
  foreign = await certificates.foreignAuthority();
  edge = await TestEdge.start();
});
beforeEach(async () => {
  edge.reset();
  bridge = await WholeBridge.start(edge, certificates);
});
afterEach(() => bridge.stop());
afterAll(async () => {
  await edge.stop();
  certificates.remove();
});

/** A certificate of that name, and its fingerprint. */
async function issued(
  name: string = DEVICE_ID,
  authority: Authority = ours,
  now: number = Date.now(),
): Promise<Identity & { fingerprint: string }> {
  const { certificate, privateKey, fingerprint } = await issueCertificate(authority, name, undefined, now);
  return { cert: certificate, key: privateKey, fingerprint };
}

async function selfSigned(): Promise<Identity> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: `CN=${DEVICE_ID}`,
    notBefore: new Date(Date.now() - 1_000),
    notAfter: new Date(Date.now() + YEAR_MS),
    signingAlgorithm: algorithm,
    keys,
  });
  const key = x509.PemConverter.encode(
    await crypto.subtle.exportKey('pkcs8', keys.privateKey),
    'PRIVATE KEY',
  );
  return { cert: certificate.toString('pem'), key };
}

/** What a client that sends a whole login gets back before its connection ends. */
async function bytesTold(options: ConnectionOptions): Promise<number> {
  const socket = connectTls({
    socket: connectTcp({ host: ADDRESS, port: bridge.ports.mtls ?? 0 }),
    rejectUnauthorized: false,
    ...options,
  });
  let bytes = 0;
  socket.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  socket.on('error', () => {});
  socket.write(connectPacket({ username: DEVICE_ID, password: 'token' }));
  await new Promise((resolve) => socket.once('close', resolve));
  return bytes;
}

/** A login that is refused: its CONNACK, and whether its connection ended with it. */
async function refusedWith(peer: MqttPeer): Promise<number> {
  const code = await peer.takeConnack();
  await peer.untilEnded();
  return code;
}

describe('a certificate of our authority', () => {
  it.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'opens a session over %s, and its fingerprint is in the proof [C-3.3]',
    async (version) => {
      const { fingerprint, ...identity } = await issued();
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

  it.each([
    ['no user name', {}],
    ['its own name as user name', { username: DEVICE_ID }],
    ['that in upper case', { username: DEVICE_ID.toUpperCase() }],
    ['a password, which is ignored', { username: DEVICE_ID, password: 'whatever' }],
    ['an empty user name', { username: '' }],
  ])('is who it says with %s [C-3.3]', async (_title, options) => {
    const peer = await bridge.certified(await issued(), options);
    expect(await peer.takeConnack()).toBe(0);
    expect(edge.dialed).toMatchObject([{ username: DEVICE_ID, password: '' }]);
  });

  it('in whose name the id is in upper case is that device’s', async () => {
    const peer = await bridge.certified(await issued(DEVICE_ID.toUpperCase()));
    expect(await peer.takeConnack()).toBe(0);
    expect(edge.dialed[0]?.username).toBe(DEVICE_ID);
  });

  it.each([
    ['another device’s user name', OTHER_ID],
    ['a user name that is no UUID', 'gateway-1'],
  ])('with %s is refused: 5, and nobody is asked (bad input: MQTT)', async (_title, username) => {
    const peer = await bridge.certified(await issued(), { username, password: 'token' });
    expect(await refusedWith(peer)).toBe(5);
    expect(edge.dialed).toEqual([]);
  });

  it('of no device is refused: 5, and nobody is asked', async () => {
    const peer = await bridge.certified(await issued('gateway-1'), { username: DEVICE_ID });
    expect(await refusedWith(peer)).toBe(5);
    expect(edge.dialed).toEqual([]);
  });

  it('that the edge does not take is refused: 5 (bad input: MQTT)', async () => {
    edge.answer = () => envelope('UNAUTHORIZED');
    expect(await refusedWith(await bridge.certified(await issued()))).toBe(5);
    expect(edge.dialed).toHaveLength(1);
  });

  it('that is new is another credential: it is asked for while the old one is refused [C-3.11]', async () => {
    edge.answer = () => envelope('UNAUTHORIZED');
    const old = await issued();
    for (let count = 0; count < 31; count++) await refusedWith(await bridge.certified(old));
    expect(edge.dialed).toHaveLength(30);
    edge.reset();
    const renewed = await issued();
    expect(await (await bridge.certified(renewed)).takeConnack()).toBe(0);
    expect(edge.dialed).toMatchObject([{ proof: { fingerprint: renewed.fingerprint } }]);
  });

  it('is proved in every handshake: no session of TLS is taken up again', async () => {
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      const { fingerprint: _known, ...identity } = await issued();
      let session: Buffer | undefined;
      const client = (options: ConnectionOptions) =>
        connectTls({
          socket: connectTcp({ host: ADDRESS, port: bridge.ports.mtls ?? 0 }),
          rejectUnauthorized: false,
          maxVersion,
          ...identity,
          ...options,
        });
      const first = client({});
      first.on('session', (given) => {
        session = given;
      });
      first.write(connectPacket({}));
      await once(first, 'data');
      const second = client({ session: session ?? first.getSession() });
      await once(second, 'secureConnect');
      expect(second.isSessionReused()).toBe(false);
      first.destroy();
      second.destroy();
    }
  });
});

describe('who does not get through the handshake', () => {
  const clients: Record<string, () => Promise<ConnectionOptions>> = {
    'no certificate': async () => ({}),
    'a self-signed certificate': selfSigned,
    'a certificate of another authority of the same name': () => issued(DEVICE_ID, foreign),
    'a certificate that has expired': () => issued(DEVICE_ID, ours, Date.now() - YEAR_MS),
    'a certificate that is not good yet': () => issued(DEVICE_ID, ours, Date.now() + YEAR_MS),
    'the listener’s own certificate': async () => ({
      cert: readFileSync(certificates.files.certificate),
      key: readFileSync(certificates.files.key),
    }),
  };

  it.each(Object.keys(clients))(
    '%s is told nothing, and nobody is asked (bad input: MQTT)',
    async (title) => {
      const identity = (await clients[title]?.()) ?? {};
      for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
        expect(await bytesTold({ ...identity, maxVersion })).toBe(0);
      }
      expect(edge.dialed).toEqual([]);
      expect(await (await bridge.certified(await issued())).takeConnack()).toBe(0);
    },
  );

  it('TLS 1.1 is refused, with a good certificate too (bad input: MQTT)', async () => {
    const { cert, key } = await issued();
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    expect(await bytesTold({ cert, key, ...old })).toBe(0);
    expect(edge.dialed).toEqual([]);
  });
});

describe('a bridge without an authority for device certificates', () => {
  it('opens no listener for them', async () => {
    const port = await freePort();
    const environment = { SITEWIRE_DEVICE_CA: undefined, SITEWIRE_MTLS_PORT: String(port) };
    const plain = await WholeBridge.start(edge, certificates, environment);
    expect(plain.ports.mtls).toBeUndefined();
    const [error] = (await once(connectTcp({ host: ADDRESS, port }), 'error')) as [Error & { code?: string }];
    expect(error.code).toBe('ECONNREFUSED');
    expect(await (await plain.device()).takeConnack()).toBe(0);
    await plain.stop();
  });
});

describe('the listener for tokens', () => {
  it('takes no notice of a certificate: without a token it answers 4 [C-3.11]', async () => {
    const { cert, key } = await issued();
    const socket = connectTls({
      socket: connectTcp({ host: ADDRESS, port: bridge.ports.mqtts }),
      rejectUnauthorized: false,
      cert,
      key,
    });
    const peer = new MqttPeer(socket);
    peer.write(connectPacket({ username: DEVICE_ID }));
    expect(await refusedWith(peer)).toBe(4);
    expect(edge.dialed).toEqual([]);
  });
});
