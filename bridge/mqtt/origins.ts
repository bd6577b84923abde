/** The origin of each MQTT connection. A connection that never gets a session is reported once. */
import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { RefusalReason } from '../reasons.ts';
import { loginReason, type NoLink, wordsOf } from '../refusal.ts';
import type { ClientCertificate } from '../tls.ts';

export interface Origin {
  /** Connection id in the log and at the edge. */
  readonly connection: string;
  readonly address: string;
  /** Only on the listener that requires certificates. */
  readonly certificate: ClientCertificate | undefined;
  /** From the certificate or from CONNECT; empty until known. */
  username: string;
  /** The connection got a session, or its rejection was reported. */
  isSettled: boolean;
}

/** `code` is the error code in the edge's answer. */
export type Refused = (origin: Origin, why: string, reason: RefusalReason, code?: string) => void;

export class Origins {
  readonly #refused: Refused;
  readonly #origins = new WeakMap<Duplex, Origin>();

  constructor(refused: Refused) {
    this.#refused = refused;
  }

  add(stream: Duplex, address: string, certificate: ClientCertificate | undefined): Origin {
    const username = certificate?.commonName ?? '';
    const origin = { connection: randomUUID(), address, certificate, username, isSettled: false };
    this.#origins.set(stream, origin);
    return origin;
  }

  of(stream: Duplex): Origin {
    return this.#origins.get(stream) ?? this.add(stream, '', undefined);
  }

  refuse(origin: Origin, why: string, reason: RefusalReason, code?: string): void {
    if (origin.isSettled) return;
    origin.isSettled = true;
    this.#refused(origin, why, reason, code);
  }

  notLinked(origin: Origin, noLink: NoLink): void {
    const code = noLink.outcome === 'refused' ? noLink.code : undefined;
    this.refuse(origin, wordsOf(noLink), loginReason(noLink), code);
  }
}
