/**
 * Random frames of a client. Each kind of action writes one frame or more. Most actions are valid, so that a
 * connection lives long enough to reach many states; each of the others has a different fault.
 */
import { encodeMethod, type Fields, METHOD } from '../../bridge/amqp/wire/codec.ts';
import { Chance } from './chance.ts';
import { longOf, shortOf, table, uint32 } from './table.ts';

export const CHANNELS = [1, 2, 3];
const FRAME_MAX_PAYLOAD = 131_072;
const QUEUES = [
  'vcp.acme.event.alarm',
  'vcp.acme.dead-letter',
  '',
  'mine',
  'mine\r\n',
  'vcp.beta.event.alarm',
  'amq.gen-x',
];
const PATTERNS = ['acme.event.alarm', 'acme.event.#', '', '#', 'beta.event.*'];
const KEYS = [
  'acme.command.mode',
  'acme.command.emergency',
  'acme.command.setpoint',
  'acme2.command.mode',
  '#',
];
const TAGS = ['ct', 'one', 'two', ''];
const SIZES = [0, 1, 255, 256, 4_095, 4_096];
const ANNOUNCED = [
  0,
  1,
  255,
  256,
  FRAME_MAX_PAYLOAD - 1,
  FRAME_MAX_PAYLOAD,
  FRAME_MAX_PAYLOAD + 1,
  2 ** 31,
  2 ** 32 - 1,
];
const ALL_METHODS = Object.values(METHOD);

export function frame(type: number, channel: number, payload: Buffer, end = 0xce): Buffer {
  const bytes = Buffer.allocUnsafe(payload.length + 8);
  bytes.writeUInt8(type, 0);
  bytes.writeUInt16BE(channel, 1);
  bytes.writeUInt32BE(payload.length, 3);
  payload.copy(bytes, 7);
  bytes.writeUInt8(end, 7 + payload.length);
  return bytes;
}

function methodFrame(method: number, channel: number, ...args: Buffer[]): Buffer {
  return frame(1, channel, Buffer.concat([uint32(method), ...args]));
}

type Action = (chance: Chance, channel: number) => Buffer[];

function method(id: number, fields: (chance: Chance) => Fields): Action {
  return (chance, channel) => [encodeMethod(id, channel, fields(chance))];
}

const ticket = Buffer.alloc(2);

const publish: Action = (chance, channel) => {
  const size = chance.pick(SIZES);
  const bits = Buffer.from([chance.isOneIn(100) ? 2 : chance.below(2)]);
  const exchange = shortOf(chance, chance.isOneIn(20) ? ['', 'amq.topic', 'nope'] : ['vcp']);
  const head = methodFrame(METHOD.basicPublish, channel, ticket, exchange, shortOf(chance, KEYS), bits);
  return [head, ...content(chance, channel, size)];
};

/** Content header and bodies: usually valid; sometimes the announced size or the class is wrong. */
function content(chance: Chance, channel: number, size: number): Buffer[] {
  const announced = chance.isOneIn(150) ? chance.pick([size + 1, 2 ** 18, 2 ** 18 + 1, 2 ** 32]) : size;
  const fixed = Buffer.alloc(12);
  fixed.writeUInt16BE(chance.isOneIn(300) ? chance.below(65_536) : 60, 0);
  fixed.writeBigUInt64BE(BigInt(announced), 4);
  const frames = [frame(2, channel, Buffer.concat([fixed, properties(chance)]))];
  const body = Buffer.alloc(size, chance.pick(['{', '\xff', 'é']));
  const pieces = chance.isOneIn(3) ? 1 + chance.below(4) : 1;
  for (let at = 0, left = pieces; at < size; left--) {
    const end = left <= 1 ? size : at + chance.below(size - at + 1);
    frames.push(frame(3, channel, body.subarray(at, end)));
    at = end;
  }
  return frames;
}

const SHORT_PROPERTIES = new Set([0, 1, 5, 6, 7, 8, 10, 11, 12, 13]);

