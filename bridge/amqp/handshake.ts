/**
 * The AMQP handshake, in wire order; each state accepts only its own method.
 *
 *   header ─► start ─► start-ok ─(dial)─► tune ─► tune-ok ─► open ─► open-ok ─► running
 *
 * The client's credential is used for the dial and then forgotten, except for a digest of it. Rejections have
 * RabbitMQ's codes and texts; a failure between bridge and edge closes with 320, never 403 (rule 7).
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { LIMIT } from '../../protocol/limits.ts';
import { PROBE_PROPERTY, SCOPES_HEADER, VHOST_HEADER } from '../../protocol/link/proof.ts';
import type { VhostLinkDown, VhostLinkUp } from '../../protocol/link/vhost.ts';
import { API_KEY_SCOPES, type ApiKeyScope } from '../../protocol/scopes.ts';
import type { Refusal } from '../connection-report.ts';
import type { LinkHandlers, ObjectLink } from '../link.ts';
import { loginReason, type NoLink, shownReason, wordsOf } from '../refusal.ts';
import { MECHANISMS, readSasl, type SaslCredential } from './sasl.ts';
import { AmqpError, connectionError, SilentClose } from './wire/amqp-error.ts';
import { type Fields, METHOD } from './wire/codec.ts';

export const PROTOCOL_HEADER = Buffer.from('AMQP\x00\x00\x09\x01', 'latin1');

/**
 * What a client sends at login: its credential and, if it is the connection test of a key, the test's nonce
 * (`probe`).
 */
export interface Introduction extends SaslCredential {
  probe: string;
}

/** A client's link as its connection sees it. */
export interface VhostLink extends ObjectLink<VhostLinkUp> {
  /** Passes all frames to `handlers`, first those that have already arrived. */
  attach(handlers: LinkHandlers<VhostLinkDown>): void;
}

export type VhostDialResult =
  | { outcome: 'accepted'; link: VhostLink; headers: Record<string, string> }
  | NoLink;

export type VhostDial = (client: Introduction) => Promise<VhostDialResult>;

export interface Tuned {
  frameMax: number;
  channelMax: number;
  heartbeatSeconds: number;
}

/** The result of a finished handshake, for the running connection. */
export interface Session extends Tuned {
  link: VhostLink;
  username: string;
  vhost: string;
  /** The scopes of the client's key. */
  scopes: ReadonlySet<ApiKeyScope>;
  /** Whether the client announced this capability. */
  can(capability: string): boolean;
  /** Whether this is the secret that the client logged in with. */
  isOwnSecret(secret: Buffer): boolean;
}

const SERVER_PROPERTIES = {
  product: 'Sitewire',
  version: '1.1',
  platform: 'Node.js',
  capabilities: {
    publisher_confirms: true,
    exchange_exchange_bindings: false,
    'basic.nack': true,
    consumer_cancel_notify: true,
    'connection.blocked': true,
    authentication_failure_close: true,
    consumer_priorities: true,
    per_consumer_qos: true,
  },
};

type State = 'start-ok' | 'dialing' | 'tune-ok' | 'open' | 'done';

export class Handshake {
  readonly #dial: VhostDial;
  readonly #send: (method: number, fields: Fields) => void;
  #state: State = 'start-ok';
  #link: VhostLink | undefined;
  #vhost = '';
  #scopes: ReadonlySet<ApiKeyScope> = new Set();
  /** Digest of the secret; the secret itself is not stored. */
  #secretDigest: Buffer | undefined;
  #username = '';
  #capabilities: Fields = {};
  /** Why the client may not open a vhost; sent when the client tries to open one. */
  #refusal: string | undefined;
  /** What is known about a client that does not reach open-ok. */
  readonly #rejection: Partial<Refusal> = {};
  #tuned: Tuned | undefined;
  #abandoned = false;

  constructor(dial: VhostDial, send: (method: number, fields: Fields) => void) {
    this.#dial = dial;
    this.#send = send;
  }

