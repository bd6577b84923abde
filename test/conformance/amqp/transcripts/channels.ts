/** Channels: opening, closing, and frames on a channel that is not open. */
import { frame } from '#support/bridge-amqp-frames.ts';
import {
  acceptClose,
  BYE,
  bytes,
  confirm,
  type Group,
  known,
  method,
  PARTNER,
  publish,
  QUEUE,
  send,
  together,
  until,
} from '../transcript.ts';

const REFUSED = { exchange: 'amq.topic', routingKey: 'x' };
const opened = (channel: number) => [send('channel.open', {}, channel), until('channel.open-ok')];
const closed = [send('channel.close', BYE), until('channel.close-ok')];
const hello = { tune: { channelMax: 2 } };

export const channels: Group = {
  name: 'channels',
  rights: PARTNER,
  atOnce: 4,
  transcripts: [
    { title: 'a channel that closes', steps: closed },
    { title: 'a channel that is open already', steps: [send('channel.open')] },
    {
      title: 'a method on a channel that is not open',
      steps: [send('basic.qos', {}, 9), until('connection.close')],
    },
    {
      title: 'a content header on a channel that is not open',
      steps: [method.header(1, {}, 9), until('connection.close')],
    },
    {
      title: 'a content body on a channel that is not open',
      steps: [method.body('x', 9), until('connection.close')],
    },
    {
      title: 'channel.close on a channel that is not open',
      steps: [send('channel.close', BYE, 9), until('connection.close')],
    },
    {
      title: 'channel.close-ok on a channel that is not open',
      steps: [send('channel.close-ok', {}, 9), until('connection.close')],
    },
    { title: 'channel.close-ok on a channel that is open', steps: [send('channel.close-ok')] },
    { title: 'a method behind the close of its channel', steps: [...closed, send('basic.qos')] },
    { title: 'a channel that is opened again', steps: [...closed, ...opened(1), ...known()] },
    { title: 'a channel number above channel_max', hello, steps: opened(1_000) },
    { title: 'the highest channel number', hello, steps: opened(65_535) },
    { title: 'more channels than channel_max', hello, steps: [...opened(7), send('channel.open', {}, 8)] },
    {
      title: 'as many channels again, once one is closed',
      hello,
      steps: [...opened(7), ...closed, ...opened(8)],
    },
    {
      title: 'what is sent behind an error of its channel is ignored',
      steps: [
        ...confirm,
        together(
          publish('no', REFUSED),
          publish('yes'),
          send('basic.qos'),
          send('queue.declare', { queue: QUEUE }),
        ),
        until('channel.close'),
      ],
    },
    {
      title: 'an opening of a channel that was closed and did not answer',
      steps: [publish('no', REFUSED), until('channel.close'), send('channel.open')],
    },
    {
      title: 'confirms begin at 1 again on a channel that was closed by an error',
      steps: [
        ...confirm,
        publish('yes'),
        until('basic.ack'),
        publish('no', REFUSED),
        acceptClose,
        ...opened(1),
        ...confirm,
        publish('yes'),
        until('basic.ack'),
      ],
    },
    {
      title: 'an error of one channel leaves another alone',
      steps: [
        ...opened(2),
        publish('no', REFUSED),
        until('channel.close'),
        send('queue.declare', { queue: QUEUE, passive: true }, 2),
        until('queue.declare-ok'),
      ],
    },
    {
      title: 'closes that cross',
      steps: [publish('no', REFUSED), until('channel.close'), send('channel.close', BYE)],
    },
    {
      title: 'channel.flow that is active',
      steps: [send('channel.flow', { active: true }), until('channel.flow-ok')],
    },
    { title: 'channel.flow that is not active', steps: [send('channel.flow', { active: false })] },
    {
      title: 'access.request',
      steps: [
        send('access.request', {
          realm: '/data',
          exclusive: false,
          passive: true,
          active: true,
          write: true,
          read: true,
        }),
        until('access.request-ok'),
      ],
    },
    { title: 'connection.close on channel 1', steps: [send('connection.close', BYE)] },
    { title: 'connection.open on channel 1', steps: [send('connection.open', { virtualHost: '$V' })] },
    { title: 'a heartbeat on channel 1', steps: [bytes(frame(8, 1, Buffer.alloc(0)))] },
    {
      title: 'a method of the server, with its content',
      steps: [
        send('basic.deliver', { consumerTag: 'ct', deliveryTag: 1, exchange: '', routingKey: '' }),
        method.header(1),
        method.body('x'),
      ],
    },
    {
      title: 'an answer of the server',
      steps: [send('queue.declare-ok', { queue: 'q', messageCount: 0, consumerCount: 0 })],
    },
    { title: 'a method that does not exist', steps: [method.raw(60 * 65_536 + 999, Buffer.alloc(0))] },
    { title: 'a class that does not exist', steps: [method.raw(99 * 65_536 + 10, Buffer.alloc(0))] },
    { title: 'tx.select', steps: [send('tx.select')] },
    { title: 'tx.commit', steps: [send('tx.commit')] },
    { title: 'tx.select on a channel with confirms', steps: [...confirm, send('tx.select')] },
    { title: 'confirm.select twice', steps: [...confirm, ...confirm] },
    {
      title: 'confirm.select with nowait',
      steps: [send('confirm.select', { nowait: true }), publish('yes'), until('basic.ack')],
    },
    {
      title: 'connection.close behind requests, in one write',
      steps: [
        together(
          send('queue.declare', { queue: QUEUE, passive: true }),
          send('basic.qos', { prefetchCount: 1 }),
          send('connection.close', BYE, 0),
        ),
        until('connection.close-ok'),
      ],
    },
  ],
};
