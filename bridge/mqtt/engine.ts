/**
 * The MQTT engine: Aedes implements the protocol, this file connects it to the links of devices. A CONNECT
 * dials, a PUBLISH is acknowledged when the Site has stored or dropped it, and nothing is ever routed between
 * clients. Aedes sends PUBACK after `authorizePublish` and before `publish`, so a message is stored inside that
 * hook.
 */
import { isUtf8 } from 'node:buffer';
import type { Duplex } from 'node:stream';
import { Aedes, type AuthenticateError, type Client } from 'aedes';
import { LIMIT } from '../../protocol/limits.ts';
import type { DeviceLinkDown, DeviceLinkUp } from '../../protocol/link/device.ts';
import { CLIENT_QUIET_MS } from '../../protocol/link/live.ts';
import { devicePublishTopic, deviceTopic } from '../../protocol/topics.ts';
import { invalidUtf8At, withoutMark } from '../../protocol/utf8.ts';
import type { DialResult } from '../link-dial.ts';
import { type EndReason, linkReason, type OwnReason, streamReason } from '../reasons.ts';
import { wordsOf } from '../refusal.ts';
import type { ClientCertificate } from '../tls.ts';
import { authenticateError, CONNACK, type DeviceCredential, loginOf, prepareConnect } from './login.ts';
import { type EventsOf, type Origin, Origins } from './origins.ts';
import {
  beginSession,
  noteForeignTopic,
  noteNoPublish,
  type PublishFrame,
  type Session,
  sendCommand,
  sendPublish,
} from './session.ts';
import { SizeGate } from './size-gate.ts';

export type DeviceDial = (
  credential: DeviceCredential,
  origin: Origin,
  /** Whether the client has disconnected during the dial. */
  isGone: () => boolean,
) => Promise<DialResult<DeviceLinkUp, DeviceLinkDown>>;

/**
 * How often the engine looks for clients that have sent or published nothing for too long; it only notifies the
 * Site.
 */
const QUIET_CHECK_MS = 5_000;

export class MqttEngine {
  readonly #aedes: Aedes;
  readonly #dial: DeviceDial;
  readonly #sessions = new Map<Client, Session>();
  readonly #origins: Origins;
  readonly #gates = new Set<SizeGate>();
  #isStopping = false;
  #quietCheck: NodeJS.Timeout | undefined;