  begin(): void {
    this.#send(METHOD.connectionStart, {
      versionMajor: 0,
      versionMinor: 9,
      serverProperties: SERVER_PROPERTIES,
      mechanisms: Buffer.from(MECHANISMS),
      locales: Buffer.from('en_US'),
    });
  }

  /**
   * Handles the next method. Resolves with the session when the handshake is finished; rejects with the error
   * that ends the connection.
   */
  async take(method: number, fields: Fields): Promise<Session | undefined> {
    if (this.#state === 'start-ok' && method === METHOD.connectionStartOk) {
      this.#state = 'dialing';
      await this.#startOk(fields);
      this.#state = 'tune-ok';
      this.#send(METHOD.connectionTune, {
        channelMax: LIMIT.channelsPerConnection,
        frameMax: LIMIT.amqpFrameBytes,
        heartbeat: LIMIT.amqpHeartbeatSeconds,
      });
      return undefined;
    }
    if (this.#state === 'tune-ok' && method === METHOD.connectionTuneOk) {
      this.#tuned = readTuneOk(fields);
      this.#state = 'open';
      return undefined;
    }
    if (this.#state === 'open' && method === METHOD.connectionOpen) return this.#open(fields);
    throw new SilentClose(`unexpected method ${method} in handshake state ${this.#state}`);
  }

  /** The error to close with: before tune-ok a protocol violation closes without a frame, as in RabbitMQ. */
  endOf(error: unknown): unknown {
    const isWrongSpeech = error instanceof AmqpError && (error.code === 501 || error.code === 505);
    return isWrongSpeech && !this.#tuned ? new SilentClose(error.text) : error;
  }

  /** What the client has sent so far, and why the edge or the bridge rejects it. */
  get refusal(): Partial<Refusal> {
    return this.#rejection;
  }

  /** Closes the link, even if a session already uses it or it is still being dialled. */
  abandon(): void {
    this.#abandoned = true;
    this.#link?.close();
  }

  async #startOk(fields: Fields): Promise<void> {
    const properties = asTable(fields.clientProperties);
    this.#capabilities = asTable(fieldOf(properties, 'capabilities'));
    const mechanism = String(fields.mechanism);
    const credential = readSasl(mechanism, fields.response as Buffer);
    if (!credential) {
      this.#rejection.reason = 'malformed';
      throw new SilentClose('unsupported SASL mechanism or malformed response', LIMIT.failedLoginMs);
    }
    this.#username = credential.username;
    this.#rejection.username = credential.username;
    this.#secretDigest = digest(credential.password);
    const dialed = await this.#dial({ ...credential, probe: probeOf(properties) });
    if (this.#abandoned && dialed.outcome === 'accepted') {
      dialed.link.close();
      throw new SilentClose('the client disconnected during the dial');
    }
    if (dialed.outcome !== 'accepted') this.#note(dialed);
    switch (dialed.outcome) {
      case 'accepted':
        this.#link = dialed.link;
        this.#vhost = dialed.headers[VHOST_HEADER] ?? '';
        this.#scopes = readScopes(dialed.headers[SCOPES_HEADER]);
        return;
      case 'refused':
        // A reached connection limit (409) is reported when the client opens the vhost, as in RabbitMQ. All
        // other rejections are reported at login.
        if (dialed.status !== 409) throw this.#loginRefused(mechanism, shownReason(dialed));
        this.#refusal = dialed.message;
        return;
      case 'unproven':
      case 'trouble':
        throw connectionError(320, 'the service is not available, try again');
    }
  }

  #note(noLink: NoLink): void {
    const code = noLink.outcome === 'refused' ? { code: noLink.code } : {};
    Object.assign(this.#rejection, { reason: loginReason(noLink), why: wordsOf(noLink), ...code });
  }

  #can(capability: string): boolean {
    return fieldOf(this.#capabilities, capability) === true;
  }

  /** In RabbitMQ's words, except for a reason that the client may learn. */
  #loginRefused(mechanism: string, reason = 'For details see the broker logfile.'): Error {
    if (!this.#can('authentication_failure_close')) {
      return new SilentClose('login refused', LIMIT.failedLoginMs);
    }
    return connectionError(403, `Login was refused using authentication mechanism ${mechanism}. ${reason}`);
  }

  #open(fields: Fields): Session {
    const vhost = String(fields.virtualHost);
    this.#rejection.vhost = vhost;
    const refused = `access to vhost '${vhost}' refused for user '${this.#username}'`;
    if (this.#refusal !== undefined) {
      throw connectionError(530, `${refused}: ${this.#refusal}`, METHOD.connectionOpen);
    }
    if (!this.#link || !this.#tuned)
      throw new SilentClose('the client sent connection.open before the login and the tuning were finished');
    // The object also gets a wrong vhost, because it writes the audit event of a connection and of an attempt
    // with a wrong vhost.
    this.#link.send({ kind: 'open', vhost: vhost.slice(0, 255) });
    if (vhost !== this.#vhost) {
      this.#rejection.reason = 'vhost';
      throw connectionError(530, refused, METHOD.connectionOpen);
    }
    this.#state = 'done';
    this.#send(METHOD.connectionOpenOk, { knownHosts: '' });
    return {
      link: this.#link,
      username: this.#username,
      vhost,
      scopes: this.#scopes,
      can: (capability) => this.#can(capability),
      isOwnSecret: (secret) =>
        this.#secretDigest !== undefined && timingSafeEqual(digest(secret), this.#secretDigest),
      ...this.#tuned,
    };
  }
}

/**
 * Reads the negotiated limits. Throws if the client exceeds an offered limit of frame size or channels, sends 0
 * for one of them, or sets a frame size below the minimum; the socket is then closed after a delay and without
 * a frame, as in RabbitMQ. Any heartbeat is accepted.
 */
function readTuneOk(fields: Fields): Tuned {
  const frameMax = Number(fields.frameMax);
  const channelMax = Number(fields.channelMax);
  const isOutside =
    frameMax < LIMIT.amqpFrameBytesMin ||
    frameMax > LIMIT.amqpFrameBytes ||
    channelMax < 1 ||
    channelMax > LIMIT.channelsPerConnection;
  if (isOutside)
    throw new SilentClose(
      'the limits in the tune-ok of the client are outside the offered limits',
      LIMIT.failedLoginMs,
    );
  return { frameMax, channelMax, heartbeatSeconds: Number(fields.heartbeat) };
}

/** The key of the digests of secrets. It is new in each process, so a digest cannot be used anywhere else. */
const DIGEST_KEY = randomBytes(32);

function digest(secret: string | Buffer): Buffer {
  return createHmac('sha256', DIGEST_KEY).update(secret).digest();
}

function readScopes(header = ''): ReadonlySet<ApiKeyScope> {
  const named = header.split(',');
  return new Set(API_KEY_SCOPES.filter((scope) => named.includes(scope)));
}

/** Returns the nonce of a probe; empty if the property is absent or malformed. */
function probeOf(properties: Fields): string {
  const probe = fieldOf(properties, PROBE_PROPERTY);
  return typeof probe === 'string' && /^[0-9a-f]{32}$/.test(probe) ? probe : '';
}

/**
 * Returns an entry of a field table; reads only own properties, because a table from a client may contain the
 * key `__proto__`.
 */
function fieldOf(table: Fields, name: string): unknown {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

function asTable(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}
