/** TLS handshakes that fail: whoever has an expired certificate, none, or an old TLS finds that in the log, by address. */
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { handshakeReason } from '../../bridge/handshake-reasons.ts';
import { type Authority, issueCertificate } from '../../worker/lifecycle/device-certificate.ts';
import { TestEdge } from '../support/bridge-edge.ts';
import { BridgeLines } from '../support/bridge-lines.ts';
import { DEVICE_ID } from '../support/bridge-link.ts';
import { CLOCK, turns } from '../support/bridge-signal.ts';
import { ADDRESS, OTHER_ADDRESS, TestCertificates, WholeBridge } from '../support/bridge-whole.ts';
import { lineHeader } from '../support/proxy-headers.ts';

const YEAR_MS = 366 * 86_400_000;
const CLIENT = '192.0.2.7';

let certificates: TestCertificates;
let ours: Authority;
let foreign: Authority;
let edge: TestEdge;
let bridge: WholeBridge;
let lines: BridgeLines;

beforeAll(async () => {
  certificates = await TestCertificates.create();
  ours = certificates.authority;
  foreign = await certificates.foreignAuthority();
  edge = await TestEdge.start();
});
beforeEach(async () => {
  lines = new BridgeLines();
  bridge = await WholeBridge.start(edge, certificates, {}, lines.log);
});
afterEach(async () => {
  vi.useRealTimers();
  await bridge.stop();
});
afterAll(async () => {
  await edge.stop();
  certificates.remove();
});

async function issued(authority: Authority, now = Date.now()): Promise<ConnectionOptions> {
  const { certificate, privateKey } = await issueCertificate(authority, DEVICE_ID, undefined, now);
  return { cert: certificate, key: privateKey };
}

/** A handshake of that client with that listener, until the connection ends. */
async function shake(
  listener: 'amqps' | 'mqtts' | 'mtls',
  options: ConnectionOptions,
  localAddress = OTHER_ADDRESS,
): Promise<void> {
  const carrier = connectTcp({ host: ADDRESS, port: bridge.ports[listener] ?? 0, localAddress });
  if (bridge.preamble.length > 0) carrier.write(bridge.preamble);
  const socket = connectTls({ socket: carrier, rejectUnauthorized: false, ...options });
  socket.on('error', () => {});
  carrier.on('error', () => {});
  socket.resume();
  await once(carrier, 'close');
}

function failures(listener: string, reason: string): Promise<number> {
  return bridge.metric(`tls_handshake_failures_total{listener="${listener}",reason="${reason}"}`);
}

const OLD = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;

