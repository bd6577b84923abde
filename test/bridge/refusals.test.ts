/** Who is not let in, or not any more: a line each, with who, from where, by what name the edge knows it, and why. */
import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { METHOD } from '../../bridge/amqp/wire/codec.ts';
import { loginReason } from '../../bridge/refusal.ts';
import { CLOSE_CODES } from '../../protocol/link/live.ts';
import { issueCertificate } from '../../worker/lifecycle/device-certificate.ts';
import type { AmqpPeer } from '../support/bridge-amqp-peer.ts';
import { type Answer, envelope, TestEdge, VHOST } from '../support/bridge-edge.ts';
import { BridgeLines } from '../support/bridge-lines.ts';
import { DEVICE_ID } from '../support/bridge-link.ts';
import { OTHER_ID } from '../support/bridge-mqtt.ts';
import { connectPacket, PACKET, packet, publishPacket } from '../support/bridge-mqtt-peer.ts';
import { CLOCK, turns } from '../support/bridge-signal.ts';
import { ADDRESS, TestCertificates, WholeBridge } from '../support/bridge-whole.ts';
import { readSources, stringsOf } from '../support/import-graph.ts';

const BYE = { replyCode: 200, replyText: 'bye', classId: 0, methodId: 0 };
const KEY = `sw_${'Abcd1234'.repeat(6)}x`;
const TOKEN = 'eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl';

let certificates: TestCertificates;
let edge: TestEdge;
let bridge: WholeBridge;
let lines: BridgeLines;

beforeAll(async () => {
  certificates = await TestCertificates.create();
  edge = await TestEdge.start();
});
beforeEach(async () => {
  edge.reset();
  lines = new BridgeLines();
  bridge = await WholeBridge.start(edge, certificates, {}, lines.log);
});
afterEach(async () => {
  vi.useRealTimers();
  await bridge.stop();
});
afterAll(async () => {
  await edge.stop();
  certificates.remove();
});

async function openVhost(peer: AmqpPeer, virtualHost: string): Promise<void> {
  peer.send(METHOD.connectionTuneOk, await peer.takeMethod(METHOD.connectionTune));
  peer.send(METHOD.connectionOpen, { virtualHost });
}

function refusedCount(protocol: string, reason: string): Promise<number> {
  return bridge.metric(`refused_clients_total{protocol="${protocol}",reason="${reason}"}`);
}

/** The one line of who is refused, in which nothing stands that opens anything. */
async function refusal(): Promise<Record<string, unknown>> {
  const line = await lines.until('client refused');
  expect(lines.of('client refused')).toHaveLength(1);
  const { protocol, reason } = line as Record<string, unknown>;
  expect(await refusedCount(String(protocol), String(reason))).toBe(1);
  return line;
}

