/** Failed TLS handshakes: the log has the client's address and the reason. */
import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { duplexPair } from 'node:stream';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { describe, expect } from 'vitest';
import { DEVICE_ID } from '#support/bridge-link.ts';
import { turns } from '#support/bridge-signal.ts';
import { ADDRESS, bridgeTest, OLD_TLS, OTHER_ADDRESS, type TestCertificates } from '#support/bridge-whole.ts';
import { lineHeader } from '#support/proxy-headers.ts';
import { handshakeReason } from '../../bridge/handshake-reasons.ts';

const YEAR_MS = 366 * 86_400_000;
const CLIENT = '192.0.2.7';

type Issue = (certificates: TestCertificates) => ConnectionOptions | Promise<ConnectionOptions>;

const expired: Issue = (certificates) => certificates.device(DEVICE_ID, Date.now() - YEAR_MS);

/** `shake` makes a handshake with a listener and waits for the end of the connection. */
const it = bridgeTest
  .extend('shake', ({ bridge }) => {
    return async (
      listener: 'amqps' | 'mqtts' | 'mtls',
      options: ConnectionOptions,
      localAddress = OTHER_ADDRESS,
    ) => {
      const { carrier, socket } = bridge.connectTls(bridge.ports[listener], localAddress, options);
      socket.on('error', () => {});
      carrier.on('error', () => {});
      socket.resume();
      await once(carrier, 'close');
    };
  })
  .extend('failures', ({ bridge }) => (listener: string, reason: string) => {
    return bridge.metric(`tls_handshake_failures_total{listener="${listener}",reason="${reason}"}`);
  })
  // A client's socket that has received the server's hello.
  .extend('carrier', async ({ bridge }) => {
    const carrier = connectTcp({ host: ADDRESS, port: bridge.ports.amqps, localAddress: OTHER_ADDRESS });
    const [near, far] = duplexPair();
    connectTls({ socket: near, maxVersion: 'TLSv1.2' }).on('error', () => {});
    far.on('data', (hello) => carrier.write(hello));
    await once(carrier, 'data');
    return carrier;
  });

