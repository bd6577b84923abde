/** The nonce of a new key's probe: a client property that travels in the bridge's proof, and nothing else does [C-5.4]. */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { PROBE_PROPERTY, PROOF_HEADER, parseProof } from '../../../protocol/link/proof.ts';
import { type AmqpClient, connectAmqp, dialEdge } from '../../support/bridge-amqp.ts';
import { type Fields, PROTOCOL_HEADER } from '../../support/bridge-amqp-frames.ts';
import { TestEdge } from '../../support/bridge-edge.ts';

const NONCE = '0123456789abcdef0123456789abcdef';

let edge: TestEdge;
const clients: AmqpClient[] = [];

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(() => {
  edge.reset();
});
afterEach(() => {
  for (const { peer } of clients.splice(0)) peer.stream.destroy();
});
afterAll(() => edge.stop());

/** A client that introduces itself with these properties, as far as it comes. */
function introduce(to: TestEdge, clientProperties: Fields): AmqpClient {
  const client = connectAmqp(dialEdge(to));
  clients.push(client);
  client.peer.write(PROTOCOL_HEADER);
  const credential = { mechanism: 'PLAIN', response: Buffer.from('\0acme\0key') };
  client.peer.send(METHOD.connectionStartOk, { clientProperties, ...credential, locale: 'en_US' });
  return client;
}

/** What the edge is told that a client with these properties said of a probe. */
async function probeOf(clientProperties: Fields): Promise<string | undefined> {
  const { peer } = introduce(edge, clientProperties);
  await peer.takeMethod(METHOD.connectionStart);
  // It is let in whatever it said: a probe's nonce is judged by the edge alone.
  await peer.takeMethod(METHOD.connectionTune);
  return edge.dialed.at(-1)?.proof.probe;
}

/** The proof of a client with these properties, as it goes over the wire. */
async function headerOf(clientProperties: Fields): Promise<string> {
  const server = createServer();
  const dialed = new Promise<IncomingHttpHeaders>((resolve) => {
    server.on('upgrade', (request, socket) => {
      resolve(request.headers);
      socket.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  introduce({ forBridge: { ...edge.forBridge, url } } as TestEdge, clientProperties);
  const headers = await dialed;
  await new Promise((resolve) => server.close(resolve));
  return String(headers[PROOF_HEADER]);
}

describe('the client property of a probe', () => {
  it('travels in the proof of its dial, signed with it [C-5.4]', async () => {
    const capabilities = { authentication_failure_close: true };
    expect(await probeOf({ product: 'x', capabilities, [PROBE_PROPERTY]: NONCE })).toBe(NONCE);
    expect(edge.dialed).toMatchObject([{ username: 'acme', password: 'key' }]);
  });

  it('is told for its own connection alone [C-5.4]', async () => {
    expect(await probeOf({ [PROBE_PROPERTY]: NONCE })).toBe(NONCE);
    expect(await probeOf({})).toBe('');
  });

  it.each<[string, unknown]>([
    ['in upper case', NONCE.toUpperCase()],
    ['of 31 characters', NONCE.slice(1)],
    ['of 33 characters', `${NONCE}0`],
    ['that is empty', ''],
    ['that is not hexadecimal', NONCE.replace('0', 'g')],
    ['with a separator in it', `${NONCE.slice(1)};`],
    ['with a line break behind it', `${NONCE}\n`],
    ['with a line in front of it', `x\n${NONCE}`],
    ['that is a number', 1_234_567],
    ['that is a truth', true],
    ['that is a table', { [NONCE]: NONCE }],
    ['that is a list', [NONCE]],
    ['that is nothing', null],
  ])('%s is ignored, and its client is let in [C-5.4]', async (_title, value) => {
    expect(await probeOf({ [PROBE_PROPERTY]: value })).toBe('');
  });

  it('is its own: neither a capability nor a prototype says it [C-5.4]', async () => {
    expect(await probeOf({ capabilities: { [PROBE_PROPERTY]: NONCE } })).toBe('');
    expect(await probeOf({ nested: { [PROBE_PROPERTY]: NONCE } })).toBe('');
    expect(await probeOf({ ['__proto__']: { [PROBE_PROPERTY]: NONCE } })).toBe('');
  });

  it('makes the proof one of eight fields; without it there are seven, as an edge of before reads them [C-5.4]', async () => {
    const plain = await headerOf({ product: 'amqplib' });
    expect(plain.split(';')).toHaveLength(7);
    expect(await headerOf({ [PROBE_PROPERTY]: 'nonsense' }).then((text) => text.split(';'))).toHaveLength(7);
    const fields = (await headerOf({ [PROBE_PROPERTY]: NONCE })).split(';');
    expect([fields.length, fields[6]]).toEqual([8, NONCE]);
    expect(parseProof(fields.join(';'))?.proof.probe).toBe(NONCE);
  });
});