describe('a partner that is refused', () => {
  it.each<[string, Answer, string]>([
    ['credential', envelope('UNAUTHORIZED', 'Invalid API key'), 'UNAUTHORIZED'],
    ['scope', envelope('FORBIDDEN', 'The API key lacks the scope vcp:connect'), 'FORBIDDEN'],
    ['address', envelope('FORBIDDEN', 'The client address is not allowed for this API key'), 'FORBIDDEN'],
  ])(
    'by the edge for its %s: the line has who, from where, and the edge’s words',
    async (reason, answer, code) => {
      edge.answer = () => answer;
      const peer = await bridge.partner({ username: 'acme', password: KEY });
      await peer.takeConnectionClose();
      peer.stream.destroy();
      expect(await refusal()).toMatchObject({
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

  it('by the number of its connections is told with the vhost that it asked for', async () => {
    edge.answer = () => envelope('CONFLICT', 'connection limit (10) is reached');
    const peer = await bridge.partner();
    await openVhost(peer, VHOST);
    await peer.takeConnectionClose();
    peer.stream.destroy();
    expect(await refusal()).toMatchObject({ reason: 'limit', code: 'CONFLICT', vhost: VHOST });
  });

  it('by its vhost is told with the one that it asked for', async () => {
    const peer = await bridge.partner();
    await openVhost(peer, '/');
    await peer.takeConnectionClose();
    peer.stream.destroy();
    expect(await refusal()).toMatchObject({ reason: 'vhost', username: 'acme', vhost: '/' });
  });

  it.each<[string, Answer]>([
    ['trouble', envelope('SERVICE_UNAVAILABLE')],
    ['unproven', envelope('NOT_FOUND')],
  ])('by %s between bridge and edge is told as such', async (reason, answer) => {
    edge.answer = () => answer;
    const peer = await bridge.partner();
    await peer.takeConnectionClose();
    peer.stream.destroy();
    expect(await refusal()).toMatchObject({ reason, username: 'acme' });
    expect(
      lines.of(reason === 'trouble' ? 'edge not reached' : 'edge does not take our proof'),
    ).toMatchObject([{ protocol: 'amqp', connection: edge.dialed[0]?.proof.connection }]);
  });

  it('by the bridge alone, for too many refusals, is told so and is no dial', async () => {
    edge.answer = () => envelope('UNAUTHORIZED');
    for (let count = 0; count < 31; count++) {
      const peer = await bridge.partner();
      await peer.takeConnectionClose();
      peer.stream.destroy();
    }
    await vi.waitFor(async () => expect(await refusedCount('amqp', 'throttled')).toBe(1));
    expect(await refusedCount('amqp', 'credential')).toBe(30);
    expect(await bridge.metric('dials_total{protocol="amqp",outcome="refused"}')).toBe(30);
    expect(lines.of('client refused').at(-1)).toMatchObject({
      reason: 'throttled',
      why: 'too many refused logins from this address',
    });
  });

  it('by what it says before it has said who it is has no name', async () => {
    const peer = await bridge.partner({ username: '' });
    peer.stream.destroy();
    const line = await refusal();
    expect(line).toMatchObject({ reason: 'malformed', why: 'unusable credentials' });
    expect(line).not.toHaveProperty('username');
  });

  it('by its silence is told after the time of a handshake', async () => {
    vi.useFakeTimers(CLOCK);
    const peer = await bridge.partner();
    await peer.takeMethod(METHOD.connectionTune);
    await vi.advanceTimersByTimeAsync(10_000);
    await peer.untilEnded();
    vi.useRealTimers();
    expect(await refusal()).toMatchObject({ reason: 'timeout', username: 'acme', why: 'handshake timeout' });
  });

  it('is shown by what cannot harm a terminal, is no key and is no token, and no longer than so', async () => {
    edge.answer = () => envelope('UNAUTHORIZED');
    for (const username of [KEY, TOKEN, `a\u001b[2J\u202e${'x'.repeat(250)}`]) {
      const peer = await bridge.partner({ username, password: 'acme' });
      await peer.takeConnectionClose();
      peer.stream.destroy();
    }
    await lines.until('client refused', 3);
    const shown = lines.of('client refused').map(({ username }) => username);
    expect(shown).toEqual([`${KEY.slice(0, 11)}…`, 'eyJ…', `a\ufffd[2J\ufffd${'x'.repeat(250)}`]);
    expect(lines.text).not.toContain(KEY.slice(0, 20));
  });
});

describe('a device that is refused', () => {
  it('by the edge: the line has its id, and the name of the connection that the edge knows', async () => {
    edge.answer = () => envelope('UNAUTHORIZED', 'Invalid or expired credential');
    const peer = await bridge.device({ password: TOKEN });
    expect(await peer.takeConnack()).toBe(5);
    expect(await refusal()).toMatchObject({
      protocol: 'mqtt',
      connection: edge.dialed[0]?.proof.connection,
      address: ADDRESS,
      username: DEVICE_ID,
      reason: 'credential',
      code: 'UNAUTHORIZED',
      why: 'Invalid or expired credential',
    });
    expect(lines.text).not.toContain(TOKEN);
  });

  it('by the form of its name is told with that name', async () => {
    const peer = await bridge.device({ username: 'gateway-1' });
    expect(await peer.takeConnack()).toBe(4);
    expect(await refusal()).toMatchObject({ username: 'gateway-1', reason: 'malformed' });
  });

  it('by the name in its certificate is told with that one', async () => {
    const { certificate, key } = certificates.files.deviceCa;
    const authority = { certificate: readFileSync(certificate, 'utf8'), key: readFileSync(key, 'utf8') };
    const own = await issueCertificate(authority, DEVICE_ID, undefined, Date.now());
    const peer = await bridge.certified(
      { cert: own.certificate, key: own.privateKey },
      { username: OTHER_ID },
    );
    expect(await peer.takeConnack()).toBe(5);
    expect(await refusal()).toMatchObject({
      username: DEVICE_ID,
      reason: 'credential',
      why: "another device's certificate",
    });
  });

  it('by trouble is told as such', async () => {
    edge.answer = () => envelope('SERVICE_UNAVAILABLE');
    const peer = await bridge.device();
    expect(await peer.takeConnack()).toBe(3);
    expect(await refusal()).toMatchObject({ reason: 'trouble', username: DEVICE_ID });
  });

  it.each([
    ['another packet than CONNECT', publishPacket('t', '{}'), 'protocol', 'the first packet is no CONNECT'],
    ['an empty CONNECT', packet(PACKET.connect, 0), 'protocol', ''],
  ])('by what it sends (%s) is told once', async (_title, bytes, reason, why) => {
    const peer = await bridge.stranger();
    peer.write(bytes);
    await peer.untilEnded();
    const line = await refusal();
    expect(line).toMatchObject({ reason, why: expect.stringContaining(why) });
    expect(line).not.toHaveProperty('username');
  });

  it('by its own leaving is told to who asks for it alone, and counted', async () => {
    const peer = await bridge.stranger();
    peer.write(connectPacket({ username: DEVICE_ID, password: 'token' }).subarray(0, 5));
    peer.stream.destroy();
    expect(await lines.until('client left before its login')).toMatchObject({ level: 20, address: ADDRESS });
    expect(lines.of('client refused')).toEqual([]);
    expect(await refusedCount('mqtt', 'client')).toBe(1);
  });
});

describe('a connection that was opened', () => {
  it('of a partner is told when it opens and when it ends, by the same name as its proof', async () => {
    const peer = await bridge.partner();
    const link = await edge.vhostLink();
    await openVhost(peer, VHOST);
    await peer.takeMethod(METHOD.connectionOpenOk);
    const known = {
      protocol: 'amqp',
      connection: edge.dialed[0]?.proof.connection,
      address: ADDRESS,
      username: 'acme',
      vhost: VHOST,
    };
    expect(await lines.until('connection opened')).toMatchObject(known);
    link.send({ kind: 'goodbye', code: CLOSE_CODES.revoked, reason: 'revoked' });
    await peer.takeConnectionClose();
    peer.stream.destroy();
    expect(await lines.until('connection closed')).toMatchObject({
      ...known,
      seconds: 0,
      reason: 'revoked',
      why: 'link 4003 revoked',
    });
    expect(await bridge.metric('connections_ended_total{protocol="amqp",reason="revoked"}')).toBe(1);
    expect(lines.of('client refused')).toEqual([]);
  });

  it('of a partner that closes it, or breaks the protocol, ended by that', async () => {
    for (const [number, act, reason] of [
      [1, (peer: AmqpPeer) => peer.send(METHOD.connectionClose, BYE), 'client'],
      [2, (peer: AmqpPeer) => peer.send(METHOD.basicCancelOk, { consumerTag: '' }, 0), 'protocol'],
      [3, (peer: AmqpPeer) => peer.stream.destroy(), 'client'],
    ] as const) {
      const peer = await bridge.partner();
      await openVhost(peer, VHOST);
      await peer.takeMethod(METHOD.connectionOpenOk);
      act(peer);
      if (number < 3) await peer.takeMethod(number === 1 ? METHOD.connectionCloseOk : METHOD.connectionClose);
      peer.stream.destroy();
      expect(await lines.until('connection closed', number)).toMatchObject({ reason });
    }
  });

  it('of a device is told when it opens and when it ends', async () => {
    const peer = await bridge.device();
    const link = await edge.deviceLink();
    expect(await peer.takeConnack()).toBe(0);
    const known = {
      protocol: 'mqtt',
      connection: edge.dialed[0]?.proof.connection,
      address: ADDRESS,
      username: DEVICE_ID,
    };
    expect(await lines.until('connection opened')).toMatchObject(known);
    link.send({ kind: 'goodbye', code: CLOSE_CODES.takenOver, reason: 'taken over' });
    expect(await lines.until('connection closed')).toMatchObject({ ...known, reason: 'taken-over' });
    expect(await bridge.metric('connections_ended_total{protocol="mqtt",reason="taken-over"}')).toBe(1);
  });

  it('of a device that sends nothing for too long, or what is no MQTT, ended by that', async () => {
    const wrong = await bridge.device();
    expect(await wrong.takeConnack()).toBe(0);
    wrong.write(connectPacket({ username: DEVICE_ID, password: 'token' }));
    expect(await lines.until('connection closed')).toMatchObject({
      reason: 'protocol',
      why: 'a second CONNECT',
    });
    vi.useFakeTimers(CLOCK);
    const silent = await bridge.device({ keepalive: 1 });
    expect(await silent.takeConnack()).toBe(0);
    await vi.advanceTimersByTimeAsync(2_000);
    await turns();
    expect(await lines.until('connection closed', 2)).toMatchObject({
      reason: 'timeout',
      why: 'keep alive timeout',
    });
  });

  it('that the bridge ends because it stops says so', async () => {
    const [partner, device] = await Promise.all([bridge.partner(), bridge.device()]);
    await openVhost(partner, VHOST);
    await partner.takeMethod(METHOD.connectionOpenOk);
    expect(await device.takeConnack()).toBe(0);
    const stopped = bridge.stopAlone();
    await partner.takeConnectionClose();
    partner.send(METHOD.connectionCloseOk);
    await stopped;
    expect(lines.of('connection closed').map(({ reason }) => reason)).toEqual(['stopping', 'stopping']);
    expect(lines.all.at(-1)).toMatchObject({ msg: 'bridge stopped' });
  });
});

describe('a flood of refusals', () => {
  it('is told of at most five times alike, then by its count', async () => {
    vi.useFakeTimers(CLOCK);
    for (let count = 0; count < 12; count++) {
      const peer = await bridge.device({ username: 'gateway-1' });
      await peer.takeConnack();
    }
    expect(lines.of('client refused')).toHaveLength(5);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(lines.of('lines left out')).toMatchObject([{ level: 40, address: ADDRESS, count: 7 }]);
    await (await bridge.device({ username: 'gateway-1' })).takeConnack();
    expect(lines.of('client refused')).toHaveLength(6);
  });
});

it('the edge’s own words of a 403 are told apart', () => {
  const [source] = readSources(['worker/link']).filter(({ file }) => file === 'worker/link/amqp.ts');
  if (!source) throw new Error('no worker/link/amqp.ts');
  const words = stringsOf(source);
  const reasons = words
    .filter((_word, at) => words[at - 1] === 'FORBIDDEN')
    .map((message) => loginReason({ outcome: 'refused', status: 403, code: 'FORBIDDEN', message }));
  expect(reasons).toEqual(['scope', 'address']);
});
