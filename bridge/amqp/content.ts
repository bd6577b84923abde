/**
 * A publish being assembled: method, header, bodies. Two functions, one per frame type, each saying what state comes
 * next. The properties are passed on as bytes, unread.
 */
import { LIMIT } from '../../protocol/limits.ts';
import { type AmqpError, channelError, connectionError } from './wire/amqp-error.ts';
import { decodeProperties, METHOD } from './wire/codec.ts';

/** The bit that says that a headers table follows: the one property that can be hostile, so it is read. */
const HEADERS_FLAG = 0x2000;
const EXPIRATION_FLAG = 0x0100;
const USER_ID_FLAG = 0x0010;

export interface PublishMethod {
  exchange: string;
  routingKey: string;
  mandatory: boolean;
}

/** A publish that is whole. */
export interface Content extends PublishMethod {
  /** Base64 of the flags and fields, as they came. */
  properties: string;
  body: Buffer;
}

/** basic.publish by hand: reserved short, two short strings, bits. Throws when it does not decode. */
export function readPublish(args: Buffer): PublishMethod {
  try {
    return readArguments(args);
  } catch (error) {
    throw error instanceof RangeError ? connectionError(501, 'cannot decode', METHOD.basicPublish) : error;
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
  readonly #username: string;
  #properties: string | undefined;
  /** Of the announced size: many small frames cost no more than one. */
  #body = Buffer.alloc(0);
  #received = 0;

  constructor(method: PublishMethod, username: string) {
    this.#method = method;
    this.#username = username;
  }

  /** The finished publish, when the header announces an empty body. */
  takeHeader(payload: Buffer): Content | undefined {
    if (this.#properties !== undefined) throw unexpected('content body', 'content header');
    if (payload.length < 14)
      throw connectionError(502, 'content header does not decode', METHOD.basicPublish);
    if (payload.readUInt16BE(0) !== 60) throw unexpected('content header', 'content header of another class');
    const size = payload.readBigUInt64BE(4);
    const properties = payload.subarray(12);
    if (properties.length > LIMIT.amqpPropertiesBytes) {
      throw connectionError(
        502,
        `properties are longer than ${LIMIT.amqpPropertiesBytes} bytes`,
        METHOD.basicPublish,
      );
    }
    this.#checkProperties(properties);
    if (size > BigInt(LIMIT.amqpBodyBytes)) {
      // Its body frames are ignored: the channel is closing.
      const what = `message size ${size} is larger than configured max size ${LIMIT.amqpBodyBytes}`;
      throw channelError(311, what, METHOD.basicPublish);
    }
    this.#properties = properties.toString('base64');
    this.#body = Buffer.allocUnsafeSlow(Number(size));
    return this.#finished();
  }

  /** The finished publish, when this body completes it. */
  takeBody(payload: Buffer): Content | undefined {
    if (this.#properties === undefined)
      throw unexpected('content header', 'non content header frame instead');
    const received = this.#received + payload.length;
    if (received > this.#body.length) {
      throw connectionError(
        501,
        `content body of ${received} bytes exceeds the announced ${this.#body.length}`,
        METHOD.basicPublish,
      );
    }
    payload.copy(this.#body, this.#received);
    this.#received = received;
    return this.#finished();
  }

  /** Read only where one stands that the broker answers for. */
  #checkProperties(bytes: Buffer): void {
    if ((bytes.readUInt16BE(0) & (HEADERS_FLAG | EXPIRATION_FLAG | USER_ID_FLAG)) === 0) return;
    const { userId, expiration } = decodeProperties(bytes);
    if (userId !== undefined && userId !== this.#username) {
      const what = `user_id property set to '${userId}' but authenticated user was '${this.#username}'`;
      throw channelError(406, what, METHOD.basicPublish);
    }
    if (expiration !== undefined && !/^\d+$/.test(String(expiration))) {
      throw channelError(406, `invalid expiration '${expiration}': no_integer`, METHOD.basicPublish);
    }
  }

  #finished(): Content | undefined {
    if (this.#received < this.#body.length || this.#properties === undefined) return undefined;
    return { ...this.#method, properties: this.#properties, body: this.#body };
  }
}

/** A frame that is not the one its content needs. */
export function unexpected(expected: string, got: string): AmqpError {
  return connectionError(505, `expected ${expected} for class 60, got ${got}`, METHOD.basicPublish);
}
