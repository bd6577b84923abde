/** The log lines of rejected clients and ended connections: user, address, connection id and reason. */
import { describe, expect, vi } from 'vitest';
import { BYE } from '#support/bridge-amqp-frames.ts';
import type { AmqpPeer } from '#support/bridge-amqp-peer.ts';
import { type Answer, envelope, VHOST } from '#support/bridge-edge.ts';
import { DEVICE_ID } from '#support/bridge-link.ts';
import { OTHER_ID } from '#support/bridge-mqtt.ts';
import { connectPacket, PACKET, packet, publishPacket } from '#support/bridge-mqtt-peer.ts';
import { ADDRESS, bridgeTest } from '#support/bridge-whole.ts';
import { readSources, stringsOf } from '#support/import-graph.ts';
import { METHOD } from '../../bridge/amqp/wire/codec.ts';
import { loginReason } from '../../bridge/refusal.ts';
import { CLOSE_CODES } from '../../protocol/link/live.ts';

const KEY = `sw_${'Abcd1234'.repeat(6)}x`;
const TOKEN = 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl';

const it = bridgeTest
  .extend('rejectedCount', ({ bridge }) => (protocol: string, reason: string) => {
    return bridge.metric(`refused_clients_total{protocol="${protocol}",reason="${reason}"}`);
  })
  // Checks the only line of a rejected client, which is also counted.
  .extend('rejection', ({ lines, rejectedCount }) => async (expected: object) => {
    const line = await lines.until('client not connected');
    expect(line).toMatchObject(expected);
    expect(lines.of('client not connected')).toHaveLength(1);
    expect(await rejectedCount(String(line.protocol), String(line.reason))).toBe(1);
    return line;
  });

describe('a rejected partner', () => {
  it.for<[string, Answer, string]>([
    ['credential', envelope('UNAUTHORIZED', 'The API key was revoked or has expired'), 'UNAUTHORIZED'],
    ['scope', envelope('FORBIDDEN', 'The API key lacks the scope vcp:connect'), 'FORBIDDEN'],
    [
      'address',
      envelope('FORBIDDEN', 'The client address 192.0.2.7 is not in allowedIps of the API key'),
      'FORBIDDEN',
    ],
  ])(
    'because of its %s is logged with user, address and the edge’s message',
    async ([reason, answer, code], { lines, edge, bridge, rejection }) => {
      edge.answer = () => answer;
      await bridge.rejectedPartner({ username: 'acme', password: KEY });
      await rejection({
        level: 30,
        protocol: 'amqp',
        connection: edge.dialed[0]?.proof.connection,
        address: ADDRESS,
        username: 'acme',
        reason,
        code,
        why: (JSON.parse((answer as { body: string }).body) as { message: string }).message,
      });
      expect(lines.text).not.toContain(KEY);
    },
  );

  it('because of the connection limit is logged with the vhost', async ({ edge, bridge, rejection }) => {
    edge.answer = () => envelope('CONFLICT', 'connection limit (10) is reached');
    await bridge.rejectedPartner({ vhost: VHOST });
    await rejection({ reason: 'limit', code: 'CONFLICT', vhost: VHOST });
  });

  it('because of the vhost is logged with that vhost', async ({ bridge, rejection }) => {
    await bridge.rejectedPartner({ vhost: '/' });
    await rejection({ reason: 'vhost', username: 'acme', vhost: '/' });
  });

  it.for<[string, Answer]>([
    ['trouble', envelope('SERVICE_UNAVAILABLE')],
    ['unproven', envelope('NOT_FOUND')],
  ])(
    'whose login the edge did not decide is logged with the reason %s',
    async ([reason, answer], { lines, edge, bridge, rejection }) => {
      edge.answer = () => answer;
      await bridge.rejectedPartner();
      await rejection({ reason, username: 'acme' });
      expect(
        lines.of(reason === 'trouble' ? 'dial to edge failed' : 'edge rejected the bridge proof'),
      ).toMatchObject([{ protocol: 'amqp', connection: edge.dialed[0]?.proof.connection }]);
    },
  );

  it('is logged without a dial if it is throttled', async ({ lines, edge, bridge, rejectedCount }) => {
    edge.answer = () => envelope('UNAUTHORIZED');
    for (let count = 0; count < 31; count++) await bridge.rejectedPartner();
    await vi.waitFor(async () => expect(await rejectedCount('amqp', 'throttled')).toBe(1));
    expect(await rejectedCount('amqp', 'credential')).toBe(30);
    expect(await bridge.metric('dials_total{protocol="amqp",outcome="refused"}')).toBe(30);
    expect(lines.of('client not connected').at(-1)).toMatchObject({
      reason: 'throttled',
      why: 'too many rejected logins from this address',
    });
  });

  it('is logged as malformed, without a user name, if its user name is empty', async ({
    bridge,
    rejection,
  }) => {
    const peer = await bridge.partner({ username: '' });
    peer.stream.destroy();
    const line = await rejection({
      reason: 'malformed',
      why: 'unsupported SASL mechanism or malformed response',
    });
    expect(line).not.toHaveProperty('username');
  });

  it('is logged after 10 s if it is silent in its handshake', async ({ clock, bridge, rejection }) => {
    const peer = await bridge.partner();
    await peer.takeMethod(METHOD.connectionTune);
    await clock.pass(10_000);
    await peer.untilEnded();
    clock.stop();
    await rejection({ reason: 'timeout', username: 'acme', why: 'handshake timeout' });
  });

  it('is logged without its user name if that is a key or a token', async ({ lines, edge, bridge }) => {
    edge.answer = () => envelope('UNAUTHORIZED');
    for (const username of [KEY, TOKEN, `a\u001b[2J\u202e${'x'.repeat(250)}`]) {
      await bridge.rejectedPartner({ username, password: 'acme' });
    }
    await lines.until('client not connected', 3);
    const shown = lines.of('client not connected').map(({ username }) => username);
    expect(shown).toEqual([`${KEY.slice(0, 11)}…`, 'eyJ…', `a\ufffd[2J\ufffd${'x'.repeat(250)}`]);
    expect(lines.text).not.toContain(KEY.slice(0, 20));
  });
});

