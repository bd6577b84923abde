/** The handshake up to connection.open-ok, and the ways in which it fails. */
import { amqplain, type Fields, frame, PROTOCOL_HEADER } from '#support/bridge-amqp-frames.ts';
import type { HandshakeOptions } from '#support/bridge-amqp-peer.ts';
import {
  BYE,
  bytes,
  type Group,
  PARTNER,
  type Step,
  type Steps,
  send,
  type Transcript,
  transcript,
  until,
} from '../transcript.ts';

const start: Step[] = [bytes(PROTOCOL_HEADER), until('connection.start')];
const login =
  (hello: HandshakeOptions = {}): Step =>
  (stage) =>
    stage.startOk(hello);
const offered: Step[] = [...start, login(), until('connection.tune')];
const tuneOk = (fields: Fields = {}) =>
  send('connection.tune-ok', { channelMax: 64, frameMax: 131_072, heartbeat: 60, ...fields }, 0);
const open = (virtualHost = '$V') => send('connection.open', { virtualHost }, 0);
const completed = [tuneOk(), open(), until('connection.open-ok')];
const connected = (title: string, ...steps: Steps): Transcript => ({
  ...transcript(title, ...steps),
  from: 'connection',
});
/** A tune-ok with these fields, and connection.open. */
const tuned = (title: string, fields: Fields) =>
  transcript(`tune-ok with ${title}`, offered, tuneOk(fields), open());
const opening = (title: string, virtualHost: string) =>
  transcript(title, offered, tuneOk(), open(virtualHost));

const byAmqplain =
  (texts: Record<string, string>): Step =>
  (stage) =>
    stage.startOk({ mechanism: 'AMQPLAIN', response: amqplain(stage.filled(texts)) });

const plain =
  (text: string, hello: HandshakeOptions = {}): Step =>
  (stage) =>
    stage.startOk({ response: Buffer.from(stage.filled(text)), ...hello });

function header(text: string): Step {
  return bytes(Buffer.from(text, 'latin1'));
}

const LOGINS: Transcript[] = [
  {
    ...transcript('the properties that the server sends in connection.start', offered, completed),
    introduced: true,
  },
  transcript('a client that opens the vhost of its user', offered, completed),
  transcript(
    'a client that logs in by AMQPLAIN and opens its vhost',
    start,
    byAmqplain({ LOGIN: '$U', PASSWORD: '$P' }),
    until('connection.tune'),
    completed,
  ),
  transcript('the header of AMQP 1.0', header('AMQP\x00\x01\x00\x00')),
  transcript('the header of AMQP 1.0 with SASL', header('AMQP\x03\x01\x00\x00')),
  transcript('a request of HTTP', header('GET / HTTP/1.1\r\nhost: localhost\r\n\r\n')),
  transcript('the header of AMQP 0-8', header('AMQP\x01\x01\x08\x00'), until('connection.start')),
  transcript('a wrong password', start, login({ password: 'wrong' })),
  transcript('an unknown user', start, login({ username: 'nobody-at-all' })),
  transcript('a wrong password by AMQPLAIN', start, byAmqplain({ LOGIN: '$U', PASSWORD: 'wrong' })),
  transcript(
    'a wrong password of a client without authentication_failure_close',
    start,
    login({ password: 'wrong', capabilities: {} }),
  ),
  transcript('a PLAIN response without a password', start, plain('\0$U')),
  transcript('a PLAIN response with an authzid', start, plain('root\0$U\0$P')),
  transcript('a PLAIN response that is empty', start, plain('')),
  transcript('an AMQPLAIN response without a PASSWORD', start, byAmqplain({ LOGIN: '$U' })),
  transcript('a mechanism that is not offered', start, plain('', { mechanism: 'EXTERNAL' })),
  transcript('a mechanism that does not exist', start, plain('', { mechanism: 'NONE' })),
];

const TUNING: Transcript[] = [
  tuned('a larger frame_max', { frameMax: 131_073 }),
  tuned('more channels', { channelMax: 65 }),
  tuned('frame_max 0', { frameMax: 0 }),
  tuned('channel_max 0', { channelMax: 0 }),
  tuned('frame_max 1024', { frameMax: 1024 }),
  transcript(
    'tune-ok with frame_max 4096, no heartbeat and one channel',
    offered,
    tuneOk({ frameMax: 4096, heartbeat: 0, channelMax: 1 }),
    open(),
    until('connection.open-ok'),
  ),
];

const STATES: Transcript[] = [
  opening('a vhost that is not there', 'nope'),
  opening('an empty vhost name', ''),
  opening('a vhost of another user', '$W'),
  transcript('connection.open before tune-ok', offered, open()),
  transcript('connection.open before start-ok', start, open()),
  transcript('start-ok twice', offered, login()),
  transcript('a channel before the connection is open', offered, tuneOk(), send('channel.open')),
  transcript('a content body in the handshake', start, bytes(frame(3, 0, Buffer.from('x')))),
  transcript('a heartbeat in the handshake', offered, bytes(frame(8, 0, Buffer.alloc(0))), completed),
  transcript('a frame of more than 4096 bytes before tune-ok', start, bytes(frame(1, 0, Buffer.alloc(5000)))),
  transcript('a frame without its end in the handshake', start, bytes(frame(1, 0, Buffer.alloc(8), 1))),
  transcript('connection.close in the handshake', offered, send('connection.close', BYE, 0)),
  connected('a second connection.open', open()),
  connected('connection.close', send('connection.close', BYE, 0)),
  connected(
    'connection.update-secret with the current password',
    (stage) =>
      stage.send(
        'connection.update-secret',
        { newSecret: Buffer.from(stage.filled('$P')), reason: 'new' },
        0,
      ),
    until('connection.update-secret-ok'),
  ),
  connected(
    'connection.update-secret with another password',
    send('connection.update-secret', { newSecret: Buffer.from('wrong'), reason: 'new' }, 0),
  ),
  connected(
    'a method of the server on channel 0',
    send('connection.tune', { channelMax: 1, frameMax: 4096, heartbeat: 0 }, 0),
  ),
  connected('channel.open on channel 0', send('channel.open', {}, 0)),
  connected('basic.qos on channel 0', send('basic.qos', { prefetchCount: 1 }, 0)),
  connected('a content header on channel 0', bytes(frame(2, 0, Buffer.alloc(14)))),
  {
    ...transcript(
      'a client that agreed on heartbeats of a second and sends none',
      async (stage) => void (await stage.peer.untilEnded()),
    ),
    from: 'connection',
    hello: { tune: { heartbeat: 1 } },
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
      ...transcript('an eleventh connection', (stage) => stage.crowd(10), offered, tuneOk(), open()),
      from: 'socket',
    },
  ],
};
