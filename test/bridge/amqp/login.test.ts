/** A login: accepted or rejected; and the vhost of connection.open. */
import { describe, expect } from 'vitest';
import { type AmqpClient, amqpTest, dialEdge, QUEUE } from '#support/bridge-amqp.ts';
import {
  amqplain,
  type Fields,
  longString,
  PROTOCOL_HEADER,
  rawMethodFrame,
  tableBytes,
  tableEntry,
} from '#support/bridge-amqp-frames.ts';
import { LOGIN_REFUSED } from '#support/bridge-amqp-peer.ts';
import { envelope, VHOST } from '#support/bridge-edge.ts';
import { Signal, type TestClock, turns } from '#support/bridge-signal.ts';
import type { VhostDial } from '../../../bridge/amqp/handshake.ts';
import { METHOD } from '../../../bridge/amqp/wire/codec.ts';
import { STATE_HEADER } from '../../../protocol/link/proof.ts';

/** The socket closes after 3 s, not before, without a frame after start. */
async function expectSilentClose(clock: TestClock, { peer, events }: AmqpClient): Promise<void> {
  await clock.pass(2_999);
  expect(peer.ended).toBe(false);
  await clock.pass(1);
  await peer.untilEnded();
  expect(peer.frames.length).toBe(1);
  await turns();
  expect(events.endedWhy.length).toBe(1);
}

/** `rejected` has sent its start-ok to an edge that rejects its credential. */
const it = amqpTest.extend('rejected', ({ edge, amqp }) => {
  edge.answer = () => envelope('UNAUTHORIZED');
  return amqp.logIn();
});

describe('a login', () => {
  it.for([
    ['PLAIN', Buffer.from('\0acme\0a/b+c=@:%x')],
    ['AMQPLAIN', amqplain({ LOGIN: 'acme', PASSWORD: 'a/b+c=@:%x' })],
  ] as const)(
    'user name and password of a %s login reach the edge unchanged, with the client address [C-6.3]',
    async ([mechanism, response], { edge, amqp }) => {
      await amqp.open({ mechanism, response });
      expect(edge.dialed).toMatchObject([
        { path: '/link/amqp', username: 'acme', password: 'a/b+c=@:%x', proof: { address: '192.0.2.7' } },
      ]);
    },
  );

  it('gets 403 immediately if it is rejected and the client has authentication_failure_close [C-6.3]', async ({
    rejected,
  }) => {
    const { peer, events } = rejected;
    expect(await peer.takeConnectionClose()).toBe(LOGIN_REFUSED);
    expect(peer.ended).toBe(false);
    await peer.acceptClose();
    await turns();
    expect(events.opens[0]).toBeUndefined();
    expect(events.endedWhy.length).toBe(1);
  });

  it('names the reason if the edge rejects it for one that the client may learn [C-6.3]', async ({
    edge,
    amqp,
  }) => {
    const said = 'The API key has expired: use another one';
    edge.answer = () => envelope('UNAUTHORIZED', said, undefined, { [STATE_HEADER]: 'refused' });
    const expired = await amqp.logIn();
    expect(await expired.peer.takeConnectionClose()).toBe(
      `403 ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. ${said} [0/0]`,
    );
    edge.answer = () => envelope('FORBIDDEN', 'The API key lacks the scope vcp:connect');
    const scopeless = await amqp.logIn();
    expect(await scopeless.peer.takeConnectionClose()).toContain('lacks the scope vcp:connect');
    edge.answer = () => envelope('UNAUTHORIZED', 'a secret of the edge');
    expect(await (await amqp.logIn()).peer.takeConnectionClose()).toBe(LOGIN_REFUSED);
  });

  it('the text of a rejection names the mechanism of the login', async ({ edge, amqp }) => {
    edge.answer = () => envelope('FORBIDDEN');
    const { peer } = await amqp.logIn({
      mechanism: 'AMQPLAIN',
      response: amqplain({ LOGIN: 'acme', PASSWORD: 'bad' }),
    });
    expect(await peer.takeConnectionClose()).toContain('mechanism AMQPLAIN.');
  });

  it('after the 403, the bridge waits 3 s for close-ok, then closes', async ({ clock, rejected }) => {
    const { peer } = rejected;
    expect(await peer.takeConnectionClose()).toBe(LOGIN_REFUSED);
    await clock.pass(2_999);
    await turns();
    expect(peer.ended).toBe(false);
    await clock.pass(1);
    await peer.untilEnded();
  });

  it.for<Fields>([
    {},
    { authentication_failure_close: false },
    { authentication_failure_close: 'yes' },
    { publisher_confirms: true },
  ])(
    'a rejected login with capabilities %j gets no 403: the socket closes after 3 s',
    async (capabilities, { clock, edge, amqp }) => {
      const answered = new Signal();
      let isAnswered = false;
      edge.answer = () => envelope('UNAUTHORIZED');
      const dial: VhostDial = async (credential) => {
        const result = await dialEdge(edge)(credential);
        isAnswered = true;
        answered.changed();
        return result;
      };
      const client = await amqp.logIn({ capabilities }, dial);
      await answered.until(() => isAnswered || undefined);
      await expectSilentClose(clock, client);
    },
  );

  it.for([
    ['a malformed PLAIN', { response: Buffer.from('acme') }],
    ['an authorization identity', { response: Buffer.from('root\0acme\0key') }],
    ['EXTERNAL', { mechanism: 'EXTERNAL', response: Buffer.alloc(0) }],
    ['AMQPLAIN without a login', { mechanism: 'AMQPLAIN', response: Buffer.alloc(0) }],
  ] as const)(
    'a login with %s closes the socket after 3 s, without a frame or a dial',
    async ([_, options], { clock, edge, amqp }) => {
      await expectSilentClose(clock, await amqp.logIn(options));
      expect(edge.dialed).toEqual([]);
    },
  );

  it('a capability in a table named __proto__ does not count', async ({ clock, amqp }) => {
    const inner = tableBytes(tableEntry('authentication_failure_close', 't', Buffer.from([1])));
    const properties = tableBytes(
      tableEntry('__proto__', 'F', tableBytes(tableEntry('capabilities', 'F', inner))),
    );
    const refused = async () =>
      ({ outcome: 'refused', status: 401, code: 'UNAUTHORIZED', message: '' }) as const;
    const client = amqp.connect(refused);
    client.peer.write(PROTOCOL_HEADER);
    await client.peer.takeMethod(METHOD.connectionStart);
    const args = [properties, Buffer.from('\x05PLAIN'), longString('\0acme\0key'), Buffer.from('\x05en_US')];
    client.peer.write(rawMethodFrame(METHOD.connectionStartOk, Buffer.concat(args), 0));
    await expectSilentClose(clock, client);
  });
});

