/** Channels: opening, closing, and frames on a channel that is not open. */
import { frame } from '#support/bridge-amqp-frames.ts';
import {
  acceptClose,
  acked,
  BYE,
  bytes,
  closed,
  confirm,
  confirmed,
  type Group,
  known,
  method,
  opened,
  PARTNER,
  publish,
  QUEUE,
  request,
  type Step,
  type Steps,
  send,
  together,
  transcript,
  until,
} from '../transcript.ts';

const REFUSED = { exchange: 'amq.topic', routingKey: 'x' };
const refused = [publish('no', REFUSED), until('channel.close')];
const hello = { tune: { channelMax: 2 } };
const tuned = (title: string, ...steps: Steps) => ({ ...transcript(title, ...steps), hello });
/** What a client sends on channel 9, which is not open. */
const notOpen = (what: string, step: Step) =>
  transcript(`${what} on a channel that is not open`, step, until('connection.close'));

export const channels: Group = {
  name: 'channels',
  rights: PARTNER,
  atOnce: 4,
  transcripts: [
    transcript('a channel that closes', closed),
    transcript('a channel that is open already', send('channel.open')),
    notOpen('a method', send('basic.qos', {}, 9)),
    notOpen('a content header', method.header(1, {}, 9)),
    notOpen('a content body', method.body('x', 9)),
    notOpen('channel.close', send('channel.close', BYE, 9)),
    notOpen('channel.close-ok', send('channel.close-ok', {}, 9)),
    transcript('channel.close-ok on a channel that is open', send('channel.close-ok')),
    transcript('a method after the close of its channel', closed, send('basic.qos')),
    transcript('a channel that is opened again', closed, opened(), known()),
    tuned('a channel number above channel_max', opened(1_000)),
    tuned('the highest channel number', opened(65_535)),
    tuned('more channels than channel_max', opened(7), send('channel.open', {}, 8)),
    tuned('a new channel in place of a closed one at channel_max', opened(7), closed, opened(8)),
    transcript(
      'publishes and requests after an error of their channel are ignored',
      confirm,
      together(
        publish('no', REFUSED),
        publish('yes'),
        send('basic.qos'),
        send('queue.declare', { queue: QUEUE }),
      ),
      until('channel.close'),
    ),
    transcript(
      'channel.open on a channel whose channel.close was not answered',
      refused,
      send('channel.open'),
    ),
    transcript(
      'confirms begin at 1 again on a channel that was closed by an error',
      confirmed('yes'),
      publish('no', REFUSED),
      acceptClose,
      opened(),
      confirmed('yes'),
    ),
    transcript(
      'an error of one channel does not affect another channel',
      opened(2),
      refused,
      request('queue.declare', { queue: QUEUE, passive: true }, 2),
    ),
    transcript(
      'a channel.close of the client that crosses one of the server',
      refused,
      send('channel.close', BYE),
    ),
    transcript('channel.flow that is active', request('channel.flow', { active: true })),
    transcript('channel.flow that is not active', send('channel.flow', { active: false })),
    transcript(
      'access.request',
      request('access.request', {
        realm: '/data',
        exclusive: false,
        passive: true,
        active: true,
        write: true,
        read: true,
      }),
    ),
    transcript('connection.close on channel 1', send('connection.close', BYE)),
    transcript('connection.open on channel 1', send('connection.open', { virtualHost: '$V' })),
    transcript('a heartbeat on channel 1', bytes(frame(8, 1, Buffer.alloc(0)))),
    transcript(
      'a method of the server, with its content',
      send('basic.deliver', { consumerTag: 'ct', deliveryTag: 1, exchange: '', routingKey: '' }),
      method.header(1),
      method.body('x'),
    ),
    transcript(
      'an answer of the server',
      send('queue.declare-ok', { queue: 'q', messageCount: 0, consumerCount: 0 }),
    ),
    transcript('a method that does not exist', method.raw(60 * 65_536 + 999, Buffer.alloc(0))),
    transcript('a class that does not exist', method.raw(99 * 65_536 + 10, Buffer.alloc(0))),
    transcript('tx.select', send('tx.select')),
    transcript('tx.commit', send('tx.commit')),
    transcript('tx.select on a channel with confirms', confirm, send('tx.select')),
    transcript('confirm.select twice', confirm, confirm),
    transcript('confirm.select with nowait', send('confirm.select', { nowait: true }), publish('yes'), acked),
    transcript(
      'connection.close after requests, in one write',
      together(
        send('queue.declare', { queue: QUEUE, passive: true }),
        send('basic.qos', { prefetchCount: 1 }),
        send('connection.close', BYE, 0),
      ),
      until('connection.close-ok'),
    ),
  ],
};
