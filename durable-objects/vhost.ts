/**
 * The broker of one API key: its queues, its clients' sockets, its publishes on their way to Sites. This class is
 * the hub: RPC, WebSocket events and the alarm come in here, the rules stand in vhost/. It is the authority over its
 * clients: a key revoked here is dead here, whatever D1 says (rule 6).
 */
import { DurableObject } from 'cloudflare:workers';
import { signableJson } from '../protocol/compact-json.ts';
import { type Envelope, parseEnvelope } from '../protocol/envelope.ts';
import { parseInstant } from '../protocol/ids.ts';
import {
  CLOSE_CODES,
  PING,
  PONG,
  type PublishFrame,
  parseFrames,
  SIGN_OF_LIFE_MS,
  VHOST_HEADER,
  type VhostLinkDown,
  type VhostLinkUp,
  vhostLinkUp,
} from '../protocol/link.ts';
import { type Result, refuse } from '../protocol/result.ts';
import { type CommandFamily, EVENT_QUEUES, FAMILY_RULES } from '../protocol/routing-keys.ts';
import { type ApiKeyScope, effectiveScopes } from '../protocol/scopes.ts';
import { envelopeSigningString } from '../protocol/signing.ts';
import type { Env } from './env.ts';
import type { OutboxEvent, PassingEvent, Receipt, SignatureVerdict, Submission } from './exchange.ts';
import { derivedUuid, verifyHmac } from './hmac.ts';
import { DIAL_HEADER, notFoundResponse, refusalResponse } from './refusal-response.ts';
import { SecretBox } from './secret-box.ts';
import type { SubmitAnswer } from './site.ts';
import { closeQuietly } from './sockets.ts';
import {
  type AmqpRefusal,
  authorizeDeclare,
  authorizePublish,
  authorizeRead,
  consumerTagInUse,
  inExclusiveUse,
  MAX_CONSUMERS,
  tooManyConsumers,
} from './vhost/authorize.ts';
import { Broker } from './vhost/broker.ts';
import { type ClientDial, ClientSockets } from './vhost/client-sockets.ts';
import {
  DIRECTORY_REFRESH_MS,
  DIRECTORY_RETRY_MS,
  type Directory,
  findSite,
  readDirectory,
} from './vhost/directory.ts';
import { eventMessage } from './vhost/event-message.ts';
import { Lanes, type Pending } from './vhost/lanes.ts';
import type { VhostKey } from './vhost/schema.ts';
import { VhostStorage } from './vhost/storage.ts';

/** [C-6.3] */
const MAX_CONNECTIONS = 10;
/** What a crash may cost of telemetry events [C-6.4]. */
const TELEMETRY_FLUSH_MS = 60_000;
const MAX_STORED_DIRECTORY_CHARS = 500_000;
/** How long acknowledgements wait for a transaction to ride in, before they get one of their own. */
const SETTLE_FLUSH_MS = 100;

/** A key as its creation hands it over. */
export type VhostGrant = Omit<VhostKey, 'revokedAtMs' | 'firstConnectedAtMs' | 'signingKeySealed'> & {
  /** 64 hex characters. */
  signingKey: string;
};

type Reader = Extract<VhostLinkUp, { kind: 'consume' | 'get' | 'declare' | 'cancel' | 'recover' }>;

