/** basic.publish: permissions, order, and confirms. */
import {
  BYE,
  confirm,
  FILLED,
  type Group,
  known,
  PARTNER,
  type Publishing,
  publish,
  send,
  together,
  until,
} from '../transcript.ts';

const acked = until('basic.ack');
const TOPIC: Publishing = { exchange: 'amq.topic', routingKey: 'x' };
const FOREIGN: Publishing = { routingKey: 'beta.command.mode' };
const refused = (title: string, options: Publishing) => ({
  title,
  steps: [...confirm, publish('no', options), until('channel.close')],
});

export const publishing: Group = {
  name: 'publish',
  rights: PARTNER,
  transcripts: [
    { title: 'a publish that may be is confirmed', steps: [...confirm, publish('yes'), acked] },
    { title: 'a publish without confirms is not answered', steps: [publish('yes')] },
    {
      title: 'a mandatory publish that reaches a queue',
      steps: [...confirm, publish('yes', { mandatory: true }), acked],
    },
    {
      title: 'three publishes are confirmed each',
      steps: [...confirm, together(publish('a'), publish('b'), publish('c')), acked, ...known(FILLED)],
    },
    refused('a publish to another exchange', TOPIC),
    refused('a publish to the default exchange', { exchange: '', routingKey: 'vcp.$U.event.alarm' }),
    refused('a publish to an exchange that is not there', { exchange: 'nope' }),
    refused('a publish under the key of another organization', FOREIGN),
    refused('a publish under the key of a longer slug', { routingKey: '$U2.command.mode' }),
    refused('a publish of an event', { routingKey: '$U.event.alarm' }),
    refused('a publish under an unknown key', { routingKey: '$U.command.nothing' }),
    refused('a publish under an empty key', { routingKey: '' }),
    refused('a publish under a wildcard', { routingKey: '$U.command.*' }),
    refused('a mandatory publish that may not be', { ...FOREIGN, mandatory: true }),
    {
      title: 'a publish that may not be, without confirms',
      steps: [publish('no', FOREIGN), until('channel.close')],
    },
    { title: 'an immediate publish', steps: [...confirm, publish('no', { immediate: true })] },
    {
      title: 'publishes before a refused one are confirmed, publishes after it are ignored',
      fill: [],
      steps: [
        ...confirm,
        together(publish('a'), publish('b'), publish('no', TOPIC), publish('c'), publish('d')),
        until('channel.close'),
      ],
    },
    {
      title: 'what was taken of a write with a refused publish in it',
      fill: [],
      steps: [
        ...confirm,
        publish('a'),
        acked,
        together(publish('no', TOPIC), publish('b')),
        (stage) => stage.acceptClose(),
        send('channel.open'),
        until('channel.open-ok'),
        ...known(FILLED),
      ],
    },
    {
      title: 'a refused publish and a close of its channel in one write',
      steps: [
        together(publish('no', TOPIC), send('channel.close', BYE)),
        until('channel.close', 'channel.close-ok'),
      ],
    },
    {
      title: 'a refused publish and a close of the connection in one write',
      steps: [
        together(publish('no', TOPIC), send('connection.close', BYE, 0)),
        until('channel.close', 'connection.close-ok'),
      ],
    },
    {
      title: 'two refused publishes in one write',
      steps: [together(publish('no', TOPIC), publish('no', FOREIGN)), until('channel.close')],
    },
    {
      title: 'a refused publish and a declaration in one write',
      steps: [
        together(publish('no', TOPIC), send('queue.declare', { queue: FILLED, passive: true })),
        until('channel.close'),
      ],
    },
    {
      title: 'a declaration that is refused and a publish in one write',
      fill: [],
      steps: [
        ...confirm,
        together(send('queue.declare', { queue: 'nope', passive: true }), publish('ignored')),
        (stage) => stage.acceptClose(),
        send('channel.open'),
        until('channel.open-ok'),
        ...known(FILLED),
      ],
    },
    {
      title: 'a publish and a close of its channel in one write',
      fill: [],
      steps: [
        together(publish('yes'), send('channel.close', BYE)),
        until('channel.close-ok'),
        send('channel.open'),
        until('channel.open-ok'),
        ...known(FILLED),
      ],
    },
    {
      title: 'a publish on another channel behind a refused one',
      steps: [
        send('channel.open', {}, 2),
        until('channel.open-ok'),
        ...confirm,
        together(publish('no', { ...TOPIC, channel: 2 }), publish('yes')),
        acked,
      ],
    },
  ],
};
