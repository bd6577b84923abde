/** Dialling: what the upgrade carries, and that only the edge's own word is a refusal (rules 1 and 7). */
import { createHmac } from 'node:crypto';
import http, { createServer } from 'node:http';
import { type AddressInfo, createServer as createNetServer, type Server, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type ApiErrorCode, ERROR_STATUS } from '../../protocol/errors.ts';
import { PROOF_HEADER, parseProof, proofSigningString } from '../../protocol/link/proof.ts';
import { type Answer, envelope, SECRET, TestEdge } from '../support/bridge-edge.ts';
import { CREDENTIAL, type DeviceDialResult, dialDevice, Heard } from '../support/bridge-link.ts';
import { turns } from '../support/bridge-signal.ts';

let edge: TestEdge;
const servers = new Set<Server>();
const sockets = new Set<Socket>();

beforeAll(async () => {
  edge = await TestEdge.start();
});
afterEach(async () => {
  vi.restoreAllMocks();
  edge.reset();
  for (const socket of sockets) socket.destroy();
  await Promise.all([...servers].map((server) => new Promise((resolve) => server.close(resolve))));
  sockets.clear();
  servers.clear();
});
afterAll(() => edge.stop());

async function listen(server: Server): Promise<string> {
  servers.add(server);
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An edge that answers every request with these bytes, and then does this. */
function answering(bytes: string, then: (socket: Socket) => void = () => {}): Promise<string> {
  return listen(
    createNetServer((socket) => {
      socket.once('data', () => socket.write(bytes, () => then(socket)));
    }),
  );
}

function dialUrl(url: string): Promise<DeviceDialResult> {
  return dialDevice(url, edge.forBridge);
}

async function dialFor(answer: Answer): Promise<DeviceDialResult> {
  edge.answer = () => answer;
  return await dialUrl(edge.url);
}

function json(status: number, body: unknown): Answer {
  return { status, body: JSON.stringify(body), contentType: 'application/json' };
}

describe('an upgrade', () => {
  it('carries the client’s credential and this bridge’s own proof of both (rule 1)', async () => {
    let headers: http.IncomingHttpHeaders = {};
    const server = createServer();
    server.on('upgrade', (request, socket) => {
      headers = request.headers;
      socket.destroy();
    });
    await dialUrl(await listen(server));
    expect(headers.authorization).toBe(
      `Basic ${Buffer.from(`${CREDENTIAL.username}:${CREDENTIAL.password}`).toString('base64')}`,
    );
    const { proof, mac } = parseProof(String(headers[PROOF_HEADER])) ?? {};
    expect(proof).toMatchObject({
      bridge: 'bridge-test',
      boot: 'boot-1',
      address: '192.0.2.7',
      fingerprint: '',
    });
    expect(Math.abs(Date.now() - (proof?.timeMs ?? 0))).toBeLessThan(10_000);
    const text = proof && proofSigningString(proof, '/link/mqtt', headers.authorization ?? '');
    expect(mac).toBe(
      createHmac('sha256', SECRET)
        .update(text ?? '')
        .digest('hex'),
    );
    expect(headers['sec-websocket-extensions']).toBeUndefined();
  });

  it('has a connection id of its own each time', async () => {
    const links = [await dialFor({ accept: {} }), await dialFor({ accept: {} })];
    const ids = edge.dialed.map(({ proof }) => proof.connection);
    expect(new Set(ids).size).toBe(2);
    for (const dialed of links) if (dialed.outcome === 'accepted') dialed.link.close();
  });

  it('goes to the path under the edge’s address, with or without a slash at its end', async () => {
    const dialed = await dialUrl(`${edge.url}/`);
    expect(dialed.outcome).toBe('accepted');
    expect(edge.dialed.map(({ path }) => path)).toEqual(['/link/mqtt']);
    if (dialed.outcome === 'accepted') dialed.link.close();
  });

  it('that is accepted gives the link and what the edge said of it', async () => {
    const dialed = await dialFor({ accept: { 'sitewire-vhost': 'partner-k9' } });
    expect(dialed).toMatchObject({ outcome: 'accepted', headers: { 'sitewire-vhost': 'partner-k9' } });
    if (dialed.outcome === 'accepted') dialed.link.close();
  });

  it('that is accepted and closed at once is a link that has closed', async () => {
    const [dialed, object] = await Promise.all([dialFor({ accept: {} }), edge.deviceLink()]);
    object.close(4003, 'revoked');
    const heard = new Heard();
    if (dialed.outcome === 'accepted') heard.attachTo(dialed.link);
    expect((await heard.untilClosed()).code).toBe(4003);
  });
});

describe('a refusal', () => {
  const codes = Object.entries(ERROR_STATUS) as [ApiErrorCode, number][];

  it.each(codes.filter(([, status]) => [401, 403, 409].includes(status)))(
    'is our envelope’s %s with status %d',
    async (code, status) => {
      expect(await dialFor(envelope(code, 'why'))).toEqual({
        outcome: 'refused',
        status,
        code,
        message: 'why',
      });
    },
  );

  it('without a message is a refusal still', async () => {
    expect(await dialFor(json(401, { code: 'UNAUTHORIZED' }))).toMatchObject({
      outcome: 'refused',
      message: '',
    });
    expect(await dialFor(json(401, { code: 'UNAUTHORIZED', message: 5 }))).toMatchObject({ message: '' });
  });
});

describe('trouble', () => {
  it.each<[string, Answer]>([
    ['our 500', envelope('INTERNAL_SERVER_ERROR')],
    ['our 503', envelope('SERVICE_UNAVAILABLE')],
    ['our 429', envelope('TOO_MANY_REQUESTS')],
    ['our 400', envelope('BAD_REQUEST')],
    ['our 423', envelope('ACCOUNT_LOCKED')],
    ['our 410', envelope('INVITATION_EXPIRED')],
    ['a 401 code under another status', envelope('UNAUTHORIZED', 'no', 418)],
    ['a plain 500', { status: 500, body: 'Internal Server Error', contentType: 'text/plain' }],
    ['a plain 503', { status: 503, body: '', contentType: 'text/plain' }],
    ['a firewall’s HTML 403', { status: 403, body: '<html>Access denied</html>', contentType: 'text/html' }],
    ['an HTML 401', { status: 401, body: '<html>UNAUTHORIZED</html>', contentType: 'text/html' }],
    ['a 403 of another’s JSON', json(403, { error: 'forbidden' })],
    ['a 403 with a code that is not ours', json(403, { code: 'BLOCKED', message: 'no' })],
    ['a 403 with a code that is no text', json(403, { code: 403 })],
    ['a 403 with a code of every object', json(403, { code: 'constructor' })],
    ['a 403 with a code of no object', json(403, { code: '__proto__' })],
    ['a 403 that is null', json(403, null)],
    ['a 403 that is a list', json(403, ['UNAUTHORIZED'])],
    ['a 403 that says nothing', { status: 403, body: '', contentType: 'application/json' }],
    ['a 403 cut short', { status: 403, body: '{"code":"FORBIDDEN"', contentType: 'application/json' }],
    ['a 200', json(200, { code: 'UNAUTHORIZED' })],
    ['a redirect', { status: 302, body: '', contentType: 'text/plain' }],
  ])('is %s', async (_title, answer) => {
    expect(await dialFor(answer)).toMatchObject({ outcome: 'trouble' });
  });

  it('is nobody there', async () => {
    const url = await listen(createNetServer());
    for (const server of servers) await new Promise((resolve) => server.close(resolve));
    servers.clear();
    expect((await dialUrl(url)).outcome).toBe('trouble');
  });

  it.each([
    ['garbage', 'not HTTP at all\r\n\r\n'],
    ['AMQP', 'AMQP\x00\x00\x09\x01\r\n\r\n'],
    [
      'an upgrade with a wrong key',
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n',
    ],
    [
      'an upgrade to something else',
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n',
    ],
  ])('is %s', async (_title, bytes) => {
    expect((await dialUrl(await answering(bytes))).outcome).toBe('trouble');
  });

  it.each([
    ['before a word', ''],
    ['in the headers', 'HTTP/1.1 401 Unauthorized\r\ncontent-le'],
    ['in the body', 'HTTP/1.1 401 Unauthorized\r\ncontent-length: 500\r\n\r\n{"code":"UNAUTHORIZED",'],
  ])('is an answer that breaks off %s', async (_title, bytes) => {
    const url = await listen(
      createNetServer((socket) => socket.once('data', () => socket.write(bytes, () => socket.destroy()))),
    );
    expect((await dialUrl(url)).outcome).toBe('trouble');
  });

  it('is no answer in 8 s', async () => {
    const request = vi.spyOn(http, 'request');
    edge.answer = () => 'never';
    const dialing = dialUrl(edge.url);
    await edge.untilDialed();
    expect(request.mock.calls[0]?.[0]).toMatchObject({ timeout: 8_000 });
    // What Node does with a socket that was idle for so long.
    const sent = request.mock.results[0]?.value as http.ClientRequest | undefined;
    sent?.emit('timeout');
    expect((await dialing).outcome).toBe('trouble');
  });

  it('is an answer that stops in its body for 8 s', async () => {
    const request = vi.spyOn(http, 'request');
    const url = await answering(
      'HTTP/1.1 401 Unauthorized\r\ncontent-length: 500\r\n\r\n{"code":"UNAUTHORIZED",',
    );
    let isAnswered = false;
    const dialing = dialUrl(url).finally(() => {
      isAnswered = true;
    });
    const sent = request.mock.results[0]?.value as http.ClientRequest;
    await new Promise((resolve) => sent.once('response', resolve));
    await turns();
    expect(isAnswered).toBe(false);
    sent.emit('timeout');
    expect((await dialing).outcome).toBe('trouble');
  });

  it('is an answer whose body has no end', async () => {
    let sentBytes = 0;
    const url = await answering('HTTP/1.1 403 Forbidden\r\ntransfer-encoding: chunked\r\n\r\n', (socket) => {
      const more = () => {
        if (socket.destroyed) return;
        sentBytes += 1_000;
        socket.write(`3e8\r\n${'x'.repeat(1_000)}\r\n`, () => setImmediate(more));
      };
      more();
    });
    let outcome: string | undefined;
    void dialUrl(url).then((dialed) => {
      outcome = dialed.outcome;
    });
    while (outcome === undefined && sentBytes < 1_000_000) await turns(1);
    expect(outcome).toBe('trouble');
  });
});