export class Vhost extends DurableObject<Env> {
  readonly #storage: VhostStorage;
  readonly #sockets: ClientSockets;
  #broker: Broker;
  readonly #lanes: Lanes;
  #received: Map<string, number>;
  readonly #secretBox: SecretBox;
  #key: VhostKey | undefined;
  #signingKey: string | undefined;
  #scopes: ReadonlySet<ApiKeyScope> = new Set();
  #directory: Directory | undefined;
  #directoryReadAtMs = 0;
  #directoryRead: Promise<void> | undefined;
  #flushTimer: number | null = null;
  #settleTimer: number | null = null;
  #armedAtMs: number | null = null;
  #lastNowMs = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    this.#storage = new VhostStorage(ctx.storage);
    this.#secretBox = new SecretBox(env.DATA_KEYS);
    this.#sockets = new ClientSockets(ctx, this.#storage, () => this.#now());
    this.#broker = this.#newBroker();
    this.#received = this.#storage.received();
    this.#directory = this.#storage.fact<Directory>('directory');
    this.#useKey(this.#storage.fact<VhostKey>('key'));
    this.#lanes = new Lanes({
      now: () => this.#now(),
      site: (siteId) => env.SITE.get(env.SITE.idFromName(siteId)),
      submit: (stub, siteId, submissions) => this.#submit(stub, siteId, submissions),
      finish: (siteId, answer, batch) => this.#finish(siteId, answer, batch),
      giveUp: (batch) => this.#sendDeliveries(confirms(batch, () => false)),
      hasEnded: () => this.#hasEnded(),
    });
    const missing = this.#sockets.missing();
    if (missing.length > 0) this.#forget(missing);
    void ctx.blockConcurrencyWhile(async () => {
      this.#armedAtMs = await ctx.storage.getAlarm();
      this.#arm();
    });
  }

  // RPC: the key

  /** Makes this the vhost of a key. Idempotent; a revoked key stays revoked. */
  open(grant: VhostGrant): void {
    const { signingKey, ...rest } = grant;
    const key: VhostKey = {
      ...rest,
      revokedAtMs: this.#key?.revokedAtMs ?? this.#storage.fact<number>('revoked') ?? null,
      firstConnectedAtMs: this.#key?.firstConnectedAtMs ?? null,
      signingKeySealed: this.#secretBox.seal(`key:${grant.keyId}`, signingKey),
    };
    this.#storage.setFact('key', key);
    this.#useKey(key);
    this.#arm();
  }

  /**
   * Revokes here: durable, sockets closed, queues gone; a call to a Site that was under way has ended when this
   * returns. D1 follows (rule 6). A key that was never opened stays revoked when it is.
   */
  async revoke(): Promise<void> {
    const now = this.#now();
    this.#storage.setFact('revoked', now);
    if (this.#key)
      this.#endKey({ ...this.#key, revokedAtMs: this.#key.revokedAtMs ?? now }, CLOSE_CODES.revoked);
    await this.#lanes.idle();
  }

  /** The end of a key, by revocation or time: nothing of its queues is left [C-5.6]. */
  #endKey(key: VhostKey, code: number): void {
    for (const id of this.#sockets.ids()) this.#sockets.drop(id, code, 'key ended');
    this.#storage.transaction(() => {
      this.#storage.setFact('key', key);
      this.#storage.deleteQueues();
    });
    this.#useKey(key);
    this.#broker = this.#newBroker();
    this.#received = new Map();
  }

  // RPC: events from Sites

  /** Stores events of a Site's outbox, each once, in order. */
  receive(siteId: string, events: OutboxEvent[]): Receipt {
    if (this.#hasEnded()) return { received: 0, gone: true };
    this.#commit(() => {
      this.#storeEvents(siteId, events);
      this.#broker.pump(this.#now());
    });
    this.#sendDeliveries();
    return { received: this.#received.get(siteId) ?? 0, gone: false };
  }

  /** Takes events that a crash may lose. */
  receivePassing(siteId: string, events: PassingEvent[]): 'taken' | 'gone' {
    if (this.#hasEnded()) return 'gone';
    this.#commit(() => {
      for (const event of events) this.#pushEvent(siteId, event);
    });
    this.#sendDeliveries();
    return 'taken';
  }

  // client sockets

  override async fetch(request: Request): Promise<Response> {
    const header = request.headers.get(DIAL_HEADER);
    if (!header || request.headers.get('upgrade') !== 'websocket') return notFoundResponse();
    const dial = JSON.parse(header) as ClientDial;
    const now = this.#now();
    if (this.#storage.hasSeenConnection(dial.connection)) return notFoundResponse();
    const key = this.#key;
    if (!key || this.#hasEnded()) return refusalResponse('UNAUTHORIZED', 'Invalid API key');
    this.#forget(this.#sockets.ofOlderBoots(dial), CLOSE_CODES.takenOver, 'new boot');
    this.#forgetSilent(now);
    if (this.#sockets.count >= MAX_CONNECTIONS) {
      return refusalResponse('CONFLICT', `connection limit (${MAX_CONNECTIONS}) is reached`);
    }
    const isFirst = key.firstConnectedAtMs === null;
    this.#commit(() => {
      this.#sockets.recordDial(dial, now);
      if (!isFirst) return;
      this.#useKey({ ...key, firstConnectedAtMs: now });
      this.#storage.setFact('key', this.#key);
    });
    const socket = this.#sockets.open(dial, now);
    this.#refreshDirectoryInBackground();
    this.#arm();
    return new Response(null, { status: 101, webSocket: socket, headers: { [VHOST_HEADER]: key.vhost } });
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    const connectionId = this.#sockets.current(socket);
    const key = this.#key;
    if (connectionId === undefined || !key) return;
    const now = this.#now();
    if (this.#hasEnded()) {
      this.#closeEnded(key);
      return;
    }
    const frames = parseFrames(vhostLinkUp, message);
    if (!frames.ok) {
      this.#forget([connectionId], CLOSE_CODES.protocolError, frames.refusal);
      return;
    }
    this.#sockets.noteFrame(connectionId, now);
    this.#take(connectionId, key, frames.value, now);
  }

  override webSocketClose(socket: WebSocket): void {
    closeQuietly(socket, 1000, '');
    const connectionId = this.#sockets.current(socket);
    if (connectionId !== undefined) this.#forget([connectionId]);
  }

  override webSocketError(socket: WebSocket): void {
    this.webSocketClose(socket);
  }

  // agenda

  override async alarm(): Promise<void> {
    this.#armedAtMs = null;
    try {
      const now = this.#now();
      if (this.#key && this.#hasEnded()) this.#closeEnded(this.#key);
      this.#forgetSilent(now);
    } catch (error) {
      console.error('agenda failed', { error });
    } finally {
      this.#arm();
    }
  }

  #arm(): void {
    const candidates = this.#sockets
      .ids()
      .map((id) => this.#sockets.lastSignOfLifeMs(id) + SIGN_OF_LIFE_MS + 1);
    const { expiresAtMs, revokedAtMs } = this.#key ?? { expiresAtMs: null, revokedAtMs: null };
    if (expiresAtMs !== null && revokedAtMs === null && expiresAtMs > this.#now())
      candidates.push(expiresAtMs);
    if (candidates.length === 0) return;
    const due = Math.min(...candidates);
    if (this.#armedAtMs !== null && this.#armedAtMs <= due) return;
    this.#armedAtMs = due;
    void this.ctx.storage.setAlarm(due);
  }

  // one batch of a client's frames

  /** What is decided here is answered at once; publishes for Sites are answered by their lanes. */
  #take(connectionId: string, key: VhostKey, frames: readonly VhostLinkUp[], now: number): void {
    // 1. judge the publishes; nothing is written yet
    const answers: VhostLinkDown[] = [];
    const publishes: { frame: PublishFrame; family: CommandFamily; envelope: Envelope }[] = [];
    const writes: VhostWrite[] = [];
    for (const frame of frames) {
      if (frame.kind !== 'publish') {
        writes.push({ frame });
        continue;
      }
      const allowed = authorizePublish(this.#names(key), this.#scopes, frame.exchange, frame.routingKey);
      const envelope = allowed.ok ? readEnvelope(frame) : undefined;
      if (!allowed.ok) answers.push(refusedFrame(frame.seq, allowed.refusal));
      else if (envelope?.ok) publishes.push({ frame, family: allowed.value, envelope: envelope.value });
      else writes.push({ malformed: frame, reason: envelope?.refusal ?? '' });
    }

    // 2. write once, where anything is to be written; acknowledgements and credit wait for a write to ride in
    if (writes.every(isMemoryOnly)) {
      for (const write of writes) if ('frame' in write) this.#apply(connectionId, key, write.frame, now);
    } else if (!this.#write(connectionId, key, writes, answers, now)) {
      // One frame that cannot be handled ends its own connection, and memory is read back from what stands.
      this.#broker = this.#newBroker();
      this.#forget([connectionId], CLOSE_CODES.protocolError, 'a frame could not be handled');
      return;
    }

    // 3. answer, deliver, and hand on
    this.#sendDeliveries(new Map([[connectionId, answers]]));
    this.#refreshDirectoryInBackground();
    for (const { frame, family, envelope } of publishes) {
      this.#publish(connectionId, key, frame, family, envelope, now);
    }
  }

  /** One transaction, each frame in a savepoint of its own. False when one of them failed. */
  #write(
    connectionId: string,
    key: VhostKey,
    writes: readonly VhostWrite[],
    answers: VhostLinkDown[],
    now: number,
  ): boolean {
    let allDone = true;
    this.#commit(() => {
      for (const write of writes) {
        try {
          this.#storage.transaction(() => {
            if ('frame' in write) answers.push(...this.#apply(connectionId, key, write.frame, now));
            else answers.push(this.#deadLetter(write.malformed, write.reason, now));
          });
        } catch (error) {
          console.error('frame failed', { error });
          allDone = false;
          return;
        }
      }
    });
    return allDone;
  }

  /** Everything but publishing. */
  #apply(
    connectionId: string,
    key: VhostKey,
    frame: Exclude<VhostLinkUp, PublishFrame>,
    now: number,
  ): VhostLinkDown[] {
    switch (frame.kind) {
      case 'settle':
        this.#broker.settle(connectionId, frame.leases, frame.outcome);
        return [];
      case 'credit': {
        const window = this.#sockets.window(connectionId);
        if (window) this.#sockets.saveWindow(connectionId, { ...window, drainedBytes: frame.drainedBytes });
        return [];
      }
      case 'qos':
        this.#broker.setChannelLimit(connectionId, frame.channel, frame.prefetch);
        return [];
      case 'close-channel':
        this.#broker.closeChannel(connectionId, frame.channel);
        return [];
      default:
        return [this.#answer(connectionId, key, frame, now)];
    }
  }

  #answer(connectionId: string, key: VhostKey, frame: Reader, now: number): VhostLinkDown {
    const names = this.#names(key);
    switch (frame.kind) {
      case 'consume': {
        const queue = authorizeRead(names, frame.queue);
        if (!queue.ok) return refusedFrame(frame.seq, queue.refusal);
        if (this.#broker.hasTag(connectionId, frame.channel, frame.tag)) {
          return refusedFrame(frame.seq, consumerTagInUse(frame.tag));
        }
        if (this.#broker.consumersOf(connectionId) >= MAX_CONSUMERS)
          return refusedFrame(frame.seq, tooManyConsumers());
        const taken =
          this.#broker.hasExclusive(queue.value) ||
          (frame.exclusive && this.#broker.consumerCount(queue.value) > 0);
        if (taken) return refusedFrame(frame.seq, inExclusiveUse(names, queue.value));
        const { channel, tag, noAck, exclusive, prefetch } = frame;
        this.#broker.addConsumer({
          connectionId,
          channel,
          tag,
          queue: queue.value,
          noAck,
          exclusive,
          prefetch,
        });
        return { kind: 'ok', seq: frame.seq };
      }
      case 'cancel':
        this.#broker.removeConsumer(connectionId, frame.channel, frame.tag);
        return { kind: 'ok', seq: frame.seq };
      case 'get': {
        const queue = authorizeRead(names, frame.queue);
        if (!queue.ok) return refusedFrame(frame.seq, queue.refusal);
        const owner = { connectionId, channel: frame.channel, tag: null };
        const delivery = this.#broker.get(queue.value, owner, frame.noAck, now);
        return {
          kind: 'got',
          seq: frame.seq,
          messageCount: this.#broker.queue(queue.value).readyCount,
          delivery,
        };
      }
      case 'recover':
        this.#broker.release(
          (owner) => owner.connectionId === connectionId && owner.channel === frame.channel,
        );
        return { kind: 'ok', seq: frame.seq };
      case 'declare': {
        const queue = authorizeDeclare(names, frame);
        if (!queue.ok) return refusedFrame(frame.seq, queue.refusal);
        const messageCount = queue.value ? this.#broker.queue(queue.value).readyCount : 0;
        const consumerCount = queue.value ? this.#broker.consumerCount(queue.value) : 1;
        return { kind: 'ok', seq: frame.seq, messageCount, consumerCount };
      }
    }
  }

  // publishes

  /** A malformed envelope is dead-lettered with its reason, and nothing else happens [C-7.1]. */
  #deadLetter(frame: PublishFrame, reason: string, now: number): VhostLinkDown {
    const { routingKey, body, encoding } = frame;
    const message = { routingKey, properties: { raw: frame.properties }, body, encoding, createdAtMs: now };
    this.#broker.deadLetter(message, reason, now);
    return { kind: 'stored', seqs: [frame.seq] };
  }

  #publish(
    connectionId: string,
    key: VhostKey,
    frame: PublishFrame,
    family: CommandFamily,
    fields: Envelope,
    now: number,
  ): void {
    const submission: Submission = {
      messageId: fields.messageId,
      correlationId: fields.correlationId ?? null,
      source: fields.source,
      timestampMs: parseInstant(fields.timestamp) ?? 0,
      routingKey: frame.routingKey,
      family,
      payloadText: fields.payloadText,
      signature: 'missing',
    };
    const pending: Pending = { submission, acceptedAtMs: now, connectionId, seq: frame.seq };
    // The organization's settings decide whether a signature is needed: judged once they are there.
    const judge = () => {
      submission.signature = this.#verifySignature(fields, frame.routingKey, family);
    };
    const siteId = findSite(this.#directory, key.allowedPlantIds, fields.siteId);
    if (siteId) {
      judge();
      this.#keepAlive(this.#lanes.submit(siteId, pending));
    } else {
      this.#keepAlive(this.#resolve(key, fields.siteId, pending, judge));
    }
  }

  #verifySignature(envelope: Envelope, routingKey: string, family: CommandFamily): SignatureVerdict {
    const required = FAMILY_RULES[family].signed || (this.#directory?.requireSignedCommands ?? false);
    if (envelope.signature === undefined) return required ? 'missing' : 'not-needed';
    const signed = { ...envelope, messageId: envelope.messageIdText };
    const text = envelopeSigningString(signed, routingKey, envelope.payloadText);
    const key = this.#openSigningKey();
    return text !== undefined && verifyHmac(key, text, envelope.signature) ? 'valid' : 'mismatch';
  }

  /** A site that the directory does not know: asked for once more, then rejected without a site to log it. */
  async #resolve(key: VhostKey, wanted: string, pending: Pending, judge: () => void): Promise<void> {
    try {
      await this.#refreshDirectory(DIRECTORY_RETRY_MS);
    } catch (error) {
      console.warn('directory not read', { error: String(error) });
      this.#sendDeliveries(confirms([pending], () => false));
      return;
    }
    const siteId = findSite(this.#directory, key.allowedPlantIds, wanted);
    if (this.#hasEnded()) return;
    if (siteId) {
      judge();
      await this.#lanes.submit(siteId, pending);
      return;
    }
    this.#rejectUnknownSite(key, wanted, pending);
  }

  /** Unknown, foreign and not allowed: one same text, no log row [C-7.1]. */
  #rejectUnknownSite(key: VhostKey, wanted: string, pending: Pending): void {
    const { messageId, correlationId, family } = pending.submission;
    const payload = {
      status: 'REJECTED',
      commandType: FAMILY_RULES[family].commandType,
      message: 'no such site',
      rejectionCode: 'DEVICE_OFFLINE',
    };
    const event: PassingEvent = {
      kind: 'ack',
      messageId: derivedUuid(`unknown-site|${key.keyId}|${messageId}`),
      correlationId: correlationId ?? messageId,
      atMs: this.#now(),
      payloadText: signableJson(payload),
    };
    this.#commit(() => {
      this.#broker.push(
        EVENT_QUEUES.ack,
        eventMessage(key.slug, this.#openSigningKey(), wanted, event),
        event.atMs,
      );
    });
    this.#sendDeliveries(confirms([pending], () => true));
  }

  async #submit(
    stub: ReturnType<Env['SITE']['get']>,
    siteId: string,
    submissions: Submission[],
  ): Promise<SubmitAnswer> {
    const { keyId = '', keyPrefix = '' } = this.#key ?? {};
    const received = this.#received.get(siteId) ?? 0;
    return await stub.submit({ siteId, keyId, keyPrefix, received, submissions });
  }

  /** The acknowledgements are stored before their publishes are confirmed (rule 5). */
  #finish(siteId: string, answer: SubmitAnswer, batch: readonly Pending[]): void {
    if (this.#hasEnded()) return;
    this.#commit(() => {
      this.#storeEvents(siteId, answer.events);
      this.#broker.pump(this.#now());
    });
    this.#sendDeliveries(confirms(batch, (index) => answer.outcomes[index] === 'recorded'));
  }

  // events

  /** Inside the caller's transaction. Drops what came before, by (site, sequence). */
  #storeEvents(siteId: string, events: readonly OutboxEvent[]): void {
    const before = this.#received.get(siteId) ?? 0;
    let last = before;
    for (const event of events) {
      if (event.sequence <= last) continue;
      this.#pushEvent(siteId, event);
      last = event.sequence;
    }
    if (last === before) return;
    this.#storage.setReceived(siteId, last);
    this.#received.set(siteId, last);
  }

  #pushEvent(siteId: string, event: PassingEvent): void {
    const key = this.#key;
    if (!key || key.firstConnectedAtMs === null || this.#hasEnded()) return;
    if (key.allowedPlantIds && !key.allowedPlantIds.includes(siteId)) return;
    const message = eventMessage(key.slug, this.#openSigningKey(), siteId, event);
    this.#broker.push(EVENT_QUEUES[event.kind], message, this.#now());
  }

  /** Delivers what may be delivered now, and sends it together with `answers`, answers first. */
  #sendDeliveries(answers: Map<string, VhostLinkDown[]> = new Map()): void {
    if (this.#broker.hasDeliverable) this.#commit(() => this.#broker.pump(this.#now()));
    const frames = this.#broker.takeFrames();
    for (const [connectionId, first] of answers) {
      const all = [...first, ...(frames.get(connectionId) ?? [])];
      frames.delete(connectionId);
      if (all.length > 0) this.#sockets.send(connectionId, all);
      else this.#sockets.storeWindow(connectionId);
    }
    for (const [connectionId, deliveries] of frames) this.#sockets.send(connectionId, deliveries);
    this.#scheduleFlush();
  }

  #scheduleFlush(): void {
    if (this.#settleTimer === null && this.#broker.isDirty) {
      this.#settleTimer = setTimeout(() => {
        this.#settleTimer = null;
        this.#commit(() => {});
      }, SETTLE_FLUSH_MS);
    }
    if (this.#flushTimer !== null || !this.#broker.telemetry.hasUnstored) return;
    this.#flushTimer = setTimeout(() => {
      this.#flushTimer = null;
      this.#commit(() => this.#broker.telemetry.flush());
    }, TELEMETRY_FLUSH_MS);
  }

  // shared mechanics

  /** Ends connections: what they held goes back, their consumers are gone, others take over. */
  #forget(connectionIds: readonly string[], code?: number, reason?: string): void {
    if (connectionIds.length === 0) return;
    for (const id of connectionIds) this.#sockets.drop(id, code, reason);
    this.#commit(() => {
      for (const id of connectionIds) this.#broker.closeConnection(id);
    });
    this.#sendDeliveries();
  }

  /** Half-open connections: no sign of life for a minute (rule 2). */
  #forgetSilent(now: number): void {
    const silent = this.#sockets
      .ids()
      .filter((id) => now - this.#sockets.lastSignOfLifeMs(id) > SIGN_OF_LIFE_MS);
    this.#forget(silent, CLOSE_CODES.takenOver, 'no sign of life');
  }

  #hasEnded(): boolean {
    const key = this.#key;
    if (!key || key.revokedAtMs !== null) return true;
    return key.expiresAtMs !== null && key.expiresAtMs <= this.#now();
  }

  #closeEnded(key: VhostKey): void {
    this.#endKey(key, key.revokedAtMs === null ? CLOSE_CODES.expired : CLOSE_CODES.revoked);
  }

  #commit(work: () => void): void {
    try {
      this.#storage.transaction(() => {
        work();
        this.#broker.save();
      });
    } catch (error) {
      console.error('write failed', { error });
      this.ctx.abort('write failed');
      throw error;
    }
  }

  #newBroker(): Broker {
    return new Broker(this.#storage, this.#sockets, () => this.#now());
  }

  #useKey(key: VhostKey | undefined): void {
    this.#key = key;
    this.#signingKey = undefined;
    this.#scopes = effectiveScopes((key?.scopes ?? []) as ApiKeyScope[]);
  }

  #openSigningKey(): string {
    const key = this.#key;
    if (!key) throw new Error('a vhost without a key signs nothing');
    this.#signingKey ??= this.#secretBox.open(`key:${key.keyId}`, key.signingKeySealed);
    return this.#signingKey;
  }

  #names(key: VhostKey): { slug: string; vhost: string } {
    return { slug: key.slug, vhost: key.vhost };
  }

  #refreshDirectoryInBackground(): void {
    this.#keepAlive(
      this.#refreshDirectory(DIRECTORY_REFRESH_MS).catch((error: unknown) => {
        console.warn('directory not read', { error: String(error) });
      }),
    );
  }

  /** Reads the directory unless it is younger than that; one read at a time. */
  async #refreshDirectory(maxAgeMs: number): Promise<void> {
    const key = this.#key;
    if (!key || this.#now() - this.#directoryReadAtMs < maxAgeMs) return;
    this.#directoryRead ??= readDirectory(this.env.DB, key.organizationId)
      .then((directory) => {
        const text = JSON.stringify(directory);
        const isSame = text === JSON.stringify(this.#directory);
        this.#directory = directory;
        this.#directoryReadAtMs = this.#now();
        // A larger one is read again at each wake.
        if (!isSame && text.length <= MAX_STORED_DIRECTORY_CHARS)
          this.#storage.setFact('directory', directory);
      })
      .finally(() => {
        this.#directoryRead = undefined;
      });
    await this.#directoryRead;
  }

  #keepAlive(work: Promise<void> | undefined): void {
    if (work) this.ctx.waitUntil(work);
  }

  #now(): number {
    this.#lastNowMs = Math.max(this.#lastNowMs, Date.now());
    return this.#lastNowMs;
  }
}

