/** TLS to the edge: the trusted certificates, and the session that all links share. */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { expect } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { dialDevice } from '#support/bridge-link.ts';
import { bridgeTest, TestCertificates } from '#support/bridge-whole.ts';
import { edgeTls } from '../../bridge/edge-tls.ts';

const EDGE = { url: '', secret: 'a secret of a bridge', bridge: 'bridge-1', boot: 'boot-1' };

/** `startEdge` starts an edge that accepts every link, by default with a trusted certificate. */
const it = bridgeTest
  // biome-ignore lint/correctness/noEmptyPattern: a fixture's first parameter must be an object pattern
  .extend('untrusted', { scope: 'file' }, async ({}, { onCleanup }) => {
    const certificates = await TestCertificates.create();
    onCleanup(() => certificates.remove());
    return certificates;
  })
  .extend('startEdge', ({ certificates, serve }, { onCleanup }) => {
    const known = getCACertificates('default');
    setDefaultCACertificates([...known, readFileSync(certificates.files.ca, 'utf8')]);
    onCleanup(() => setDefaultCACertificates(known));
    return async ({ files } = certificates, onPort = 0) => {
      const isReused: boolean[] = [];
      const sockets: WebSocket[] = [];
      const server = createServer({ cert: readFileSync(files.certificate), key: readFileSync(files.key) });
      server.on('secureConnection', (socket: TLSSocket) => isReused.push(socket.isSessionReused()));
      new WebSocketServer({ server }).on('connection', (socket) => sockets.push(socket));
      const port = await serve(server, onPort);
      const stop = async () => {
        for (const socket of sockets) socket.terminate();
        await new Promise((done) => server.close(done));
      };
      return { url: `https://localhost:${port}`, port, isReused, stop };
    };
  });

async function dialled(url: string): Promise<void> {
  const dialed = await dialDevice(url, EDGE);
  expect(dialed.outcome).toBe('accepted');
  if (dialed.outcome === 'accepted') dialed.link.close();
}

it('later links resume the TLS session of the first', async ({ startEdge }) => {
  const edge = await startEdge();
  for (let link = 0; link < 4; link++) await dialled(edge.url);
  expect(edge.isReused).toEqual([false, true, true, true]);
});

it('a restarted edge, which does not know the session, gets a new handshake', async ({ startEdge }) => {
  const before = await startEdge();
  await dialled(before.url);
  await dialled(before.url);
  await before.stop();
  const after = await startEdge(undefined, before.port);
  await dialled(after.url);
  expect([before.isReused, after.isReused]).toEqual([[false, true], [false]]);
});

it('a dial to an edge with an untrusted certificate fails, also the second time, when a TLS session could be resumed', async ({
  startEdge,
  untrusted,
}) => {
  const stranger = await startEdge(untrusted);
  for (let dial = 0; dial < 2; dial++) {
    expect(await dialDevice(stranger.url, EDGE)).toMatchObject({
      outcome: 'trouble',
      reason: expect.stringMatching(/certificate/),
    });
  }
});

it('a socket to the edge keeps its host but not the request with the credential', async ({ startEdge }) => {
  const edge = await startEdge();
  const connection = edgeTls(edge.url).createConnection;
  const request = { headers: { authorization: 'Basic a-credential' } };
  const socket = Reflect.apply(connection ?? (() => undefined), undefined, [request]) as TLSSocket;
  await new Promise((connected) => socket.once('secureConnect', connected));
  const kept = Reflect.ownKeys(socket).map((key) => Object(Reflect.get(socket, key)) as object);
  socket.destroy();
  expect(kept.some((value) => Reflect.get(value, 'host') === 'localhost')).toBe(true);
  expect(kept.filter((value) => Object.hasOwn(value, 'headers'))).toEqual([]);
});

it('an edge with an http URL gets no TLS options', () => {
  expect(edgeTls('http://127.0.0.1:8787')).toEqual({});
});
