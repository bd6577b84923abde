/** The TLS listener: versions, client addresses, and clients without TLS. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectPlain } from 'node:net';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { describe, expect } from 'vitest';
import { ADDRESS, bridgeTest, OLD_TLS } from '#support/bridge-whole.ts';
import { createTlsListener, listen } from '../../bridge/tls.ts';
import { readTlsFiles } from '../../bridge/tls-files.ts';

/** `start` starts a listener that greets each client; `dial` connects to it. */
const it = bridgeTest
  .extend('start', ({ certificates, serve }) => async (host?: string) => {
    const addresses: string[] = [];
    const { server } = createTlsListener(readTlsFiles(certificates.files), ({ socket, address }) => {
      addresses.push(address);
      socket.on('error', () => {});
      socket.end('hello');
    });
    return { port: await serve(server, 0, host), addresses };
  })
  .extend('dial', ({ certificates: { files } }) => (port: number, options: ConnectionOptions = {}) => {
    return connect({ host: ADDRESS, port, ca: readFileSync(files.ca), servername: 'localhost', ...options });
  });

async function read(socket: TLSSocket): Promise<string> {
  let text = '';
  for await (const chunk of socket) text += chunk;
  return text;
}

describe('the TLS listener', () => {
  it.for(['TLSv1.2', 'TLSv1.3'] as const)('speaks %s', async (version, { start, dial }) => {
    const { port } = await start();
    const socket = dial(port, { minVersion: version, maxVersion: version });
    await once(socket, 'secureConnect');
    expect(socket.getProtocol()).toBe(version);
    expect(await read(socket)).toBe('hello');
  });

  it('rejects suites without authenticated encryption or forward secrecy', async ({ start, dial }) => {
    const { port, addresses } = await start();
    for (const ciphers of ['ECDHE-ECDSA-AES128-SHA256', 'ECDHE-ECDSA-AES256-SHA', 'AES128-GCM-SHA256']) {
      const [error] = (await once(dial(port, { maxVersion: 'TLSv1.2', ciphers }), 'error')) as [
        NodeJS.ErrnoException,
      ];
      expect([ciphers, error.code]).toEqual([ciphers, 'ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE']);
    }
    expect(addresses).toEqual([]);
  });

  it('rejects TLS 1.1', async ({ start, dial }) => {
    const { port, addresses } = await start();
    const [error] = (await once(dial(port, OLD_TLS), 'error')) as [Error & { code?: string }];
    expect(error.code).toBe('ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION');
    expect(addresses).toEqual([]);
  });

  it('closes clients that do not speak TLS, and still accepts others', async ({ start, dial }) => {
    const { port, addresses } = await start();
    for (const hello of ['AMQP\x00\x00\x09\x01', 'GET / HTTP/1.1\r\n\r\n', '\x10\x10\x00\x04MQTT']) {
      const socket = connectPlain(port, '127.0.0.1');
      socket.on('error', () => {});
      socket.resume();
      socket.write(hello);
      await once(socket, 'close');
    }
    expect(addresses).toEqual([]);
    expect(await read(dial(port))).toBe('hello');
  });

  it('reports an IPv4 address in its IPv4 form, also on an IPv6 socket', async ({ start, dial }) => {
    for (const host of ['127.0.0.1', '::ffff:127.0.0.1']) {
      const { port, addresses } = await start(host);
      await read(dial(port));
      expect(addresses).toEqual(['127.0.0.1']);
    }
  });

  it('does not start on a port that is in use', async ({ certificates, start }) => {
    const { port } = await start();
    const second = createTlsListener(readTlsFiles(certificates.files), () => {});
    await expect(listen(second.server, port, '127.0.0.1')).rejects.toThrow(/EADDRINUSE/);
  });
});
