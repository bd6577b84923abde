/**
 * Assembles a publish from its method, header and body frames, with one function per frame type. The properties
 * are passed on as the bytes that arrived; `checkProperties` decodes them only to check some.
 */
import { LIMIT } from '../../protocol/limits.ts';
import { type AmqpError, channelError, connectionError } from './wire/amqp-error.ts';
import { BASIC_CLASS, decodeProperties, METHOD, undecodable } from './wire/codec.ts';

/**
 * The flag of the headers table. This property is always decoded, because only a table can be malformed in a
 * way that harms a receiver.
 */
const HEADERS_FLAG = 0x2000;
const EXPIRATION_FLAG = 0x0100;
const USER_ID_FLAG = 0x0010;
/** Offset of the properties: after class, weight and body size. */
const PROPERTIES_AT = 12;
/** RabbitMQ's maximum: ten years. */
const MAX_EXPIRATION_MS = 315_360_000_000n;

export interface PublishMethod {
  exchange: string;
  routingKey: string;
  mandatory: boolean;
}

/** A complete publish. */
export interface Content extends PublishMethod {
  /** Base64 of the flags and fields, as received. */
  properties: string;
  body: Buffer;
}

/** Decodes basic.publish by hand: reserved short, two short strings, bits. Throws if it does not decode. */
export function readPublish(args: Buffer): PublishMethod {
  try {
    return readArguments(args);
  } catch (error) {
    throw error instanceof RangeError ? undecodable(args, METHOD.basicPublish) : error;
  }
}

function readArguments(args: Buffer): PublishMethod {
  const exchangeEnd = 3 + args.readUInt8(2);
  const routingKeyStart = exchangeEnd + 1;
  const routingKeyEnd = routingKeyStart + args.readUInt8(exchangeEnd);
  const bits = args.readUInt8(routingKeyEnd);
  if ((bits & 2) !== 0) throw connectionError(540, 'immediate=true', METHOD.basicPublish);
  return {
    exchange: args.toString('utf8', 3, exchangeEnd),
    routingKey: args.toString('utf8', routingKeyStart, routingKeyEnd),
    mandatory: (bits & 1) !== 0,
  };
}

export class ContentAssembly {
  readonly #method: PublishMethod;
  #properties: string | undefined;
  /**
   * Allocated with the announced size, so that a body in many small frames needs as much memory as one in a
   * single frame.
   */
  #body = Buffer.alloc(0);
  #received = 0;

  constructor(method: PublishMethod) {
    this.#method = method;
  }

  /** The error for a frame that interrupts the content. */
  interrupted(): AmqpError {
    if (this.#properties !== undefined) return unexpected('body', 'non content body frame');
    return unexpected('header for class 60', 'non content header frame');
  }

  /** Returns the finished publish if the header announces an empty body. */
  takeHeader(payload: Buffer): Content | undefined {
    if (this.#properties !== undefined) throw this.interrupted();
    const classId = payload.readUInt16BE(0);
    const weight = payload.readUInt16BE(2);
    if (weight !== 0) throw this.interrupted();
    if (classId !== BASIC_CLASS) throw unexpected('header for class 60', `one for class ${classId}`);
    if (payload.length < PROPERTIES_AT + 2)
      throw connectionError(502, 'content header does not decode', METHOD.basicPublish);
    const size = payload.readBigUInt64BE(4);
    const properties = payload.subarray(PROPERTIES_AT);
    if (properties.length > LIMIT.amqpPropertiesBytes) {
      throw connectionError(
        502,
        `properties are longer than ${LIMIT.amqpPropertiesBytes} bytes`,
        METHOD.basicPublish,
      );
    }
    if (size > BigInt(LIMIT.amqpBodyBytes)) {
      // This error closes the channel, so the body frames that follow are ignored.
      const what = `message size ${size} is larger than configured max size ${LIMIT.amqpBodyBytes}`;
      throw channelError(311, what, METHOD.basicPublish);
    }
    this.#properties = properties.toString('base64');
    this.#body = Buffer.allocUnsafeSlow(Number(size));
    return this.#finished();
  }

  /** Returns the finished publish if this body frame completes it. */
  takeBody(payload: Buffer): Content | undefined {
    const received = this.#received + payload.length;
    if (this.#properties === undefined || received > this.#body.length) throw this.interrupted();
    payload.copy(this.#body, this.#received);
    this.#received = received;
    return this.#finished();
  }

  #finished(): Content | undefined {
    if (this.#received < this.#body.length || this.#properties === undefined) return undefined;
    return { ...this.#method, properties: this.#properties, body: this.#body };
  }
}

/** Decodes the properties only if one is set that the broker has to check. */
export function checkProperties({ properties }: Content, username: string): void {
  const flags = Buffer.from(properties.slice(0, 4), 'base64');
  if ((flags.readUInt16BE(0) & (HEADERS_FLAG | EXPIRATION_FLAG | USER_ID_FLAG)) === 0) return;
  const { userId, expiration } = decodeProperties(Buffer.from(properties, 'base64'));
  if (userId !== undefined && userId !== username) {
    const what = `user_id property set to '${userId}' but authenticated user was '${username}'`;
    throw channelError(406, what, METHOD.basicPublish);
  }
  const wrong = expiration === undefined ? undefined : wrongExpiration(String(expiration));
  if (wrong) throw channelError(406, `invalid expiration '${expiration}': ${wrong}`, METHOD.basicPublish);
}

/** Returns what is wrong with an expiration, as the Erlang term in RabbitMQ's text. */
function wrongExpiration(text: string): string | undefined {
  const [, digits, rest = ''] = /^([+-]?\d+)(.*)$/s.exec(text) ?? [];
  if (digits === undefined) return 'no_integer';
  if (rest !== '') return `{leftover_string,"${rest}"}`;
  const value = BigInt(digits.replace('+', ''));
  if (value < 0n) return `{value_negative,${value}}`;
  return value > MAX_EXPIRATION_MS ? `{value_too_large,${value}}` : undefined;
}

/** The error for a frame that is not the one that must follow in the content. */
function unexpected(expected: string, got: string): AmqpError {
  return connectionError(505, `expected content ${expected}, got ${got} instead`, METHOD.basicPublish);
}

/** The error for a content frame where a method frame is expected. */
export function noMethodFrame(): AmqpError {
  return connectionError(505, 'expected method frame, got non method frame instead');
}
