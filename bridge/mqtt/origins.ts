/** The origin of each MQTT connection. A connection that never gets a session is reported once. */
import { randomUUID } from 'node:crypto';
import type { Duplex } from 'node:stream';
import type { ConnectionEvents } from '../connection-report.ts';
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
  /** Its session or its rejection was reported. */
  isReported: boolean;
  /** Called when the client has sent its login. */
  readonly hasLogin: () => void;
  readonly events: ConnectionEvents;
}

/** Returns the receiver of a new connection's events. */
export type EventsOf = (client: Pick<Origin, 'connection' | 'address'>) => ConnectionEvents;

export class Origins {
  readonly #eventsOf: EventsOf;
  readonly #origins = new WeakMap<Duplex, Origin>();

  constructor(eventsOf: EventsOf) {
    this.#eventsOf = eventsOf;
  }

  add(
    stream: Duplex,
    {
      address,
      certificate,
      hasLogin = () => {},
    }: { address: string; certificate?: ClientCertificate | undefined; hasLogin?: (() => void) | undefined },
  ): Origin {
    const client = { connection: randomUUID(), address };
    const username = certificate?.commonName ?? '';
    const events = this.#eventsOf(client);
    const origin = { ...client, certificate, username, isReported: false, hasLogin, events };
    this.#origins.set(stream, origin);
    return origin;
  }

  of(stream: Duplex): Origin {
    return this.#origins.get(stream) ?? this.add(stream, { address: '' });
  }

  /** `code` is the error code in the edge's answer. */
  refuse(origin: Origin, why: string, reason: RefusalReason, code?: string): void {
    if (origin.isReported) return;
    origin.isReported = true;
    origin.events.refused({ reason, why, code, username: origin.username || undefined });
  }

  notLinked(origin: Origin, noLink: NoLink): void {
    const code = noLink.outcome === 'refused' ? noLink.code : undefined;
    this.refuse(origin, wordsOf(noLink), loginReason(noLink), code);
  }
}