describe.each(['TLSv1.2', 'TLSv1.3'] as const)('with %s, on the listener for certificates', (maxVersion) => {
  it.each<[string, string, () => Promise<ConnectionOptions>]>([
    ['no-certificate', 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE', async () => ({})],
    ['expired-certificate', 'CERT_HAS_EXPIRED', () => issued(ours, Date.now() - YEAR_MS)],
    ['untrusted-certificate', 'CERT_NOT_YET_VALID', () => issued(ours, Date.now() + YEAR_MS)],
    ['untrusted-certificate', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', () => issued(foreign)],
  ])('%s (%s) is told with the client’s address', async (reason, code, identity) => {
    await shake('mtls', { ...(await identity()), maxVersion });
    const told = { level: 30, listener: 'mtls', address: OTHER_ADDRESS, reason, code };
    expect(await lines.until('TLS handshake failed')).toMatchObject(told);
    expect(await failures('mtls', reason)).toBe(1);
    expect(lines.of('client refused')).toEqual([]);
  });
});

describe('on any listener', () => {
  it.each(['amqps', 'mqtts', 'mtls'] as const)('a TLS that is too old is told (%s)', async (listener) => {
    await shake(listener, OLD);
    expect(await lines.until('TLS handshake failed')).toMatchObject({
      listener,
      address: OTHER_ADDRESS,
      reason: 'version',
      code: 'ERR_SSL_UNSUPPORTED_PROTOCOL',
    });
    expect(await failures(listener, 'version')).toBe(1);
  });

  it('ciphers of which we have none are told', async () => {
    await shake('amqps', { maxVersion: 'TLSv1.2', ciphers: 'AES128-SHA' });
    expect(await lines.until('TLS handshake failed')).toMatchObject({ reason: 'cipher' });
  });

  it.each(['AMQP\x00\x00\x09\x01', 'GET / HTTP/1.1\r\n\r\n', '\x10\x10\x00\x04MQTT'])(
    'what is no TLS (%j) is told',
    async (text) => {
      const socket = connectTcp(bridge.ports.amqps, ADDRESS);
      socket.resume().on('error', () => {});
      socket.write(text);
      await once(socket, 'close');
      expect(await lines.until('TLS handshake failed')).toMatchObject({
        address: ADDRESS,
        reason: 'not-tls',
      });
      expect(await failures('amqps', 'not-tls')).toBe(1);
    },
  );

  it('a client that waits for too long is told', async () => {
    vi.useFakeTimers(CLOCK);
    const socket = connectTcp(bridge.ports.mqtts, ADDRESS);
    socket.resume().on('error', () => {});
    await once(socket, 'connect');
    await turns();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await lines.until('TLS handshake failed')).toMatchObject({ address: ADDRESS, reason: 'timeout' });
  });

  it('who looks whether the port is open is counted, and told to who asks for it alone', async () => {
    connectTcp(bridge.ports.amqps, ADDRESS).end();
    expect(await lines.until('client left amid its TLS handshake')).toMatchObject({
      level: 20,
      address: ADDRESS,
    });
    expect(await failures('amqps', 'client')).toBe(1);
  });

  describe('a client that has heard our first words', () => {
    async function afterHello(): Promise<Socket> {
      const carrier = connectTcp({ host: ADDRESS, port: bridge.ports.amqps, localAddress: OTHER_ADDRESS });
      const [near, far] = duplexPair();
      connectTls({ socket: near, maxVersion: 'TLSv1.2' }).on('error', () => {});
      far.on('data', (hello) => carrier.write(hello));
      await once(carrier, 'data');
      return carrier;
    }

    it('and does not take our certificate is told, though it leaves with its word', async () => {
      // Fatal: unknown authority.
      (await afterHello()).end(Buffer.from([21, 3, 3, 0, 2, 2, 48]));
      expect(await lines.until('TLS handshake failed')).toMatchObject({
        address: OTHER_ADDRESS,
        reason: 'alert',
      });
    });

    it('and resets its connection is told with its address', async () => {
      (await afterHello()).resetAndDestroy();
      expect(await lines.until('client left amid its TLS handshake')).toMatchObject({
        address: OTHER_ADDRESS,
        code: 'ECONNRESET',
      });
    });
  });

  it('clients that fail at once are told each by its own address', async () => {
    const expired = await issued(ours, Date.now() - YEAR_MS);
    const addresses = Array.from({ length: 20 }, (_, at) => `127.0.1.${at + 1}`);
    await Promise.all(addresses.map((address) => shake('mtls', expired, address)));
    await lines.until('TLS handshake failed', addresses.length);
    expect(new Set(lines.of('TLS handshake failed').map(({ address }) => address))).toEqual(
      new Set(addresses),
    );
  });
});

it('behind a proxy the address is the client’s, and a proxy without a header is counted', async () => {
  await bridge.stop();
  bridge = await WholeBridge.start(edge, certificates, { SITEWIRE_PROXIES: OTHER_ADDRESS }, lines.log);
  bridge.preamble = lineHeader(CLIENT);
  await shake('mtls', await issued(ours, Date.now() - YEAR_MS));
  expect(await lines.until('TLS handshake failed')).toMatchObject({
    address: CLIENT,
    reason: 'expired-certificate',
  });
  bridge.preamble = Buffer.alloc(0);
  await shake('amqps', {});
  expect(await lines.until('connection of a proxy without a good PROXY header')).toMatchObject({
    listener: 'amqps',
    proxy: OTHER_ADDRESS,
  });
  expect(await bridge.metric('proxy_header_failures_total')).toBe(1);
});

it.each([
  ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', false, 'alert'],
  ['ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_UNKNOWN', false, 'alert'],
  ['ERR_SSL_UNEXPECTED_MESSAGE', false, 'other'],
  ['ECONNRESET', false, 'client'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', true, 'untrusted-certificate'],
] as const)('%s is of the class %s %s', (code, isVerification, reason) => {
  expect(handshakeReason(code, isVerification)).toBe(reason);
});