describe('connection.open', () => {
  it('reaches the object once with the right vhost [C-6.3]', async ({ amqp }) => {
    const { peer, link } = await amqp.accepted();
    await peer.openVhost();
    await peer.takeMethod(METHOD.connectionOpenOk);
    await peer.openChannel(1);
    peer.send(METHOD.basicGet, { queue: QUEUE }, 1);
    await link.take('get');
    expect(link.opened).toEqual([{ kind: 'open', vhost: VHOST }]);
  });

  it.for(['partner-k2', '/', '', 'partner-k1/', 'PARTNER-K1', 'x'.repeat(255), 'č'.repeat(127)])(
    'reaches the object with %j, which is not the vhost of the key, gets 530, and the link closes [C-6.3]',
    async (vhost, { amqp }) => {
      const { peer, link } = await amqp.accepted();
      await peer.openVhost(vhost);
      const text = `NOT_ALLOWED - access to vhost '${vhost}' refused for user 'acme'`;
      const close = await peer.takeConnectionClose();
      if (vhost.length < 100) expect(close).toBe(`530 ${text} [10/40]`);
      expect(close).toMatch(/^530 NOT_ALLOWED/);
      await link.untilClosed();
      expect(link.opened).toEqual([{ kind: 'open', vhost }]);
      expect(link.received).toEqual([]);
    },
  );

  it('the object receives nothing if the client disconnects before it sends connection.open [C-6.3]', async ({
    amqp,
  }) => {
    const { peer, link } = await amqp.accepted();
    await peer.takeMethod(METHOD.connectionTune);
    peer.stream.destroy();
    await link.untilClosed();
    expect([link.opened, link.received]).toEqual([[], []]);
  });

  it('gets 530 when the key has too many connections; its login succeeds [C-6.3]', async ({ edge, amqp }) => {
    edge.answer = () => envelope('CONFLICT', 'too many connections');
    const { peer } = await amqp.logIn();
    await peer.openVhost();
    expect(await peer.takeConnectionClose()).toMatch(/^530 NOT_ALLOWED - .*too many connections \[10\/40\]$/);
  });
});
