/** Dials: the headers of the upgrade, and the answers that are a rejection or a failure (rules 1 and 7). */
import { createHmac } from 'node:crypto';
import http from 'node:http';
import { createServer as createNetServer, type Socket } from 'node:net';
import { afterEach, describe, expect, vi } from 'vitest';
import { type Answer, type Dialed, envelope, SECRET } from '#support/bridge-edge.ts';
import { CREDENTIAL, dialDevice, LinkOwner } from '#support/bridge-link.ts';
import { turns } from '#support/bridge-signal.ts';
import { edgeTest } from '#support/bridge-test.ts';
import { type ApiErrorCode, ERROR_STATUS } from '../../protocol/errors.ts';
import { PROOF_HEADER, parseProof, proofSigningString } from '../../protocol/link/proof.ts';
import { freePort } from '../../tools/ports.ts';

const SWITCHING = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n';
const HALF_BODY = 'HTTP/1.1 401 Unauthorized\r\ncontent-length: 500\r\n\r\n{"code":"UNAUTHORIZED",';

function json(status: number, body: unknown): Answer {
  return { status, body: JSON.stringify(body), contentType: 'application/json' };
}

type ThenDo = (socket: Socket) => void;

const it = edgeTest
  .extend('dialUrl', ({ edge }) => {
    return (url: string) => dialDevice(url, edge.forBridge);
  })
  .extend('dialFor', ({ edge, dialUrl }) => (answer: Answer) => {
    edge.answer = () => answer;
    return dialUrl(edge.url);
  })
  // The URL of a server that answers every request with these bytes.
  .extend('answering', ({ serve }) => async (bytes: string, thenDo: ThenDo = () => {}) => {
    const server = createNetServer((socket) => {
      socket.once('data', () => socket.write(bytes, () => thenDo(socket)));
    });
    return `http://127.0.0.1:${await serve(server)}`;
  });

afterEach(() => void vi.restoreAllMocks());

describe('the upgrade request of a dial', () => {
  it('carries the credential and a proof with a valid MAC (rule 1)', async ({ edge, dialFor }) => {
    await dialFor({ accept: {} });
    const { headers } = edge.dialed[0] as Dialed;
    expect(headers.authorization).toBe(
      `Basic ${Buffer.from(`${CREDENTIAL.username}:${CREDENTIAL.password}`).toString('base64')}`,
    );
    const { proof, mac } = parseProof(String(headers[PROOF_HEADER])) ?? {};
    const { bridge, boot } = edge.forBridge;
    expect(proof).toMatchObject({ bridge, boot, address: '192.0.2.7', fingerprint: '' });
    expect(Math.abs(Date.now() - (proof?.timeMs ?? 0))).toBeLessThan(10_000);
    const text = proof && proofSigningString(proof, '/link/mqtt', headers.authorization ?? '');
    expect(mac).toBe(createHmac('sha256', SECRET).update(String(text)).digest('hex'));
    expect(headers['sec-websocket-extensions']).toBeUndefined();
  });

  it('has a connection id of its own', async ({ edge, dialFor }) => {
    for (let count = 0; count < 2; count++) await dialFor({ accept: {} });
    const ids = edge.dialed.map(({ proof }) => proof.connection);
    expect(new Set(ids).size).toBe(2);
  });

  it('has the right path even if the edge’s URL ends with a slash', async ({ edge, dialUrl }) => {
    const dialed = await dialUrl(`${edge.url}/`);
    expect(dialed.outcome).toBe('accepted');
    expect(edge.dialed.map(({ path }) => path)).toEqual(['/link/mqtt']);
  });

  it('returns the link and the edge’s headers when it is accepted', async ({ dialFor }) => {
    const dialed = await dialFor({ accept: { 'sitewire-vhost': 'partner-k9' } });
    expect(dialed).toMatchObject({ outcome: 'accepted', headers: { 'sitewire-vhost': 'partner-k9' } });
  });

  it('returns a link that reports a close from before it had an owner', async ({ edge, dialFor }) => {
    const [dialed, object] = await Promise.all([dialFor({ accept: {} }), edge.deviceLink()]);
    object.close(4003, 'revoked');
    const owner = new LinkOwner();
    if (dialed.outcome === 'accepted') owner.attachTo(dialed.link);
    expect((await owner.untilClosed()).code).toBe(4003);
  });
});

