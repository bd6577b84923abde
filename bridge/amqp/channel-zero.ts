/** Channel 0 of a running connection: its close, its secret, and what it is told while its publishes wait. */
import type { Session } from './handshake.ts';
import type { Uplink } from './uplink.ts';
import { connectionError } from './wire/amqp-error.ts';
import { type Fields, METHOD, readMethod } from './wire/codec.ts';
import { FRAME, type Frame } from './wire/frame-reader.ts';
import { unexpectedFrame } from './wire/octets.ts';

export interface ChannelZeroHost {
  send(method: number, fields: Fields): void;
  /** The client closes the connection. */
  leave(): void;
}

export class ChannelZero {
  readonly #session: Session;
  readonly #uplink: Uplink;
  readonly #host: ChannelZeroHost;
  /** The client was told that its publishes wait. */
  #isBlocked = false;

  constructor(session: Session, uplink: Uplink, host: ChannelZeroHost) {
    this.#session = session;
    this.#uplink = uplink;
    this.#host = host;
  }

  take(frame: Frame): void {
    if (frame.type !== FRAME.method) throw unexpectedFrame(frame);
    const { method, fields } = readMethod(frame.payload);
    if (method === METHOD.connectionClose) this.#host.leave();
    else if (method === METHOD.connectionUpdateSecret) this.#updateSecret(fields);
    else throw connectionError(504, 'unexpected method in connection state running', method);
  }

  /** connection.blocked, to a client that said it knows what that is; unblocked once its publishes flow again. */
  tellBlocked(): void {
    const isBlocked = this.#uplink.isOverRate;
    if (isBlocked === this.#isBlocked || !this.#session.can('connection.blocked')) return;
    this.#isBlocked = isBlocked;
    if (isBlocked) this.#host.send(METHOD.connectionBlocked, { reason: 'publish rate' });
    else this.#host.send(METHOD.connectionUnblocked, {});
  }

  /** A key is its secret as long as it lives: another one is refused, as RabbitMQ refuses what its backends do not take. */
  #updateSecret({ newSecret }: Fields): void {
    if (!this.#session.isOwnSecret(newSecret as Buffer)) {
      const what = 'New secret was refused by one of the backends';
      throw connectionError(530, what, METHOD.connectionUpdateSecret);
    }
    this.#host.send(METHOD.connectionUpdateSecretOk, {});
  }
}