describe('a rejected device', () => {
  it('is logged with its connection id, without its token', async ({ lines, edge, bridge, rejection }) => {
    edge.answer = () =>
      envelope(
        'UNAUTHORIZED',
        'The credential is not valid for this device, or the device is not ACTIVE: see its diagnostics',
      );
    const peer = await bridge.device({ password: TOKEN });
    expect(await peer.takeConnack()).toBe(5);
    await rejection({
      protocol: 'mqtt',
      connection: edge.dialed[0]?.proof.connection,
      address: ADDRESS,
      username: DEVICE_ID,
      reason: 'credential',
      code: 'UNAUTHORIZED',
      why: 'The credential is not valid for this device, or the device is not ACTIVE: see its diagnostics',
    });
    expect(lines.text).not.toContain(TOKEN);
  });

  it('is logged as malformed if its user name is no UUID', async ({ bridge, rejection }) => {
    const peer = await bridge.device({ username: 'gateway-1' });
    expect(await peer.takeConnack()).toBe(4);
    await rejection({ username: 'gateway-1', reason: 'malformed' });
  });

  it('is logged with the name in its certificate if its user name is foreign', async ({
    certificates,
    edge,
    bridge,
    rejection,
  }) => {
    edge.answer = () => envelope('UNAUTHORIZED', 'not valid');
    const peer = await bridge.certified(await certificates.device(), { username: OTHER_ID });
    expect(await peer.takeConnack()).toBe(5);
    await rejection({
      username: DEVICE_ID,
      reason: 'credential',
      code: 'UNAUTHORIZED',
      why: 'not valid',
    });
  });

  it('whose login the edge did not decide is logged as trouble', async ({ edge, bridge, rejection }) => {
    edge.answer = () => envelope('SERVICE_UNAVAILABLE');
    const peer = await bridge.device();
    expect(await peer.takeConnack()).toBe(3);
    await rejection({ reason: 'trouble', username: DEVICE_ID });
  });

  it.for([
    ['another packet than CONNECT', publishPacket('t', '{}'), 'protocol', 'the first packet is not CONNECT'],
    ['an empty CONNECT', packet(PACKET.connect, 0), 'protocol', ''],
  ] as const)(
    'is logged once, with the reason protocol, when it sends %s',
    async ([_, bytes, reason, why], { bridge, rejection }) => {
      const peer = await bridge.stranger();
      peer.write(bytes);
      await peer.untilEnded();
      const line = await rejection({ reason, why: expect.stringContaining(why) });
      expect(line).not.toHaveProperty('username');
    },
  );

  it('is logged at debug level if it disconnects before its CONNECT is complete', async ({
    lines,
    bridge,
    rejectedCount,
  }) => {
    const peer = await bridge.stranger();
    peer.write(connectPacket({ username: DEVICE_ID, password: 'token' }).subarray(0, 5));
    peer.stream.destroy();
    await lines.expect('client disconnected before login', { level: 20, address: ADDRESS });
    expect(lines.of('client not connected')).toEqual([]);
    expect(await rejectedCount('mqtt', 'client')).toBe(1);
  });
});