/** What of a batch is decided here, in its order: a frame, or a publish for the dead-letter queue. */
type VhostWrite = { frame: Exclude<VhostLinkUp, PublishFrame> } | { malformed: PublishFrame; reason: string };

/** Frames that change memory alone, until the next write takes them along. */
function isMemoryOnly(write: VhostWrite): boolean {
  if (!('frame' in write)) return false;
  const { frame } = write;
  return frame.kind === 'credit' || (frame.kind === 'settle' && frame.outcome === 'ack');
}

/** The envelope of a publish, or why it is malformed. */
function readEnvelope(frame: PublishFrame): Result<Envelope, string> {
  return frame.encoding === 'base64' ? refuse('not UTF-8') : parseEnvelope(frame.body);
}

/** One frame per connection and outcome: the publishes that are recorded, and those that are not. */
function confirms(
  batch: readonly Pending[],
  isRecorded: (index: number) => boolean,
): Map<string, VhostLinkDown[]> {
  const frames = new Map<string, VhostLinkDown[]>();
  batch.forEach(({ connectionId, seq }, index) => {
    const kind = isRecorded(index) ? 'stored' : 'unstored';
    const own = frames.get(connectionId) ?? [];
    const known = own.find((frame) => frame.kind === kind);
    if (known?.kind === kind) known.seqs.push(seq);
    else own.push({ kind, seqs: [seq] });
    frames.set(connectionId, own);
  });
  return frames;
}

function refusedFrame(seq: number, refusal: AmqpRefusal): VhostLinkDown {
  return { kind: 'refused', seq, ...refusal };
}
