/**
 * AMQP 0-9-1 methods and tables, encoded and decoded by amqplib's own codec. The package does not export
 * these files, so they are loaded by path; the version is pinned, and a test round-trips every method. No
 * other file uses amqplib. A table key `__proto__` sets the decoded object's prototype: read tables with
 * `Object.hasOwn`.
 */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { LIMIT } from '../../../protocol/limits.ts';
import { connectionError, SilentClose } from './amqp-error.ts';
import { type ArgumentType, faultOf } from './extent.ts';
import { listOctets } from './octets.ts';

export type Fields = Record<string, unknown>;

interface Argument {
  name: string;
  type: ArgumentType;
}

/** Length of the arguments of basic.ack: the tag and a byte of bits. */
const ACK_BYTES = 9;

interface Definitions {
  constants: Record<string, number>;
  decode(id: number, payload: Buffer): Fields;
  encodeMethod(id: number, channel: number, fields: Fields): Buffer;
  encodeProperties(id: number, channel: number, size: number, fields: Fields): Buffer;
  info(id: number): { id: number; classId: number; methodId: number; name: string; args: Argument[] };
  [method: string]: unknown;
}

const require = createRequire(import.meta.url);
const library = dirname(require.resolve('amqplib'));
const definitions = require(join(library, 'lib', 'defs.js')) as Definitions;

/** The numeric id (class in the high half, method in the low half) of every method in use. */
export const METHOD = {
  connectionStart: 655370,
  connectionStartOk: 655371,
  connectionSecureOk: 655381,
  connectionTune: 655390,
  connectionTuneOk: 655391,
  connectionOpen: 655400,
  connectionOpenOk: 655401,
  connectionClose: 655410,
  connectionCloseOk: 655411,
  connectionBlocked: 655420,
  connectionUnblocked: 655421,
  connectionUpdateSecret: 655430,
  connectionUpdateSecretOk: 655431,
  channelOpen: 1310730,
  channelOpenOk: 1310731,
  channelFlow: 1310740,
  channelFlowOk: 1310741,
  channelClose: 1310760,
  channelCloseOk: 1310761,
  accessRequest: 1966090,
  accessRequestOk: 1966091,
  exchangeDeclare: 2621450,
  exchangeDeclareOk: 2621451,
  exchangeDelete: 2621460,
  exchangeBind: 2621470,
  exchangeUnbind: 2621480,
  queueDeclare: 3276810,
  queueDeclareOk: 3276811,
  queueBind: 3276820,
  queueBindOk: 3276821,
  queuePurge: 3276830,
  queuePurgeOk: 3276831,
  queueDelete: 3276840,
  queueDeleteOk: 3276841,
  queueUnbind: 3276850,
  queueUnbindOk: 3276851,
  basicQos: 3932170,
  basicQosOk: 3932171,
  basicConsume: 3932180,
  basicConsumeOk: 3932181,
  basicCancel: 3932190,
  basicCancelOk: 3932191,
  basicPublish: 3932200,
  basicDeliver: 3932220,
  basicGet: 3932230,
  basicGetOk: 3932231,
  basicGetEmpty: 3932232,
  basicAck: 3932240,
  basicReject: 3932250,
  basicRecoverAsync: 3932260,
  basicRecover: 3932270,
  basicRecoverOk: 3932271,
  basicNack: 3932280,
  confirmSelect: 5570570,
  confirmSelectOk: 5570571,
  txSelect: 5898250,
  txCommit: 5898260,
  txRollback: 5898270,
} as const;

/** The class id of basic in content headers; amqplib defines the basic properties under this id. */
export const BASIC_CLASS = 60;
const PROPERTIES = definitions.info(BASIC_CLASS).args;

/** Throws an AmqpError if the arguments do not decode or nest tables too deeply. */
export function decodeMethod(id: number, args: Buffer): Fields {
  if (id === METHOD.basicAck && args.length === ACK_BYTES) return readAck(args);
  // Also rejects short strings that are not UTF-8: replies repeat names of queues and tags, and a name that
  // is not UTF-8 could become too long when it is encoded again.
  check(definitions.info(id).args, args, { from: 0, isMethod: true }, id);
  return definitions.decode(id, args);
}

/** Decodes basic.ack without the codec, which is faster: one ack arrives for each delivery. */
function readAck(args: Buffer): Fields {
  const deliveryTag = args.readUInt32BE(0) * 2 ** 32 + args.readUInt32BE(4);
  return { deliveryTag, multiple: (args.readUInt8(8) & 1) !== 0 };
}

function check(
  args: readonly Argument[],
  bytes: Buffer,
  how: { from: number; isMethod: boolean },
  method: number,
): void {
  const types = args.map(({ type }) => type);
  const fault = faultOf(types, bytes, { ...how, maxDepth: LIMIT.amqpTableDepth });
  if (fault === 'deep') throw connectionError(502, `field table deeper than ${LIMIT.amqpTableDepth}`, method);
  if (fault === 'text') throw connectionError(502, 'a short string is not UTF-8', method);
  if (fault === 'short' || fault === 'long') throw undecodable(bytes, method);
}

/** The error for arguments that do not decode; the text contains their bytes. */
export function undecodable(bytes: Buffer, method: number): Error {
  return connectionError(501, `cannot decode ${listOctets(bytes)}`, method);
}

/** Decodes the method in a frame's payload; an unknown method closes the socket without a frame. */
export function readMethod(payload: Buffer): { method: number; fields: Fields } {
  const method = payload.readUInt32BE(0);
  if (!isKnownMethod(method)) throw new SilentClose(`unknown method ${method}`);
  return { method, fields: decodeMethod(method, payload.subarray(4)) };
}

export function encodeMethod(id: number, channel: number, fields: Fields): Buffer {
  return definitions.encodeMethod(id, channel, fields);
}

/** Encodes a complete content header frame. */
export function encodeProperties(channel: number, bodySize: number, fields: Fields): Buffer {
  return definitions.encodeProperties(BASIC_CLASS, channel, bodySize, fields);
}

/** Decodes flags and properties of a content header (payload from offset 12). Throws like `decodeMethod`. */
export function decodeProperties(flagsAndFields: Buffer): Fields {
  if (flagsAndFields.length < 2) throw connectionError(501, 'cannot decode', METHOD.basicPublish);
  const flags = flagsAndFields.readUInt16BE(0);
  // One bit per property, from the highest bit down; set if the property is present.
  const args = PROPERTIES.filter((_property, index) => (flags & (0x8000 >>> index)) !== 0);
  check(args, flagsAndFields, { from: 2, isMethod: false }, METHOD.basicPublish);
  return definitions.decode(BASIC_CLASS, flagsAndFields);
}

/** Whether a method id exists. An unknown one closes the socket without a frame, as in RabbitMQ. */
export function isKnownMethod(id: number): boolean {
  try {
    // Smaller ids are content classes (of properties), not methods.
    return id > 0xffff && definitions.info(id) !== undefined;
  } catch {
    return false;
  }
}