describe('an open connection', () => {
  it('is logged at its open and close, with the reason, for a partner', async ({ lines, edge, bridge }) => {
    const { peer, link } = await bridge.openPartner();
    const known = {
      protocol: 'amqp',
      connection: edge.dialed[0]?.proof.connection,
      address: ADDRESS,
      username: 'acme',
      vhost: VHOST,
    };
    await lines.expect('connection opened', known);
    link.send({ kind: 'goodbye', code: CLOSE_CODES.revoked, reason: 'revoked' });
    await peer.takeConnectionClose();
    peer.stream.destroy();
    await lines.expect('connection closed', {
      ...known,
      seconds: 0,
      reason: 'revoked',
      why: 'link 4003 revoked',
    });
    expect(await bridge.metric('connections_ended_total{protocol="amqp",reason="revoked"}')).toBe(1);
    expect(lines.of('client not connected')).toEqual([]);
  });

  it('is logged with the reason client if a partner closes it, after an invalid method with protocol', async ({
    lines,
    bridge,
  }) => {
    for (const [number, act, reason] of [
      [1, (peer: AmqpPeer) => peer.send(METHOD.connectionClose, BYE), 'client'],
      [2, (peer: AmqpPeer) => peer.send(METHOD.basicCancelOk, { consumerTag: '' }, 0), 'protocol'],
      [3, (peer: AmqpPeer) => peer.stream.destroy(), 'client'],
    ] as const) {
      const { peer } = await bridge.openPartner();
      act(peer);
      if (number < 3) await peer.takeMethod(number === 1 ? METHOD.connectionCloseOk : METHOD.connectionClose);
      peer.stream.destroy();
      await lines.expect('connection closed', { reason }, number);
    }
  });

  it('is logged at its open and close, with the reason, for a device', async ({ lines, edge, bridge }) => {
    const { link } = await bridge.openDevice();
    const known = {
      protocol: 'mqtt',
      connection: edge.dialed[0]?.proof.connection,
      address: ADDRESS,
      username: DEVICE_ID,
    };
    await lines.expect('connection opened', known);
    link.send({ kind: 'goodbye', code: CLOSE_CODES.takenOver, reason: 'taken over' });
    await lines.expect('connection closed', { ...known, reason: 'taken-over' });
    expect(await bridge.metric('connections_ended_total{protocol="mqtt",reason="taken-over"}')).toBe(1);
  });

  it('is logged for a device with the reason protocol after a second CONNECT, timeout after silence', async ({
    clock,
    lines,
    bridge,
  }) => {
    const { peer } = await bridge.openDevice();
    peer.write(connectPacket({ username: DEVICE_ID, password: 'token' }));
    await lines.expect('connection closed', { reason: 'protocol', why: 'a second CONNECT' });
    await bridge.openDevice({ keepalive: 1 });
    await clock.pass(2_000);
    await lines.expect('connection closed', { reason: 'timeout', why: 'keep alive timeout' }, 2);
  });

  it('is logged with the reason stopping if a stopping bridge closes it', async ({ lines, bridge }) => {
    const { peer } = await bridge.openPartner();
    await bridge.openDevice();
    const stopped = bridge.stopWithClients();
    await peer.takeConnectionClose();
    peer.send(METHOD.connectionCloseOk);
    await stopped;
    expect(lines.of('connection closed').map(({ reason }) => reason)).toEqual(['stopping', 'stopping']);
    expect(lines.all.at(-1)).toMatchObject({ msg: 'bridge stopped' });
  });
});

describe('a flood of rejections', () => {
  it('writes five equal lines a minute, and counts the others', async ({ clock, lines, bridge }) => {
    const logIn = async () => (await bridge.device({ username: 'gateway-1' })).takeConnack();
    for (let count = 0; count < 12; count++) await logIn();
    expect(lines.of('client not connected')).toHaveLength(5);
    await clock.pass(60_000);
    expect(lines.of('log lines suppressed')).toMatchObject([{ level: 40, address: ADDRESS, count: 7 }]);
    await logIn();
    expect(lines.of('client not connected')).toHaveLength(6);
  });
});

it('each 403 message of the edge has its own reason', () => {
  const [source] = readSources(['worker/link']).filter(({ file }) => file === 'worker/link/amqp.ts');
  if (!source) throw new Error('no worker/link/amqp.ts');
  const words = stringsOf(source);
  const reasons = words
    .filter((_word, at) => words[at - 1] === 'FORBIDDEN')
    .map((message) => loginReason({ outcome: 'refused', status: 403, code: 'FORBIDDEN', message }));
  expect(reasons).toEqual(['scope', 'address']);
});
