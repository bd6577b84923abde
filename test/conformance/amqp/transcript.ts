/**
 * A transcript: the steps of a raw client. The expected answers are in answers.txt, under the transcript's
 * title.
 */
import { BYE, type Fields, frame, headerFrame, rawMethodFrame } from '#support/bridge-amqp-frames.ts';

export { BYE };

import type { HandshakeOptions } from '#support/bridge-amqp-peer.ts';
import type { Rights } from './broker.ts';
import type { Stage } from './stage.ts';

export type Step = (stage: Stage) => Promise<void> | void;
/** Steps and lists of steps, in their order. */
export type Steps = (Step | readonly Step[])[];

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

export function transcript(title: string, ...steps: Steps): Transcript {
  return { title, steps: steps.flat() };
}

/** A transcript that begins with these bodies in the filled queue, one character each if they are a text. */
export function filled(bodies: Iterable<string>, title: string, ...steps: Steps): Transcript {
  return { ...transcript(title, ...steps), fill: [...bodies] };
}

export const QUEUE = 'vcp.$U.event.alarm';
/** The queue to fill. With us, malformed publishes go there; RabbitMQ is configured to route them there. */
export const FILLED = 'vcp.$U.dead-letter';
export const KEY = '$U.command.mode';

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
export function together(...steps: Steps): Step {
  return (stage) => stage.together(steps.flat());
}

/** Waits for the next frame of that name, for instance `channel.close` or `header`. */
export function until(...names: string[]): Step {
  return async (stage) => {
    for (const name of names) await stage.until(name);
  };
}

/** Sends a method and waits for its answer. */
export function request(method: string, fields: Fields = {}, channel = 1): Step[] {
  return [send(method, fields, channel), until(`${method}-ok`)];
}

/** Waits for the channel's close and answers it. */
export const acceptClose: Step = (stage) => stage.acceptClose();

/** Closes the connection in order. */
export const leave: Step = (stage) => stage.leave();

/** Steps of a second connection of the same user. */
export function beside(...steps: Steps): Step {
  return async (stage) => {
    const other = await stage.beside();
    for (const step of steps.flat()) await step(other);
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

export const confirm = request('confirm.select');
export const acked = until('basic.ack');
export const closed = request('channel.close', BYE);
export const opened = (channel = 1) => request('channel.open', {}, channel);

/** A publish with confirms, and its confirm. */
export function confirmed(body: string | Buffer, options: Publishing = {}): Step[] {
  return [...confirm, publish(body, options), acked];
}

/** Declares passively and waits. */
export const known = (queue = QUEUE) => request('queue.declare', { queue, passive: true });

export function consume(fields: Fields = {}, channel = 1): Step[] {
  return request('basic.consume', { queue: FILLED, consumerTag: 'ct', ...fields }, channel);
}

/** Gets a message and waits for all of it. */
export function get(fields: Fields = {}): Step[] {
  return [send('basic.get', { queue: FILLED, ...fields }), until('basic.get-ok', 'header', 'body')];
}

/** Gets no message from an empty queue. */
export function getNone(queue = FILLED): Step[] {
  return [send('basic.get', { queue }), until('basic.get-empty')];
}

export const method = {
  /** basic.publish to `vcp`, without its content. */
  publish: () => send('basic.publish', { exchange: 'vcp', routingKey: KEY }),
  header: (size: number, properties: Fields = {}, channel = 1) =>
    bytes(headerFrame(size, properties, channel)),
  body: (text: string, channel = 1) => bytes(frame(3, channel, Buffer.from(text))),
  raw: (id: number, args: Buffer, channel = 1) => bytes(rawMethodFrame(id, args, channel)),
};
