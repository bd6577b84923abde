/** The handshake up to connection.open-ok, and the ways in which it fails. */
import type { Fields } from '#support/bridge-amqp-frames.ts';
import { frame, PROTOCOL_HEADER, tableEntry } from '#support/bridge-amqp-frames.ts';
import type { HandshakeOptions } from '#support/bridge-amqp-peer.ts';
import { BYE, bytes, type Group, PARTNER, type Step, send, type Transcript, until } from '../transcript.ts';

const WITHOUT_CAPABILITIES = { capabilities: {} };

const start: Step[] = [bytes(PROTOCOL_HEADER), until('connection.start')];
const login =
  (hello: HandshakeOptions = {}): Step =>
  (stage) =>
    stage.startOk(hello);
const offered: Step[] = [...start, login(), until('connection.tune')];
const tuneOk = (fields: Fields = {}) =>
  send('connection.tune-ok', { channelMax: 64, frameMax: 131_072, heartbeat: 60, ...fields }, 0);
const open = (virtualHost = '$V') => send('connection.open', { virtualHost }, 0);

function longString(text: string): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(Buffer.byteLength(text));
  return Buffer.concat([length, Buffer.from(text)]);
}

/** An AMQPLAIN response: a table without its length. */
const amqplain =
  (entries: Record<string, string>): Step =>
  (stage) => {
    const table = Object.entries(entries).map(([key, text]) =>
      tableEntry(key, 'S', longString(stage.name(text))),
    );
    stage.startOk({ mechanism: 'AMQPLAIN', response: Buffer.concat(table) });
  };

const plain =
  (text: string, hello: HandshakeOptions = {}): Step =>
  (stage) =>
    stage.startOk({ response: Buffer.from(stage.name(text)), ...hello });

function header(text: string): Step {
  return bytes(Buffer.from(text, 'latin1'));
}

const LOGINS: Transcript[] = [
  {
    title: 'what the server says of itself',
    introduced: true,
    steps: [...offered, tuneOk(), open(), until('connection.open-ok')],
  },
  { title: 'a vhost of its own opens', steps: [...offered, tuneOk(), open(), until('connection.open-ok')] },
  {
    title: 'AMQPLAIN opens it too',
    steps: [
      ...start,
      amqplain({ LOGIN: '$U', PASSWORD: '$P' }),
      until('connection.tune'),
      tuneOk(),
      open(),
      until('connection.open-ok'),
    ],
  },
  { title: 'the header of AMQP 1.0', steps: [header('AMQP\x00\x01\x00\x00')] },
  { title: 'the header of AMQP 1.0 with SASL', steps: [header('AMQP\x03\x01\x00\x00')] },
  { title: 'a request of HTTP', steps: [header('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n')] },
  { title: 'the header of AMQP 0-8', steps: [header('AMQP\x01\x01\x08\x00'), until('connection.start')] },
  { title: 'a wrong password', steps: [...start, login({ password: 'wrong' })] },
  { title: 'an unknown user', steps: [...start, login({ username: 'nobody-at-all' })] },
  {
    title: 'a wrong password by AMQPLAIN',
    steps: [...start, amqplain({ LOGIN: '$U', PASSWORD: 'wrong' })],
  },
  {
    title: 'a wrong password of a client without authentication_failure_close',
    steps: [...start, login({ password: 'wrong', ...WITHOUT_CAPABILITIES })],
  },
  { title: 'a PLAIN response without a password', steps: [...start, plain('\0$U')] },
  { title: 'a PLAIN response with an authzid', steps: [...start, plain('root\0$U\0$P')] },
  { title: 'a PLAIN response that is empty', steps: [...start, plain('')] },
  { title: 'an AMQPLAIN response without a PASSWORD', steps: [...start, amqplain({ LOGIN: '$U' })] },
  { title: 'a mechanism that is not offered', steps: [...start, plain('', { mechanism: 'EXTERNAL' })] },
  { title: 'a mechanism that does not exist', steps: [...start, plain('', { mechanism: 'NONE' })] },
];