/**
 * Property flags and the properties that they announce, in order; sometimes all flags, or data that does not
 * match them.
 */
export function properties(chance: Chance): Buffer {
  const kind = chance.below(200);
  const flags =
    kind === 0 ? 0xffff : kind < 50 ? 0 : (1 << (2 + chance.below(14))) | (1 << (2 + chance.below(14)));
  const parts: Buffer[] = [Buffer.from([flags >>> 8, flags & 0xff])];
  for (let index = 0; index < 14; index++) {
    if ((flags & (0x8000 >>> index)) === 0) continue;
    if (SHORT_PROPERTIES.has(index)) parts.push(shortOf(chance, index === 11 ? ['acme'] : ['60000', 'text']));
    else if (index === 2) parts.push(table(chance));
    else parts.push(chance.bytes(index === 9 ? 8 : 1));
  }
  const whole = Buffer.concat(parts);
  if (kind === 1) return Buffer.concat([whole, chance.bytes(chance.pick([1, 16_384, 16_385]))]);
  return kind === 2 ? whole.subarray(0, chance.below(whole.length)) : whole;
}

const declare: Action = (chance, channel) => {
  const bits = Buffer.from([chance.isOneIn(3) ? chance.below(32) : 1]);
  return [methodFrame(METHOD.queueDeclare, channel, ticket, shortOf(chance, QUEUES), bits, table(chance))];
};

/** queue.bind or queue.unbind; unbind has no nowait bit. */
const bind: Action = (chance, channel) => {
  const id = chance.pick([METHOD.queueBind, METHOD.queueUnbind]);
  const exchange = shortOf(chance, chance.isOneIn(8) ? ['', 'amq.topic', 'nope'] : ['vcp']);
  const names = [shortOf(chance, QUEUES), exchange, shortOf(chance, PATTERNS)];
  const bits = id === METHOD.queueBind ? [Buffer.from([chance.below(2)])] : [];
  return [methodFrame(id, channel, ticket, ...names, ...bits, table(chance))];
};

const consume: Action = (chance, channel) => {
  const names = [shortOf(chance, QUEUES), shortOf(chance, TAGS)];
  const bits = Buffer.from([chance.below(16) & ~1]);
  return [methodFrame(METHOD.basicConsume, channel, ticket, ...names, bits, table(chance))];
};

const settle: Action = (chance, channel) => {
  const id = chance.pick([METHOD.basicAck, METHOD.basicNack, METHOD.basicReject]);
  const deliveryTag = chance.isOneIn(10) ? chance.pick([0, 1, 2 ** 31, 2 ** 53 - 1]) : 1 + chance.below(4);
  return [
    encodeMethod(id, channel, { deliveryTag, multiple: chance.isOneIn(2), requeue: chance.isOneIn(2) }),
  ];
};

/** Actions that are valid. */
const USUAL: readonly Action[] = [
  publish,
  publish,
  publish,
  publish,
  declare,
  bind,
  consume,
  settle,
  method(METHOD.queuePurge, (chance) => ({ queue: chance.pick(QUEUES), nowait: chance.isOneIn(3) })),
  method(METHOD.queueDelete, (chance) => ({
    queue: chance.pick(QUEUES),
    ifUnused: chance.isOneIn(3),
    ifEmpty: chance.isOneIn(3),
    nowait: chance.isOneIn(3),
  })),
  method(METHOD.basicGet, (chance) => ({ queue: chance.pick(QUEUES), noAck: chance.isOneIn(2) })),
  method(METHOD.basicQos, (chance) => ({ prefetchCount: chance.below(65_536), global: chance.isOneIn(2) })),
  method(METHOD.basicCancel, (chance) => ({ consumerTag: chance.pick(TAGS), nowait: chance.isOneIn(3) })),
  method(METHOD.basicRecover, () => ({ requeue: true })),
  method(METHOD.confirmSelect, (chance) => ({ nowait: chance.isOneIn(2) })),
  method(METHOD.exchangeDeclare, () => ({ exchange: 'vcp', passive: true })),
  method(METHOD.accessRequest, () => ({})),
  method(METHOD.channelFlow, () => ({ active: true })),
  () => [frame(8, 0, Buffer.alloc(0))],
];

