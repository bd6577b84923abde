/** Content: how a body is received, which properties are valid, and how it is delivered. */
import { type Fields, publishFrames } from '#support/bridge-amqp-frames.ts';
import {
  acked,
  confirm,
  confirmed,
  filled,
  type Group,
  get,
  getNone,
  KEY,
  method,
  PARTNER,
  publish,
  transcript,
} from '../transcript.ts';

/** A publish with these properties; nothing waits for its confirm. */
const having = (title: string, properties: Fields) =>
  transcript(title, confirm, publish('x', { properties }));
/** A publish in these body frames, with an announced size. */
const inFrames = (size: number, ...bodies: string[]) => [
  method.publish(),
  method.header(size),
  ...bodies.map((body) => method.body(body)),
];

export const content: Group = {
  name: 'content',
  rights: PARTNER,
  transcripts: [
    transcript('a body in one frame', confirmed('hello')),
    transcript('an empty body', confirmed('')),
    transcript('an empty body with an empty body frame', publish(''), method.body('')),
    transcript('a body in several frames', confirm, inFrames(5, 'he', '', 'llo'), acked),
    transcript('a body that is longer than announced', confirm, inFrames(2, 'hello')),
    transcript('a body frame after the end of the body', inFrames(2, 'he', 'llo')),
    transcript('a body of the largest size', confirmed('x'.repeat(262_144))),
    transcript('a body that is a byte too large', confirm, publish('x'.repeat(262_145))),
    transcript('a body that announces a terabyte', confirm, inFrames(2 ** 40, 'x')),
    {
      ...filled(['x'.repeat(200_000)], 'a body is delivered in frames of the tuned size', get()),
      hello: { tune: { frameMax: 8192 } },
    },
    transcript('a user_id that is the user', confirmed('x', { properties: { userId: '$U' } })),
    having('a user_id of another user', { userId: 'zzz' }),
    transcript(
      'a user_id of another user, to an exchange where the user may not publish',
      publish('x', { exchange: '', properties: { userId: 'zzz' } }),
    ),
    transcript('an expiration', confirmed('x', { properties: { expiration: '600000' } })),
    having('an expiration that is no number', { expiration: 'abc' }),
    having('an expiration that is empty', { expiration: '' }),
    having('an expiration that is negative', { expiration: '-1' }),
    having('an expiration with text after the number', { expiration: '10s' }),
    having('an expiration that is too long', { expiration: '315360000001' }),
    transcript(
      'an expiration that is no number, to an exchange where the user may not publish',
      publish('x', { exchange: '', properties: { expiration: 'abc' } }),
    ),
    filled(
      [],
      'a message is delivered with the properties that were published',
      confirmed('hello', {
        properties: {
          contentType: 'application/json',
          contentEncoding: 'utf-8',
          headers: { text: 'a', number: 5, yes: true, list: [1, 'b'], table: { inner: 'c' } },
          deliveryMode: 2,
          priority: 3,
          correlationId: 'corr',
          replyTo: 'back',
          messageId: 'id',
          timestamp: 1_700_000_000,
          type: 'kind',
          userId: '$U',
          appId: 'app',
        },
      }),
      get(),
    ),
    filled(
      [],
      'a body of bytes that are no text is delivered unchanged',
      confirmed(Buffer.from([0xff, 0x00, 0xce, 0x80])),
      get(),
    ),
    filled(['hello'], 'a message without properties', get()),
    filled(
      [],
      'a header of the publisher',
      confirmed('x', { properties: { headers: { mine: 'yes' } } }),
      get(),
    ),
    having('a header CC that is no list', { headers: { CC: 'text' } }),
    having('a header CC with a key that may not be published', { headers: { CC: ['beta.command.mode'] } }),
    filled(
      [],
      'publishes in one write are delivered in their order',
      confirm,
      (stage) =>
        stage.write(
          ...['a', 'b', 'c'].map((body) =>
            publishFrames(body, { exchange: 'vcp', routingKey: stage.filled(KEY) }),
          ),
        ),
      acked,
      [1, 2, 3].flatMap(() => get({ noAck: true })),
      getNone(),
    ),
  ],
};
