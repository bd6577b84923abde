/** TLS towards the edge: whom a bridge trusts, and that its links share one session and one context. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { edgeTls } from '../../bridge/edge-tls.ts';
import { type CertificateFiles, ensureCertificates } from '../../tools/certificates.ts';
import { dialDevice } from '../support/bridge-link.ts';

const EDGE = { url: '', secret: 'a secret of a bridge', bridge: 'bridge-1', boot: 'boot-1' };
const folder = mkdtempSync(join(tmpdir(), 'sitewire-edge-tls-'));
const known = getCACertificates('default');
const servers: Server[] = [];
const sockets: WebSocket[] = [];
let trusted: CertificateFiles;

beforeAll(async () => {
  trusted = await ensureCertificates(join(folder, 'trusted'));
  setDefaultCACertificates([...known, readFileSync(trusted.ca, 'utf8')]);
});

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.terminate();
  await Promise.all(servers.splice(0).map((server) => new Promise((done) => server.close(done))));
});

afterAll(() => {
  setDefaultCACertificates(known);
  rmSync(folder, { recursive: true });
});

/** An edge that takes every link, and what it saw of each handshake. */
async function startEdge({ certificate, key }: CertificateFiles, port = 0) {
  const isReused: boolean[] = [];
  const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) });
  server.on('secureConnection', (socket: TLSSocket) => isReused.push(socket.isSessionReused()));
  new WebSocketServer({ server }).on('connection', (socket) => sockets.push(socket));
  await new Promise<void>((listening) => server.listen(port, '127.0.0.1', listening));
  servers.push(server);
  const { port: bound } = server.address() as AddressInfo;
  return { url: `https://localhost:${bound}`, port: bound, isReused, server };
}

async function dialled(url: string): Promise<void> {
  const dialed = await dialDevice(url, EDGE);
  expect(dialed.outcome).toBe('accepted');
  if (dialed.outcome === 'accepted') dialed.link.close();
}

it('takes up the session of the link before: one handshake is whole, the others are not', async () => {
  const edge = await startEdge(trusted);
  for (let link = 0; link < 4; link++) await dialled(edge.url);
  expect(edge.isReused).toEqual([false, true, true, true]);
});

it('begins anew with an edge that does not know its session any more', async () => {
  const before = await startEdge(trusted);
  await dialled(before.url);
  await dialled(before.url);
  for (const socket of sockets.splice(0)) socket.terminate();
  await new Promise((done) => before.server.close(done));
  servers.length = 0;
  const after = await startEdge(trusted, before.port);
  await dialled(after.url);
  expect([before.isReused, after.isReused]).toEqual([[false, true], [false]]);
});

it('does not dial an edge that shows a certificate of nobody it trusts', async () => {
  const stranger = await startEdge(await ensureCertificates(join(folder, 'stranger')));
  for (let dial = 0; dial < 2; dial++) {
    expect(await dialDevice(stranger.url, EDGE)).toMatchObject({
      outcome: 'trouble',
      reason: expect.stringMatching(/certificate/),
    });
  }
});

it('keeps an address with a socket that is connected, and not the request that carries the credential', async () => {
  const edge = await startEdge(trusted);
  const connection = edgeTls(edge.url).createConnection;
  const request = { headers: { authorization: 'Basic a-credential' } };
  const socket = Reflect.apply(connection ?? (() => undefined), undefined, [request]) as TLSSocket;
  await new Promise((connected) => socket.once('secureConnect', connected));
  const kept = Reflect.ownKeys(socket).map((key) => Object(Reflect.get(socket, key)) as object);
  socket.destroy();
  expect(kept.some((value) => Reflect.get(value, 'host') === 'localhost')).toBe(true);
  expect(kept.filter((value) => Object.hasOwn(value, 'headers'))).toEqual([]);
});

it('leaves an edge without TLS to the WebSocket library', () => {
  expect(edgeTls('http://127.0.0.1:8787')).toEqual({});
});