const TUNING: Transcript[] = [
  { title: 'tune-ok with a larger frame_max', steps: [...offered, tuneOk({ frameMax: 131_073 }), open()] },
  { title: 'tune-ok with more channels', steps: [...offered, tuneOk({ channelMax: 65 }), open()] },
  { title: 'tune-ok with frame_max 0', steps: [...offered, tuneOk({ frameMax: 0 }), open()] },
  { title: 'tune-ok with channel_max 0', steps: [...offered, tuneOk({ channelMax: 0 }), open()] },
  { title: 'tune-ok with frame_max 1024', steps: [...offered, tuneOk({ frameMax: 1024 }), open()] },
  {
    title: 'tune-ok with frame_max 4096, no heartbeat and one channel',
    steps: [
      ...offered,
      tuneOk({ frameMax: 4096, heartbeat: 0, channelMax: 1 }),
      open(),
      until('connection.open-ok'),
    ],
  },
];

const STATES: Transcript[] = [
  { title: 'a vhost that is not there', steps: [...offered, tuneOk(), open('nope')] },
  { title: 'the vhost / without being named so', steps: [...offered, tuneOk(), open('')] },
  { title: 'a vhost of another', steps: [...offered, tuneOk(), open('$W')] },
  { title: 'connection.open before tune-ok', steps: [...offered, open()] },
  { title: 'connection.open before start-ok', steps: [...start, open()] },
  { title: 'start-ok twice', steps: [...offered, login()] },
  { title: 'a channel before the connection is open', steps: [...offered, tuneOk(), send('channel.open')] },
  { title: 'a content body in the handshake', steps: [...start, bytes(frame(3, 0, Buffer.from('x')))] },
  {
    title: 'a heartbeat in the handshake',
    steps: [...offered, bytes(frame(8, 0, Buffer.alloc(0))), tuneOk(), open(), until('connection.open-ok')],
  },
  {
    title: 'a frame of more than 4096 bytes before tune-ok',
    steps: [...start, bytes(frame(1, 0, Buffer.alloc(5000)))],
  },
  {
    title: 'a frame without its end in the handshake',
    steps: [...start, bytes(frame(1, 0, Buffer.alloc(8), 1))],
  },
  { title: 'connection.close in the handshake', steps: [...offered, send('connection.close', BYE, 0)] },
  {
    title: 'a second connection.open',
    from: 'connection',
    steps: [open()],
  },
  { title: 'connection.close', from: 'connection', steps: [send('connection.close', BYE, 0)] },
  {
    title: 'a secret that is updated with itself',
    from: 'connection',
    steps: [
      (stage) =>
        stage.send(
          'connection.update-secret',
          { newSecret: Buffer.from(stage.name('$P')), reason: 'new' },
          0,
        ),
      until('connection.update-secret-ok'),
    ],
  },
  {
    title: 'a secret that is updated with another',
    from: 'connection',
    steps: [send('connection.update-secret', { newSecret: Buffer.from('wrong'), reason: 'new' }, 0)],
  },
  {
    title: 'a method of the server on channel 0',
    from: 'connection',
    steps: [send('connection.tune', { channelMax: 1, frameMax: 4096, heartbeat: 0 }, 0)],
  },
  { title: 'channel.open on channel 0', from: 'connection', steps: [send('channel.open', {}, 0)] },
  {
    title: 'basic.qos on channel 0',
    from: 'connection',
    steps: [send('basic.qos', { prefetchCount: 1 }, 0)],
  },
  {
    title: 'a content header on channel 0',
    from: 'connection',
    steps: [bytes(frame(2, 0, Buffer.alloc(14)))],
  },
  {
    title: 'a client that agreed on heartbeats of a second and sends none',
    from: 'connection',
    hello: { tune: { heartbeat: 1 } },
    steps: [async (stage) => void (await stage.peer.untilEnded())],
  },
];

export const handshake: Group = {
  name: 'handshake',
  rights: PARTNER,
  atOnce: 8,
  transcripts: [...LOGINS, ...TUNING, ...STATES].map((one) => ({ from: 'socket', ...one })),
};

export const limit: Group = {
  name: 'limit',
  rights: PARTNER,
  maxConnections: 10,
  transcripts: [
    {
      title: 'an eleventh connection',
      from: 'socket',
      steps: [(stage) => stage.crowd(10), ...offered, tuneOk(), open()],
    },
  ],
};
