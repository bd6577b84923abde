/** A login and what becomes of it: accepted, refused, or trouble that is nobody's fault (rule 7). */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { type AmqpClient, connectAmqp, dialEdge, openAmqp } from '../../support/bridge-amqp.ts';
import { PROTOCOL_HEADER, tableBytes, tableEntry } from '../../support/bridge-amqp-frames.ts';
import type { HandshakeOptions } from '../../support/bridge-amqp-peer.ts';
import { type Answer, envelope, TestEdge, VHOST } from '../../support/bridge-edge.ts';
import { CLOCK, Signal, turns } from '../../support/bridge-signal.ts';

const REFUSED =
  '403 ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile. [0/0]';

let edge: TestEdge;

beforeAll(async () => {
  edge = await TestEdge.start();
});
beforeEach(() => {
  edge.reset();
});
afterEach(() => {
  vi.useRealTimers();
});
afterAll(() => edge.stop());

/** Start-ok sent, with this answer of the edge's. */
async function logIn(options: HandshakeOptions = {}, answer?: Answer): Promise<AmqpClient> {
  if (answer) edge.answer = () => answer;
  const client = connectAmqp(dialEdge(edge));
  client.peer.write(PROTOCOL_HEADER);
  await client.peer.takeMethod(METHOD.connectionStart);
  client.peer.startOk(options);
  return client;
}

/** Nothing was sent after start, and the socket closes after 3 s, not before. */
async function expectSilentClose({ peer, events }: AmqpClient): Promise<void> {
  await turns();
  await vi.advanceTimersByTimeAsync(2_999);
  await turns();
  expect(peer.ended).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  await peer.untilEnded();
  expect(peer.frames.length).toBe(1);
  await turns();
  expect(events.closedWhy.length).toBe(1);
}

function longString(text: string): Buffer {
  return tableBytes(Buffer.from(text));
}

