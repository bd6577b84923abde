/**
 * A transcript: the steps of a raw client. The expected answers are in answers.txt, under the transcript's
 * title.
 */
import type { Fields } from '#support/bridge-amqp-frames.ts';
import { frame, headerFrame, rawMethodFrame } from '#support/bridge-amqp-frames.ts';
import type { HandshakeOptions } from '#support/bridge-amqp-peer.ts';
import type { Rights } from './broker.ts';
import type { Stage } from './stage.ts';

export type Step = (stage: Stage) => Promise<void> | void;

export interface Transcript {
  title: string;
  /** Where the transcript begins: after channel.open-ok on channel 1 by default. */
  from?: 'socket' | 'connection' | 'channel';
  /** How the first connection is opened. */
  hello?: HandshakeOptions;
  /** Bodies that wait in `vcp.$U.dead-letter`, which holds nothing else. */
  fill?: string[];
  steps: Step[];
  /** The outcome includes the server's description of itself. */
  introduced?: boolean;
}

/**
 * Transcripts that share a vhost and run one after another. With `atOnce`, the given number runs
 * concurrently, because they wait and share nothing.
 */
export interface Group {
  name: string;
  rights: Rights;
  atOnce?: number;
  /** Connection limit of the vhost; our limit is ten for each key. */
  maxConnections?: number;
  transcripts: Transcript[];
}

export const QUEUE = 'vcp.$U.event.alarm';
/** The queue to fill. With us, malformed publishes go there; RabbitMQ is configured to route them there. */
export const FILLED = 'vcp.$U.dead-letter';
export const KEY = '$U.command.mode';
export const BYE = { replyCode: 200, replyText: 'bye', classId: 0, methodId: 0 };

/**
 * A partner's rights with us, as RabbitMQ permissions. partner-queues.ts has the rights for partner queues
 * [C-6.2].
 */
export const PARTNER: Rights = {
  configure: '^$',
  write: '^vcp$',
  read: '^(vcp\\.$U\\.(event\\.|dead-letter$)|(?!vcp$|vcp\\.|amq\\.))',
};

export function send(method: string, fields: Fields = {}, channel = 1): Step {
  return (stage) => stage.send(method, fields, channel);
}

/** Frames, valid or invalid, in one write. */
export function bytes(...frames: Buffer[]): Step {
  return (stage) => stage.write(...frames);
}

/** Steps whose frames are sent in one write. */
export function together(...steps: Step[]): Step {
  return (stage) => stage.together(steps);
}

/** Waits for the next frame of that name, for instance `channel.close` or `header`. */
export function until(...names: string[]): Step {
  return async (stage) => {
    for (const name of names) await stage.until(name);
  };
}

/** Waits for the channel's close and answers it. */
export const acceptClose: Step = (stage) => stage.acceptClose();

/** Steps of a second connection of the same user. */
export function beside(...steps: Step[]): Step {
  return async (stage) => {
    const other = await stage.beside();
    for (const step of steps) await step(other);
  };
}

export interface Publishing {
  channel?: number;
  properties?: Fields;
  exchange?: string;
  routingKey?: string;
  mandatory?: boolean;
  immediate?: boolean;
}

export function publish(body: string | Buffer, options: Publishing = {}): Step {
  return (stage) => stage.publish(body, options);
}

export const confirm = [send('confirm.select'), until('confirm.select-ok')];

/** Declares passively and waits. */
export function known(queue = QUEUE): Step[] {
  return [send('queue.declare', { queue, passive: true }), until('queue.declare-ok')];
}

export function consume(fields: Fields = {}, channel = 1): Step[] {
  const wanted = { queue: FILLED, consumerTag: 'ct', ...fields };
  return [send('basic.consume', wanted, channel), until('basic.consume-ok')];
}

/** Gets a message and waits for all of it. */
export function get(fields: Fields = {}): Step[] {
  return [send('basic.get', { queue: FILLED, ...fields }), until('basic.get-ok', 'header', 'body')];
}

export const method = {
  /** basic.publish to `vcp`, without its content. */
  publish: () => send('basic.publish', { exchange: 'vcp', routingKey: KEY }),
  header: (size: number, properties: Fields = {}, channel = 1) =>
    bytes(headerFrame(size, properties, channel)),
  body: (text: string, channel = 1) => bytes(frame(3, channel, Buffer.from(text))),
  raw: (id: number, args: Buffer, channel = 1) => bytes(rawMethodFrame(id, args, channel)),
};
