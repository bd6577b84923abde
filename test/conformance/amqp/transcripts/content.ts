/** Content: how a body is received, which properties are valid, and how it is delivered. */
import { headerFrame, publishFrames } from '#support/bridge-amqp-frames.ts';
import {
  bytes,
  confirm,
  FILLED,
  type Group,
  get,
  KEY,
  method,
  PARTNER,
  publish,
  send,
  until,
} from '../transcript.ts';

const acked = until('basic.ack');
const LARGE = 'x'.repeat(200_000);

export const content: Group = {
  name: 'content',
  rights: PARTNER,
  transcripts: [
    { title: 'a body in one frame', steps: [...confirm, publish('hello'), acked] },
    { title: 'a body of nothing', steps: [...confirm, publish(''), acked] },
    {
      title: 'a body of nothing with an empty body frame',
      steps: [publish(''), method.body('')],
    },
    {
      title: 'a body in several frames',
      steps: [
        ...confirm,
        method.publish(),
        method.header(5),
        method.body('he'),
        method.body(''),
        method.body('llo'),
        acked,
      ],
    },
    {
      title: 'a body that is longer than announced',
      steps: [...confirm, method.publish(), method.header(2), method.body('hello')],
    },
    {
      title: 'a body that goes on behind its end',
      steps: [method.publish(), method.header(2), method.body('he'), method.body('llo')],
    },
    { title: 'a body of the largest size', steps: [...confirm, publish('x'.repeat(262_144)), acked] },
    { title: 'a body that is a byte too large', steps: [...confirm, publish('x'.repeat(262_145))] },
    {
      title: 'a body that announces a terabyte',
      steps: [...confirm, method.publish(), bytes(headerFrame(2 ** 40)), method.body('x')],
    },
    {
      title: 'a body is sent in frames of what was tuned',
      hello: { tune: { frameMax: 8192 } },
      fill: [LARGE],
      steps: get(),
    },
    {
      title: 'a user_id that is the user',
      steps: [...confirm, publish('x', { properties: { userId: '$U' } }), acked],
    },
    { title: 'a user_id of another', steps: [...confirm, publish('x', { properties: { userId: 'zzz' } })] },
    {
      title: 'a user_id of another where nothing may be published',
      steps: [publish('x', { exchange: '', properties: { userId: 'zzz' } })],
    },
    {
      title: 'an expiration',
      steps: [...confirm, publish('x', { properties: { expiration: '600000' } }), acked],
    },
    {
      title: 'an expiration that is no number',
      steps: [...confirm, publish('x', { properties: { expiration: 'abc' } })],
    },
    {
      title: 'an expiration that is empty',
      steps: [...confirm, publish('x', { properties: { expiration: '' } })],
    },
    {
      title: 'an expiration that is negative',
      steps: [...confirm, publish('x', { properties: { expiration: '-1' } })],
    },
    {
      title: 'an expiration with a rest',
      steps: [...confirm, publish('x', { properties: { expiration: '10s' } })],
    },
    {
      title: 'an expiration that is too long',
      steps: [...confirm, publish('x', { properties: { expiration: '315360000001' } })],
    },
    {
      title: 'an expiration that is no number where nothing may be published',
      steps: [publish('x', { exchange: '', properties: { expiration: 'abc' } })],
    },
    {
      title: 'properties come out as they went in',
      fill: [],
      steps: [
        ...confirm,
        publish('hello', {
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
        acked,
        ...get(),
      ],
    },
    {
      title: 'bytes that are no text come out as they went in',
      fill: [],
      steps: [...confirm, publish(Buffer.from([0xff, 0x00, 0xce, 0x80])), acked, ...get()],
    },
    {
      title: 'a message without properties',
      fill: ['hello'],
      steps: get(),
    },
    {
      title: 'a header x-death-reason of the publisher',
      fill: [],
      steps: [...confirm, publish('x', { properties: { headers: { mine: 'yes' } } }), acked, ...get()],
    },
    {
      title: 'a header CC that is no list',
      steps: [...confirm, publish('x', { properties: { headers: { CC: 'text' } } })],
    },
    {
      title: 'a header CC with a key that may not be published',
      steps: [...confirm, publish('x', { properties: { headers: { CC: ['beta.command.mode'] } } })],
    },
    {
      title: 'publishes in one write come out in their order',
      fill: [],
      steps: [
        ...confirm,
        (stage) =>
          stage.write(
            ...['a', 'b', 'c'].map((body) =>
              publishFrames(body, { exchange: 'vcp', routingKey: stage.name(KEY) }),
            ),
          ),
        acked,
        ...get({ queue: FILLED, noAck: true }),
        ...get({ queue: FILLED, noAck: true }),
        ...get({ queue: FILLED, noAck: true }),
        send('basic.get', { queue: FILLED }),
        until('basic.get-empty'),
      ],
    },
  ],
};