describe.each(['TLSv1.2', 'TLSv1.3'] as const)('with %s, on the listener for certificates', (maxVersion) => {
  it.for<[string, string, Issue]>([
    ['no-certificate', 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE', () => ({})],
    ['expired-certificate', 'CERT_HAS_EXPIRED', expired],
    [
      'untrusted-certificate',
      'CERT_NOT_YET_VALID',
      (certificates) => certificates.device(DEVICE_ID, Date.now() + YEAR_MS),
    ],
    [
      'untrusted-certificate',
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      (certificates) => certificates.foreignDevice(),
    ],
  ])(
    'a handshake that fails with %s (%s) is counted and logged with the client’s address',
    async ([reason, code, issue], { certificates, lines, shake, failures }) => {
      await shake('mtls', { ...(await issue(certificates)), maxVersion });
      const expected = { level: 30, listener: 'mtls', address: OTHER_ADDRESS, reason, code };
      await lines.expect('TLS handshake failed', expected);
      expect(await failures('mtls', reason)).toBe(1);
      expect(lines.of('client not connected')).toEqual([]);
    },
  );
});

describe('a failed TLS handshake', () => {
  it.for(['amqps', 'mqtts', 'mtls'] as const)(
    'because of an old TLS version on %s is logged and counted',
    async (listener, { lines, shake, failures }) => {
      await shake(listener, OLD_TLS);
      await lines.expect('TLS handshake failed', {
        listener,
        address: OTHER_ADDRESS,
        reason: 'version',
        code: 'ERR_SSL_UNSUPPORTED_PROTOCOL',
      });
      expect(await failures(listener, 'version')).toBe(1);
    },
  );

  it('because of unsupported ciphers is logged', async ({ lines, shake }) => {
    await shake('amqps', { maxVersion: 'TLSv1.2', ciphers: 'AES128-SHA' });
    await lines.expect('TLS handshake failed', { reason: 'cipher' });
  });

  it.for(['AMQP\x00\x00\x09\x01', 'GET / HTTP/1.1\r\n\r\n', '\x10\x10\x00\x04MQTT'])(
    'because of bytes that are not TLS (%j) is logged and counted',
    async (text, { lines, bridge, failures }) => {
      const socket = connectTcp(bridge.ports.amqps, ADDRESS);
      socket.resume().on('error', () => {});
      socket.write(text);
      await once(socket, 'close');
      await lines.expect('TLS handshake failed', { address: ADDRESS, reason: 'not-tls' });
      expect(await failures('amqps', 'not-tls')).toBe(1);
    },
  );

  it('because of a client silent for 5 s is logged as a timeout', async ({ clock, lines, bridge }) => {
    const socket = connectTcp(bridge.ports.mqtts, ADDRESS);
    socket.resume().on('error', () => {});
    await once(socket, 'connect');
    await turns();
    await clock.pass(5_000);
    await lines.expect('TLS handshake failed', { address: ADDRESS, reason: 'timeout' });
  });

  it('is counted and logged at debug level if its client closes without a byte, like a port scan', async ({
    lines,
    bridge,
    failures,
  }) => {
    connectTcp(bridge.ports.amqps, ADDRESS).end();
    await lines.expect('client disconnected during TLS handshake', { level: 20, address: ADDRESS });
    expect(await failures('amqps', 'client')).toBe(1);
  });

  describe('after the server’s hello', () => {
    it('because the client rejects our certificate is logged as alert', async ({ lines, carrier }) => {
      // A fatal alert: unknown authority.
      carrier.end(Buffer.from([21, 3, 3, 0, 2, 2, 48]));
      await lines.expect('TLS handshake failed', { address: OTHER_ADDRESS, reason: 'alert' });
    });

    it('because the client resets its connection is logged', async ({ lines, carrier }) => {
      carrier.resetAndDestroy();
      await lines.expect('client disconnected during TLS handshake', {
        address: OTHER_ADDRESS,
        code: 'ECONNRESET',
      });
    });
  });

  it('is logged with its own address for each of twenty clients', async ({ certificates, lines, shake }) => {
    const identity = await expired(certificates);
    const addresses = Array.from({ length: 20 }, (_, at) => `127.0.1.${at + 1}`);
    await Promise.all(addresses.map((address) => shake('mtls', identity, address)));
    await lines.until('TLS handshake failed', addresses.length);
    const logged = lines.of('TLS handshake failed').map(({ address }) => address);
    expect(new Set(logged)).toEqual(new Set(addresses));
  });
});

const proxied = it.extend('environment', () => ({ SITEWIRE_PROXIES: OTHER_ADDRESS }));
proxied(
  'behind a proxy, the log has the client’s address and reports a missing PROXY header',
  async ({ certificates, lines, bridge, shake }) => {
    bridge.preamble = lineHeader(CLIENT);
    await shake('mtls', await expired(certificates));
    await lines.expect('TLS handshake failed', { address: CLIENT, reason: 'expired-certificate' });
    bridge.preamble = Buffer.alloc(0);
    await shake('amqps', {});
    await lines.expect('proxy connection without a valid PROXY header', {
      listener: 'amqps',
      proxy: OTHER_ADDRESS,
    });
    expect(await bridge.metric('proxy_header_failures_total')).toBe(1);
  },
);

it.each([
  ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', false, 'alert'],
  ['ERR_SSL_SSL/TLS_ALERT_CERTIFICATE_UNKNOWN', false, 'alert'],
  ['ERR_SSL_UNEXPECTED_MESSAGE', false, 'other'],
  ['ECONNRESET', false, 'client'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', true, 'untrusted-certificate'],
] as const)('the error %s (of a verification: %s) has the reason %s', (code, isVerification, reason) => {
  expect(handshakeReason(code, isVerification)).toBe(reason);
});
