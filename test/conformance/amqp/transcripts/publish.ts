/** basic.publish: permissions, order, and confirms. */
import {
  acceptClose,
  acked,
  BYE,
  confirm,
  confirmed,
  FILLED,
  filled,
  type Group,
  known,
  opened,
  PARTNER,
  type Publishing,
  publish,
  type Step,
  send,
  together,
  transcript,
  until,
} from '../transcript.ts';

const TOPIC: Publishing = { exchange: 'amq.topic', routingKey: 'x' };
const FOREIGN: Publishing = { routingKey: 'beta.command.mode' };
const refused = (title: string, options: Publishing) =>
  transcript(title, confirm, publish('no', options), until('channel.close'));
/** What a refused publish and these steps cause in one write. */
const withRefused = (title: string, step: Step, ...answers: string[]) =>
  transcript(title, together(publish('no', TOPIC), step), until('channel.close', ...answers));
/** The channel opens again, and the filled queue shows what was stored. */
const stored = [...opened(), ...known(FILLED)];

export const publishing: Group = {
  name: 'publish',
  rights: PARTNER,
  transcripts: [
    transcript('a permitted publish is confirmed', confirmed('yes')),
    transcript('a publish without confirms is not answered', publish('yes')),
    transcript('a mandatory publish that reaches a queue', confirmed('yes', { mandatory: true })),
    transcript(
      'each of three publishes is confirmed',
      confirm,
      together(publish('a'), publish('b'), publish('c')),
      acked,
      known(FILLED),
    ),
    refused('a publish to another exchange', TOPIC),
    refused('a publish to the default exchange', { exchange: '', routingKey: 'vcp.$U.event.alarm' }),
    refused('a publish to an exchange that is not there', { exchange: 'nope' }),
    refused('a publish under the key of another organization', FOREIGN),
    refused('a publish under the key of a longer slug', { routingKey: '$U2.command.mode' }),
    refused('a publish of an event', { routingKey: '$U.event.alarm' }),
    refused('a publish under an unknown key', { routingKey: '$U.command.nothing' }),
    refused('a publish under an empty key', { routingKey: '' }),
    refused('a publish under a wildcard', { routingKey: '$U.command.*' }),
    refused('a mandatory publish that is not permitted', { ...FOREIGN, mandatory: true }),
    transcript(
      'a publish that is not permitted, without confirms',
      publish('no', FOREIGN),
      until('channel.close'),
    ),
    transcript('an immediate publish', confirm, publish('no', { immediate: true })),
    filled(
      [],
      'publishes before a refused one are confirmed, publishes after it are ignored',
      confirm,
      together(publish('a'), publish('b'), publish('no', TOPIC), publish('c'), publish('d')),
      until('channel.close'),
    ),
    filled(
      [],
      'a publish before a refused one is stored, a publish after it in the same write is not',
      confirmed('a'),
      together(publish('no', TOPIC), publish('b')),
      acceptClose,
      stored,
    ),
    withRefused(
      'a refused publish and a close of its channel in one write',
      send('channel.close', BYE),
      'channel.close-ok',
    ),
    withRefused(
      'a refused publish and a close of the connection in one write',
      send('connection.close', BYE, 0),
      'connection.close-ok',
    ),
    withRefused('two refused publishes in one write', publish('no', FOREIGN)),
    withRefused(
      'a refused publish and a declaration in one write',
      send('queue.declare', { queue: FILLED, passive: true }),
    ),
    filled(
      [],
      'a declaration that is refused and a publish in one write',
      confirm,
      together(send('queue.declare', { queue: 'nope', passive: true }), publish('ignored')),
      acceptClose,
      stored,
    ),
    filled(
      [],
      'a publish and a close of its channel in one write',
      together(publish('yes'), send('channel.close', BYE)),
      until('channel.close-ok'),
      stored,
    ),
    transcript(
      'a publish on another channel after a refused one',
      opened(2),
      confirm,
      together(publish('no', { ...TOPIC, channel: 2 }), publish('yes')),
      acked,
    ),
  ],
};
