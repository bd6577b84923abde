/** Where each connection comes from; who never gets a session is told of once. */
import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { RefusalReason } from '../reasons.ts';
import { loginReason, type NoLink, wordsOf } from '../refusal.ts';
import type { ClientCertificate } from '../tls.ts';

export interface Origin {
  /** What log and edge name the connection by. */
  readonly connection: string;
  readonly address: string;
  /** Where its listener asks for one. */
  readonly certificate: ClientCertificate | undefined;
  /** As it says, or its certificate; empty before it does. */
  username: string;
  /** It has a session, or was told of. */
  isSettled: boolean;
}

/** `code`: of the edge's answer. */
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
