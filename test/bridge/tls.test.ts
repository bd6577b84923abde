/** The TLS listener: its versions, its addresses, and clients that speak none of it. */
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect as connectPlain, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createTlsListener, listen } from '../../bridge/tls.ts';
import { readTlsFiles } from '../../bridge/tls-files.ts';
import { type CertificateFiles, ensureCertificates } from '../../tools/certificates.ts';

let folder: string;
let files: CertificateFiles;
const servers: Server[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sitewire-tls-'));
  files = await ensureCertificates(folder);
});
afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function start(host = '127.0.0.1'): Promise<{ port: number; addresses: string[] }> {
  const addresses: string[] = [];
  const { server } = createTlsListener(readTlsFiles(files), (socket, address) => {
    addresses.push(address);
    socket.on('error', () => {});
    socket.end('hello');
  });
  servers.push(server);
  return { port: await listen(server, 0, host), addresses };
}

function dial(port: number, options: ConnectionOptions = {}): TLSSocket {
  return connect({
    host: '127.0.0.1',
    port,
    ca: readFileSync(files.ca),
    servername: 'localhost',
    ...options,
  });
}

async function read(socket: TLSSocket): Promise<string> {
  let text = '';
  for await (const chunk of socket) text += chunk;
  return text;
}

describe('the TLS listener', () => {
  it.each(['TLSv1.2', 'TLSv1.3'] as const)('speaks %s', async (version) => {
    const { port } = await start();
    const socket = dial(port, { minVersion: version, maxVersion: version });
    await once(socket, 'secureConnect');
    expect(socket.getProtocol()).toBe(version);
    expect(await read(socket)).toBe('hello');
  });

  it('refuses TLS 1.1', async () => {
    const { port, addresses } = await start();
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;
    const [error] = (await once(dial(port, old), 'error')) as [Error & { code?: string }];
    expect(error.code).toBe('ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION');
    expect(addresses).toEqual([]);
  });

  it('closes a client that speaks no TLS, and goes on', async () => {
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

  it('tells a client’s IPv4 address as such, also where it listens on IPv6', async () => {
    for (const host of ['127.0.0.1', '::ffff:127.0.0.1']) {
      const { port, addresses } = await start(host);
      await read(dial(port));
      expect(addresses).toEqual(['127.0.0.1']);
    }
  });

  it('does not start on a port that is taken', async () => {
    const { port } = await start();
    const second = createTlsListener(readTlsFiles(files), () => {});
    await expect(listen(second.server, port, '127.0.0.1')).rejects.toThrow(/EADDRINUSE/);
  });
});