/** Actions that are invalid or rare. */
const BROKEN: readonly Action[] = [
  (chance, channel) => [frame(chance.below(256), channel, chance.bytes(chance.below(20)))],
  (chance, channel) => [frame(1, channel, uint32(METHOD.basicQos), chance.below(256))],
  // A payload length that does not match the payload.
  (chance, channel) => {
    const bytes = frame(1 + chance.below(3), channel, chance.bytes(chance.below(8)));
    bytes.writeUInt32BE(chance.pick(ANNOUNCED), 3);
    return [bytes];
  },
  (chance, channel) => [
    frame(3, channel, Buffer.alloc(chance.pick([FRAME_MAX_PAYLOAD - 8, FRAME_MAX_PAYLOAD]))),
  ],
  (chance, channel) => [methodFrame(chance.below(2 ** 32), channel, chance.bytes(chance.below(40)))],
  // Any method with any arguments, on any channel.
  (chance) => {
    const channel = chance.pick([0, 1, 4, 255, 256, 65_535]);
    return [methodFrame(chance.pick(ALL_METHODS), channel, chance.bytes(chance.below(60)))];
  },
  (chance, channel) => content(chance, channel, chance.pick(SIZES)),
  // A content that is not finished, or that the next frame interrupts.
  (chance, channel) => publish(chance, channel).slice(0, 1 + chance.below(2)),
  (chance, channel) => mutated(chance, channel),
  (chance, channel) => mutated(chance, channel),
  (chance, channel) => {
    const [first = Buffer.alloc(0)] = usual(chance, channel);
    return [first.subarray(0, chance.below(first.length))];
  },
  (chance) => [chance.bytes(chance.pick([1, 7, 8, 100]))],
  method(METHOD.connectionClose, () => ({ replyCode: 200, replyText: '', classId: 0, methodId: 0 })),
  method(METHOD.channelClose, () => ({ replyCode: 200, replyText: '', classId: 0, methodId: 0 })),
  (chance) => [
    methodFrame(METHOD.connectionUpdateSecret, 0, longOf(chance, chance.bytes(4), 3), Buffer.from([0])),
  ],
  (chance) => [methodFrame(METHOD.channelOpen, chance.below(65_536), Buffer.from([0]))],
];

function usual(chance: Chance, channel: number): Buffer[] {
  return chance.pick(USUAL)(chance, channel);
}

/** Valid frames with some bytes changed. */
function mutated(chance: Chance, channel: number): Buffer[] {
  return usual(chance, channel).flatMap((whole) => damaged(chance, whole));
}

/**
 * Returns the frame with some bytes changed, its frame header included or not; sometimes also cut short or
 * repeated.
 */
export function damaged(chance: Chance, whole: Buffer): Buffer[] {
  const bytes = Buffer.from(whole);
  const from = chance.isOneIn(4) ? 0 : 7;
  for (let count = 1 + chance.below(4); count > 0 && bytes.length > from + 1; count--) {
    bytes[from + chance.below(bytes.length - from - 1)] = chance.pick([
      0,
      1,
      127,
      128,
      255,
      chance.below(256),
    ]);
  }
  const kind = chance.below(20);
  if (kind === 0) return [bytes, bytes];
  return [kind === 1 ? bytes.subarray(0, chance.below(bytes.length)) : bytes];
}

/** The frames of one action; one action in `oneIn` is broken. */
export function framesOf(seed: number, oneIn = 40): Buffer[] {
  const chance = new Chance(seed);
  const channel = chance.pick(CHANNELS);
  return chance.isOneIn(oneIn) ? chance.pick(BROKEN)(chance, channel) : usual(chance, channel);
}
