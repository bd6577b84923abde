/** Channel 0 of a running connection: close, update-secret, connection.blocked while publishes are held. */
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
  /** connection.blocked was sent, and connection.unblocked not yet. */
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

  /** Sends connection.blocked to a client that supports it, and unblocked once its publishes flow again. */
  updateBlocked(): void {
    const isBlocked = this.#uplink.isOverRate;
    if (isBlocked === this.#isBlocked || !this.#session.can('connection.blocked')) return;
    this.#isBlocked = isBlocked;
    if (isBlocked) this.#host.send(METHOD.connectionBlocked, { reason: 'publish rate' });
    else this.#host.send(METHOD.connectionUnblocked, {});
  }

  /** The secret of a key never changes: any other secret is rejected, with the text that RabbitMQ uses. */
  #updateSecret({ newSecret }: Fields): void {
    if (!this.#session.isOwnSecret(newSecret as Buffer)) {
      const what = 'New secret was refused by one of the backends';
      throw connectionError(530, what, METHOD.connectionUpdateSecret);
    }
    this.#host.send(METHOD.connectionUpdateSecretOk, {});
  }
}