describe('a dial that the edge rejects', () => {
  const codes = Object.entries(ERROR_STATUS) as [ApiErrorCode, number][];

  it.for(codes.filter(([, status]) => [401, 403, 409].includes(status)))(
    'our error envelope with %s and status %d is a rejection',
    async ([code, status], { dialFor }) => {
      const rejection = { outcome: 'refused', status, code, message: 'why' };
      expect(await dialFor(envelope(code, 'why'))).toEqual(rejection);
    },
  );

  it('an envelope without a message is a rejection, too', async ({ dialFor }) => {
    for (const body of [{ code: 'UNAUTHORIZED' }, { code: 'UNAUTHORIZED', message: 5 }])
      expect(await dialFor(json(401, body))).toMatchObject({ outcome: 'refused', message: '' });
  });
});

describe('a dial that fails', () => {
  it.for<[string, Answer]>([
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
    ['a 403 of foreign JSON', json(403, { error: 'forbidden' })],
    ['a 403 with a code that is not ours', json(403, { code: 'BLOCKED', message: 'no' })],
    ['a 403 with a number as code', json(403, { code: 403 })],
    ['a 403 with the code constructor', json(403, { code: 'constructor' })],
    ['a 403 with the code __proto__', json(403, { code: '__proto__' })],
    ['a 403 that is null', json(403, null)],
    ['a 403 that is a list', json(403, ['UNAUTHORIZED'])],
    ['an empty 403', { status: 403, body: '', contentType: 'application/json' }],
    ['a 403 cut short', { status: 403, body: '{"code":"FORBIDDEN"', contentType: 'application/json' }],
    ['a 200', json(200, { code: 'UNAUTHORIZED' })],
    ['a redirect', { status: 302, body: '', contentType: 'text/plain' }],
  ])('%s is a failure', async ([_, answer], { dialFor }) => {
    expect(await dialFor(answer)).toMatchObject({ outcome: 'trouble' });
  });

  it('the reason of a failure has the edge’s message', async ({ dialFor }) => {
    const reason = 'the edge answered 400: The edge serves link version 2 and 1';
    const answer = envelope('BAD_REQUEST', 'The edge serves link version 2 and 1');
    expect(await dialFor(answer)).toEqual({ outcome: 'trouble', reason });
  });

  it('an edge that is not running is a failure', async ({ dialUrl }) => {
    expect((await dialUrl(`http://127.0.0.1:${await freePort()}`)).outcome).toBe('trouble');
  });

  it.for([
    ['garbage', 'not HTTP at all\r\n\r\n'],
    ['AMQP', 'AMQP\x00\x00\x09\x01\r\n\r\n'],
    ['an upgrade with a wrong key', `${SWITCHING}Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n`],
    ['an upgrade to something else', `${SWITCHING}Upgrade: h2c\r\n\r\n`],
  ] as const)('%s is a failure', async ([_, bytes], { dialUrl, answering }) => {
    expect((await dialUrl(await answering(bytes))).outcome).toBe('trouble');
  });

  it.for([
    ['before the headers', ''],
    ['in the headers', 'HTTP/1.1 401 Unauthorized\r\ncontent-le'],
    ['in the body', HALF_BODY],
  ] as const)('an answer that breaks off %s is a failure', async ([_, bytes], { dialUrl, answering }) => {
    expect((await dialUrl(await answering(bytes, (socket) => socket.destroy()))).outcome).toBe('trouble');
  });

  it('no answer in 8 s is a failure', async ({ edge, dialUrl }) => {
    const request = vi.spyOn(http, 'request');
    edge.answer = () => 'never';
    const dialing = dialUrl(edge.url);
    await edge.untilDialed();
    expect(request.mock.calls[0]?.[0]).toMatchObject({ timeout: 8_000 });
    // Node emits this event on an idle socket.
    const sent = request.mock.results[0]?.value as http.ClientRequest | undefined;
    sent?.emit('timeout');
    expect((await dialing).outcome).toBe('trouble');
  });

  it('an answer that stops in its body for 8 s is a failure', async ({ dialUrl, answering }) => {
    const request = vi.spyOn(http, 'request');
    const url = await answering(HALF_BODY);
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

  it('an answer with an endless body is a failure', async ({ dialUrl, answering }) => {
    let sentBytes = 0;
    let outcome: string | undefined;
    const head = 'HTTP/1.1 403 Forbidden\r\ntransfer-encoding: chunked\r\n\r\n';
    const url = await answering(head, (socket) => {
      const more = () => {
        if (socket.destroyed) return;
        sentBytes += 1_000;
        socket.write(`3e8\r\n${'x'.repeat(1_000)}\r\n`, () => setImmediate(more));
      };
      more();
    });
    void dialUrl(url).then((dialed) => {
      outcome = dialed.outcome;
    });
    while (outcome === undefined && sentBytes < 1_000_000) await turns(1);
    expect(outcome).toBe('trouble');
  });
});