describe('a login', () => {
  it.each([
    ['PLAIN', Buffer.from('\0acme\0a/b+c=@:%x')],
    [
      'AMQPLAIN',
      Buffer.concat([
        tableEntry('LOGIN', 'S', longString('acme')),
        tableEntry('PASSWORD', 'S', longString('a/b+c=@:%x')),
      ]),
    ],
  ])(
    'by %s reaches the edge as it was given, with the client address [C-6.3]',
    async (mechanism, response) => {
      const { peer } = await openAmqp(edge, { mechanism, response });
      expect(edge.dialed).toMatchObject([
        { path: '/link/amqp', username: 'acme', password: 'a/b+c=@:%x', proof: { address: '192.0.2.7' } },
      ]);
      peer.stream.destroy();
    },
  );

  it('that is refused is told so at once, where the client can hear it [C-6.3]', async () => {
    const { peer, events } = await logIn({}, envelope('UNAUTHORIZED'));
    expect(await peer.takeConnectionClose()).toBe(REFUSED);
    expect(peer.ended).toBe(false);
    peer.send(METHOD.connectionCloseOk);
    await peer.untilEnded();
    await turns();
    expect(events.openedWith).toBeUndefined();
    expect(events.closedWhy.length).toBe(1);
  });

  it('that is refused names the mechanism that was used', async () => {
    const response = Buffer.concat([
      tableEntry('LOGIN', 'S', longString('acme')),
      tableEntry('PASSWORD', 'S', longString('bad')),
    ]);
    const { peer } = await logIn({ mechanism: 'AMQPLAIN', response }, envelope('FORBIDDEN'));
    expect(await peer.takeConnectionClose()).toContain('mechanism AMQPLAIN.');
  });

  it('that is refused closes the socket after 3 s though the client never says close-ok', async () => {
    vi.useFakeTimers(CLOCK);
    const { peer } = await logIn({}, envelope('UNAUTHORIZED'));
    expect(await peer.takeConnectionClose()).toBe(REFUSED);
    await vi.advanceTimersByTimeAsync(2_999);
    await turns();
    expect(peer.ended).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await peer.untilEnded();
  });

  it.each([
    [{}],
    [{ authentication_failure_close: false }],
    [{ authentication_failure_close: 'yes' }],
    [{ publisher_confirms: true }],
  ])('that is refused with capabilities %j closes without a word after 3 s', async (capabilities) => {
    vi.useFakeTimers(CLOCK);
    const answered = new Signal();
    let isAnswered = false;
    const client = connectAmqp(async (credential) => {
      edge.answer = () => envelope('UNAUTHORIZED');
      const result = await dialEdge(edge)(credential);
      isAnswered = true;
      answered.changed();
      return result;
    });
    client.peer.write(PROTOCOL_HEADER);
    await client.peer.takeMethod(METHOD.connectionStart);
    client.peer.startOk({ capabilities });
    await answered.until(() => isAnswered || undefined);
    await expectSilentClose(client);
  });

  it.each([
    ['a malformed PLAIN', { response: Buffer.from('acme') }],
    ['an authorization identity', { response: Buffer.from('root\0acme\0key') }],
    ['EXTERNAL', { mechanism: 'EXTERNAL', response: Buffer.alloc(0) }],
    ['AMQPLAIN without a login', { mechanism: 'AMQPLAIN', response: Buffer.alloc(0) }],
  ])('with %s closes without a word after 3 s, and asks nobody', async (_title, options) => {
    vi.useFakeTimers(CLOCK);
    await expectSilentClose(await logIn(options));
    expect(edge.dialed).toEqual([]);
  });

  it('reads no capability out of a prototype', async () => {
    vi.useFakeTimers(CLOCK);
    const inner = tableBytes(tableEntry('authentication_failure_close', 't', Buffer.from([1])));
    const properties = tableBytes(
      tableEntry('__proto__', 'F', tableBytes(tableEntry('capabilities', 'F', inner))),
    );
    const refused = async () =>
      ({ outcome: 'refused', status: 401, code: 'UNAUTHORIZED', message: '' }) as const;
    const client = connectAmqp(refused);
    client.peer.write(PROTOCOL_HEADER);
    await client.peer.takeMethod(METHOD.connectionStart);
    const args = [properties, Buffer.from('\x05PLAIN'), longString('\0acme\0key'), Buffer.from('\x05en_US')];
    const payload = Buffer.concat([Buffer.from([0, 10, 0, 11]), ...args]);
    const head = Buffer.alloc(7);
    head.writeUInt8(1, 0);
    head.writeUInt32BE(payload.length, 3);
    client.peer.write(head, payload, Buffer.from([0xce]));
    await expectSilentClose(client);
  });
});

describe('a vhost', () => {
  it.each(['partner-k2', '/', '', 'partner-k1/', 'PARTNER-K1'])(
    'that is not the key’s (%j) is refused with 530, and the link closed [C-6.3]',
    async (virtualHost) => {
      const { peer } = await logIn();
      const link = await edge.vhostLink();
      peer.send(METHOD.connectionTuneOk, await peer.takeMethod(METHOD.connectionTune));
      peer.send(METHOD.connectionOpen, { virtualHost });
      expect(await peer.takeConnectionClose()).toBe(
        `530 NOT_ALLOWED - access to vhost '${virtualHost}' refused for user 'acme' [10/40]`,
      );
      await link.untilClosed();
    },
  );

  it('with too many connections is refused with 530 where it is opened, not at the login [C-6.3]', async () => {
    const { peer } = await logIn({}, envelope('CONFLICT', 'too many connections'));
    peer.send(METHOD.connectionTuneOk, await peer.takeMethod(METHOD.connectionTune));
    peer.send(METHOD.connectionOpen, { virtualHost: VHOST });
    expect(await peer.takeConnectionClose()).toMatch(/^530 NOT_ALLOWED - .*too many connections \[10\/40\]$/);
  });
});