  constructor(dial: DeviceDial, eventsOf: EventsOf) {
    this.#dial = dial;
    this.#origins = new Origins(eventsOf);
    this.#aedes = new Aedes({
      heartbeatInterval: 60_000,
      connectTimeout: LIMIT.mqttConnectMs,
      queueLimit: 256,
      maxInflightInbound: LIMIT.mqttInflightMessages,
      maxClientsIdLength: 256,
      preConnect: (client, packet, done) => {
        const error = prepareConnect(client, packet, this.#origins.of(client.conn));
        done(error ?? null, error === undefined);
      },
      authenticate: (client, username, password, done) => {
        void this.#authenticate(client, username, password?.toString('utf8'), done);
      },
      authorizePublish: (client, packet, done) => this.#publish(client, packet, done),
      authorizeSubscribe: (client, subscription, done) => {
        if (/[\0\ufffd]/.test(subscription.topic)) {
          done(new Error('the topic contains NUL or is not UTF-8'));
          return;
        }
        const session = this.#sessions.get(client);
        const allowed = session && subscription.topic === deviceTopic(session.deviceId, 'commands');
        if (session && !allowed) noteForeignTopic(session, subscription.topic, 'subscribe');
        done(null, allowed ? subscription : null);
      },
    });
    this.#aedes.on('subscribe', (subscriptions, client) => {
      const session = this.#sessions.get(client);
      const commands = session && deviceTopic(session.deviceId, 'commands');
      if (subscriptions.some((one) => one.topic === commands && one.qos < 128)) {
        session?.link.send({ kind: 'subscribed', commands: true });
      }
    });
    this.#aedes.on('unsubscribe', (topics, client) => {
      const session = this.#sessions.get(client);
      if (!session || !topics.includes(deviceTopic(session.deviceId, 'commands'))) return;
      session.link.send({ kind: 'subscribed', commands: false });
    });
    this.#aedes.on('clientDisconnect', (client) => this.#end(client, 'client closed', 'client'));
    // The session ends with the disconnect event that follows; until then a will may still be stored.
    const failed = (client: Client, error: Error) => this.#failed(client, error.message, streamReason(error));
    this.#aedes.on('clientError', failed);
    this.#aedes.on('connectionError', failed);
  }

  async start(): Promise<void> {
    await this.#aedes.listen();
    this.#quietCheck = setInterval(() => this.#checkQuiet(Date.now()), QUIET_CHECK_MS);
  }

  /** Accepts a client's decrypted stream. */
  accept(
    stream: Duplex,
    {
      address,
      certificate,
      hasLogin,
    }: { address: string; certificate?: ClientCertificate; hasLogin?: () => void },
  ): void {
    const gated = new SizeGate(stream, (why, reason, bytes) => {
      if (bytes !== undefined) this.#sessions.get(client)?.link.send({ kind: 'oversized', bytes });
      this.#failed(client, why, reason);
    });
    gated.on('error', () => {});
    const origin = this.#origins.add(gated, { address, certificate, hasLogin });
    this.#gates.add(gated);
    gated.on('close', () => {
      this.#gates.delete(gated);
      this.#origins.refuse(origin, 'client closed', this.#isStopping ? 'stopping' : 'client');
    });
    const client = this.#aedes.handle(gated);
  }

  /** Closes every client; the clients reconnect to another bridge. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    clearInterval(this.#quietCheck);
    for (const session of this.#sessions.values()) {
      session.end = { why: 'shutdown', reason: 'stopping' };
      session.link.close();
    }
    await new Promise<void>((resolve) => this.#aedes.close(() => resolve()));
    // Aedes closes only clients that have finished their CONNECT; the other connections are closed here.
    for (const gate of this.#gates) gate.destroy();
  }

  async #authenticate(
    client: Client,
    username: string | undefined,
    password: string | undefined,
    done: (error: AuthenticateError | null, success: boolean | null) => void,
  ): Promise<void> {
    const origin = this.#origins.of(client.conn);
    origin.username = origin.certificate?.commonName ?? username ?? '';
    const login = loginOf(origin, username, password);
    if ('returnCode' in login) {
      const isMalformed = login.returnCode === CONNACK.malformed;
      this.#origins.refuse(origin, login.message, isMalformed ? 'malformed' : 'credential');
      done(login, null);
      return;
    }
    const { deviceId, credential } = login;
    origin.hasLogin();
    const dialed = await this.#dial(credential, origin, () => client.closed);
    if (dialed.outcome !== 'accepted') {
      this.#origins.notLinked(origin, dialed);
      const code = dialed.outcome === 'refused' ? CONNACK.refused : CONNACK.unavailable;
      done(authenticateError(code, wordsOf(dialed)), null);
      return;
    }
    if (client.closed || this.#aedes.closed) {
      dialed.link.close();
      return;
    }
    const { link } = dialed;
    const gate = client.conn as SizeGate;
    const session = beginSession({ deviceId, origin, link }, (isHeld) =>
      gate.hold(isHeld, () => refreshKeepAlive(client)),
    );
    this.#sessions.set(client, session);
    origin.isReported = true;
    origin.events.opened({ username: origin.username });
    link.attach({
      frames: (frames) => this.#receive(client, session, frames),
      closed: (code, reason) => {
        this.#end(client, `link ${code} ${reason}`, linkReason(code));
        client.close();
      },
    });
    done(null, true);
  }

  #publish(
    client: Client | null,
    packet: { topic: string; payload: string | Buffer; qos: number; retain: boolean; messageId?: number },
    done: (error?: Error | null) => void,
  ): void {
    if (packet.qos > 0 && packet.messageId === 0) {
      // An acknowledgement of packet 0 would be wrong, too: a client must not use it [MQTT-2.3.1-1].
      done(new Error('a PUBLISH with QoS 1 or 2 has the packet identifier 0'));
      return;
    }
    const session = client ? this.#sessions.get(client) : undefined;
    const topic = session && devicePublishTopic(session.deviceId, packet.topic);
    if (!session || !topic) {
      if (session) noteForeignTopic(session, packet.topic, 'publish');
      done(new Error('not a topic of this device'));
      return;
    }
    session.origin.events.published(1);
    session.spokeMs = Date.now();
    // A retained flag is cleared and the message processed [C-3.6].
    packet.retain = false;
    const seq = session.link.nextSeq();
    const frame = frameOf(
      seq,
      topic,
      typeof packet.payload === 'string' ? Buffer.from(packet.payload) : packet.payload,
    );
    const bytes = packet.payload.length;
    session.intake.take(bytes);
    const answer = (outcome: 'stored' | 'refused') => {
      session.intake.release(bytes);
      // MQTT 3.1.1 has no negative acknowledgement: with QoS 0 Aedes sends none, and the client sends the
      // message again in its next session.
      if (outcome === 'refused') packet.qos = 0;
      // Aedes keeps a QoS 2 packet until its PUBREL; the payload is no longer needed.
      packet.payload = Buffer.alloc(0);
      done(null);
    };
    session.waiting.set(seq, { frame, answer });
    if (session.held.size === 0) sendPublish(session.link, frame);
    else session.held.add(frame);
  }

  #receive(client: Client, session: Session, frames: readonly DeviceLinkDown[]): void {
    const { events } = session.origin;
    for (const frame of frames) {
      switch (frame.kind) {
        case 'stored':
          events.answered('confirmed', frame.seqs.length);
          for (const seq of frame.seqs) this.#answer(session, seq, 'stored');
          break;
        case 'refused':
          events.answered('refused', 1);
          this.#answer(session, frame.seq, 'refused');
          break;
        case 'wait':
          session.held.takeBack(
            frame.seqs.flatMap((seq) => session.waiting.get(seq)?.frame ?? []),
            frame,
          );
          break;
        case 'command':
          events.delivered(1);
          sendCommand(client, session.deviceId, frame.payload);
      }
    }
  }

  #answer(session: Session, seq: number, outcome: 'stored' | 'refused'): void {
    const waiting = session.waiting.get(seq);
    session.waiting.delete(seq);
    waiting?.answer(outcome);
  }

  /**
   * Notifies the Site when a client has published nothing for `NO_PUBLISH_MS`, when it has sent nothing, not
   * even a ping, for `CLIENT_QUIET_MS`, and when it sends again [C-3.10].
   */
  #checkQuiet(now: number): void {
    for (const [client, session] of this.#sessions) {
      noteNoPublish(session, now);
      const gate = client.conn as SizeGate;
      if (session.quiet || gate.quietMs(now) < CLIENT_QUIET_MS) continue;
      session.quiet = true;
      session.link.send({ kind: 'quiet', quiet: true });
      gate.untilBytes(() => {
        session.quiet = false;
        session.link.send({ kind: 'quiet', quiet: false });
      });
    }
  }

  /** Records why a connection ends: reported with the end of its session, or at once if it never had one. */
  #failed(client: Client, why: string, reason: OwnReason): void {
    const session = this.#sessions.get(client);
    if (session) session.end = { why, reason };
    else this.#origins.refuse(this.#origins.of(client.conn), why, reason);
  }

  #end(client: Client, why: string, reason: EndReason): void {
    const session = this.#sessions.get(client);
    if (!session) return;
    this.#sessions.delete(client);
    // The client is gone, but Aedes holds each packet in memory until its callback runs.
    for (const { answer } of session.waiting.values()) answer('refused');
    session.waiting.clear();
    session.held.stop();
    session.link.close();
    const { end = { why, reason } } = session;
    session.origin.events.closed(end.why, end.reason);
  }
}

/**
 * Restarts the client's keep-alive timer in Aedes. Aedes itself restarts it with each packet that it reads,
 * but it reads none while publishes are held.
 */
function refreshKeepAlive(client: Client): void {
  (client as unknown as { _keepaliveTimer: NodeJS.Timeout | null })._keepaliveTimer?.refresh();
}

/** The frame of a publish. Of a payload that is not UTF-8, which would become other text, the Site gets the wrong place. */
function frameOf(seq: number, topic: PublishFrame['topic'], payload: Buffer): PublishFrame {
  if (isUtf8(payload)) return { kind: 'publish', seq, topic, payload: withoutMark(payload.toString('utf8')) };
  return { kind: 'not-utf8', seq, topic, at: invalidUtf8At(payload) ?? 0, bytes: payload.length };
}
