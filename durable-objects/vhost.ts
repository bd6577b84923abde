/**
 * The broker of one API key: its queues, its clients' sockets, its publishes on their way to Sites. This class is
 * the hub: RPC, WebSocket events and the alarm come in here, the rules stand in vhost/. It is the authority over its
 * clients: a key revoked here is dead here, whatever D1 says (rule 6).
 */
import { DurableObject } from 'cloudflare:workers';
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
import { AlarmClock } from './alarm-clock.ts';
import type { Env } from './env.ts';
import type { OutboxEvent, PassingEvent, Receipt } from './exchange.ts';
import { DIAL_HEADER, notFoundResponse, refusalResponse } from './refusal-response.ts';
import { SecretBox } from './secret-box.ts';
import { closeQuietly } from './sockets.ts';
import { authorizePublish } from './vhost/authorize.ts';
import { Broker } from './vhost/broker.ts';
import { applyFrame, deadLetter, isMemoryOnly, refusedFrame } from './vhost/client-frames.ts';
import { type ClientDial, ClientSockets } from './vhost/client-sockets.ts';
import { DIRECTORY_REFRESH_MS, DirectoryHolder } from './vhost/directory.ts';
import { EventIntake } from './vhost/intake.ts';
import { KeyHolder, type VhostGrant } from './vhost/key-holder.ts';
import { readEnvelope } from './vhost/publish.ts';
import { type Publish, Publisher } from './vhost/publisher.ts';
import type { VhostKey } from './vhost/schema.ts';
import { VhostStorage } from './vhost/storage.ts';

/** [C-6.3] */
const MAX_CONNECTIONS = 10;
/** What a crash may cost of telemetry events [C-6.4]. */
const TELEMETRY_FLUSH_MS = 60_000;
/** How long acknowledgements wait for a transaction to ride in, before they get one of their own. */
const SETTLE_FLUSH_MS = 100;

/** What of a batch is decided here, in its order: a frame, or a publish for the dead-letter queue. */
type Write = { frame: Exclude<VhostLinkUp, PublishFrame> } | { malformed: PublishFrame; reason: string };

/** Frames for connections. */
type Answers = Map<string, VhostLinkDown[]>;

/** Events that wait for their transaction, and what is answered once they are in. */
interface Waiting {
  take: () => void;
  answers: Answers;
  done: (isStored: boolean) => void;
}

export class Vhost extends DurableObject<Env> {
  readonly #storage: VhostStorage;
  readonly #sockets: ClientSockets;
  readonly #keys: KeyHolder;
  readonly #directory: DirectoryHolder;
  readonly #intake: EventIntake;
  readonly #publisher: Publisher;
  #broker: Broker;
  #waiting: Waiting[] = [];
  #isStoring = false;
  #flushTimer: number | null = null;
  #settleTimer: number | null = null;
  readonly #alarm: AlarmClock;
  #lastNowMs = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    this.#storage = new VhostStorage(ctx.storage);
    this.#alarm = new AlarmClock(ctx.storage, () => this.#now());
    this.#sockets = new ClientSockets(ctx, this.#storage, () => this.#now());
    this.#keys = new KeyHolder(this.#storage, new SecretBox(env.DATA_KEYS));
    this.#directory = new DirectoryHolder(env.DB, this.#storage);
    this.#broker = this.#newBroker();
    this.#intake = new EventIntake(this.#storage, this.#keys, (queue, message) =>
      this.#broker.push(queue, message, this.#now()),
    );
    this.#publisher = new Publisher(
      {
        now: () => this.#now(),
        hasEnded: () => this.#hasEnded(),
        keepAlive: (work) => this.#keepAlive(work),
        receivedFrom: (siteId) => this.#intake.receivedFrom(siteId),
        store: (siteId, events, answers) => this.#store(() => this.#intake.store(siteId, events), answers),
        reject: (siteId, event, answers) => this.#store(() => this.#intake.tell(siteId, event), answers),
        answer: (answers) => this.#sendDeliveries(answers),
      },
      this.#keys,
      this.#directory,
      env.SITE,
    );
    this.#forget(this.#sockets.missing());
    void ctx.blockConcurrencyWhile(async () => {
      await this.#alarm.load();
      this.#arm();
    });
  }

  // RPC: the key

  /** Makes this the vhost of a key. Idempotent; a revoked key stays revoked. */
  open(grant: VhostGrant): void {
    this.#keys.open(grant);
    this.#arm();
  }

  /**
   * Revokes here: durable, sockets closed, queues gone; a call to a Site that was under way has ended when this
   * returns. D1 follows (rule 6). A key that was never opened stays revoked when it is.
   */
  async revoke(): Promise<void> {
    const now = this.#now();
    this.#storage.setFact('revoked', now);
    const { key } = this.#keys;
    if (key) this.#endKey({ ...key, revokedAtMs: key.revokedAtMs ?? now });
    await this.#publisher.idle();
  }

  /** The end of a key, by revocation or time: nothing of its queues is left [C-5.6]. */
  #endKey(key: VhostKey): void {
    const code = key.revokedAtMs === null ? CLOSE_CODES.expired : CLOSE_CODES.revoked;
    for (const id of this.#sockets.ids()) this.#sockets.drop(id, code, 'key ended');
    this.#storage.transaction(() => {
      this.#keys.save(key);
      this.#storage.deleteQueues();
    });
    this.#broker = this.#newBroker();
    this.#intake.clear();
  }

  // RPC: events from Sites

  /** Stores events of a Site's outbox, each once, in order. */
  async receive(siteId: string, events: OutboxEvent[]): Promise<Receipt> {
    const isStored = !this.#hasEnded() && (await this.#store(() => this.#intake.store(siteId, events)));
    return isStored
      ? { received: this.#intake.receivedFrom(siteId), gone: false }
      : { received: 0, gone: true };
  }

  /** Takes events that a crash may lose. */
  async receivePassing(siteId: string, events: PassingEvent[]): Promise<'taken' | 'gone'> {
    if (this.#hasEnded()) return 'gone';
    const isTaken = await this.#store(() => {
      for (const event of events) this.#intake.pass(siteId, event);
    });
    return isTaken ? 'taken' : 'gone';
  }

  // client sockets

  /** The upgrade of an authenticated client: the Worker's dial is in a header that no client can set. */
  override async fetch(request: Request): Promise<Response> {
    const header = request.headers.get(DIAL_HEADER);
    if (!header || request.headers.get('upgrade') !== 'websocket') return notFoundResponse();
    const dial = JSON.parse(header) as ClientDial;
    const now = this.#now();
    if (this.#storage.hasSeenConnection(dial.connection)) return notFoundResponse();
    const { key } = this.#keys;
    if (!key || this.#hasEnded()) return refusalResponse('UNAUTHORIZED', 'Invalid API key');
    this.#forget(this.#sockets.ofOlderBoots(dial), CLOSE_CODES.takenOver, 'new boot');
    this.#forgetSilent(now);
    if (this.#sockets.count >= MAX_CONNECTIONS) {
      return refusalResponse('CONFLICT', `connection limit (${MAX_CONNECTIONS}) is reached`);
    }
    this.#commit(() => {
      this.#sockets.recordDial(dial, now);
      if (key.firstConnectedAtMs === null) this.#keys.save({ ...key, firstConnectedAtMs: now });
    });
    const socket = this.#sockets.open(dial, now);
    this.#refreshDirectoryInBackground(key);
    this.#arm();
    return new Response(null, { status: 101, webSocket: socket, headers: { [VHOST_HEADER]: key.vhost } });
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    const connectionId = this.#sockets.current(socket);
    const { key } = this.#keys;
    if (connectionId === undefined || !key) return;
    const now = this.#now();
    if (this.#hasEnded()) {
      this.#endKey(key);
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
    this.#alarm.rang();
    try {
      const { key } = this.#keys;
      if (key && this.#hasEnded()) this.#endKey(key);
      this.#forgetSilent(this.#now());
    } catch (error) {
      console.error('agenda failed', { error });
    } finally {
      this.#arm();
    }
  }

  /** The next sign of life that is due, and the key's own end. */
  #arm(): void {
    const candidates = this.#sockets
      .ids()
      .map((id) => this.#sockets.lastSignOfLifeMs(id) + SIGN_OF_LIFE_MS + 1);
    const expiresAtMs = this.#keys.key?.expiresAtMs ?? null;
    if (expiresAtMs !== null && !this.#hasEnded()) candidates.push(expiresAtMs);
    this.#alarm.arm(candidates.length === 0 ? undefined : Math.min(...candidates));
  }

  // one batch of a client's frames

  /** What is decided here is answered at once; publishes for Sites are answered by their lanes. */
  #take(connectionId: string, key: VhostKey, frames: readonly VhostLinkUp[], now: number): void {
    // 1. judge the publishes; nothing is written yet
    const answers: VhostLinkDown[] = [];
    const publishes: Publish[] = [];
    const writes: Write[] = [];
    for (const frame of frames) {
      if (frame.kind !== 'publish') {
        writes.push({ frame });
        continue;
      }
      const { exchange, routingKey } = frame;
      const allowed = authorizePublish(this.#keys.names(), this.#keys.scopes, exchange, routingKey);
      const envelope = allowed.ok ? readEnvelope(frame) : undefined;
      if (!allowed.ok) answers.push(refusedFrame(frame.seq, allowed.refusal));
      else if (envelope?.ok) publishes.push({ frame, family: allowed.value, envelope: envelope.value });
      else writes.push({ malformed: frame, reason: envelope?.refusal ?? '' });
    }

    // 2. write once, where anything is to be written; acknowledgements and credit wait for a write to ride in
    if (!this.#write(connectionId, writes, answers, now)) {
      // One frame that cannot be handled ends its own connection, and memory is read back from what stands.
      this.#broker = this.#newBroker();
      this.#forget([connectionId], CLOSE_CODES.protocolError, 'a frame could not be handled');
      return;
    }

    // 3. answer, deliver, and hand on
    this.#sendDeliveries(new Map([[connectionId, answers]]));
    this.#refreshDirectoryInBackground(key);
    for (const publish of publishes) this.#publisher.publish(connectionId, key, publish, now);
  }

  /** One transaction, each frame in a savepoint of its own. False when one of them failed. */
  #write(connectionId: string, writes: readonly Write[], answers: VhostLinkDown[], now: number): boolean {
    const broker = this.#broker;
    const client = { connectionId, names: this.#keys.names(), broker, connections: this.#sockets };
    const apply = (write: Write) => {
      if ('frame' in write) answers.push(...applyFrame(client, write.frame, now));
      else answers.push(deadLetter(broker, write.malformed, write.reason, now));
    };
    if (writes.every((write) => 'frame' in write && isMemoryOnly(write.frame))) {
      for (const write of writes) apply(write);
      return true;
    }
    let allDone = true;
    this.#commit(() => {
      for (const write of writes) {
        try {
          this.#storage.transaction(() => apply(write));
        } catch (error) {
          console.error('frame failed', { error });
          allDone = false;
          return;
        }
      }
    });
    return allDone;
  }

  // events and deliveries

  /**
   * Stores events and hands out in one transaction, then sends what that left, `answers` first (rule 5). The first
   * goes at once; what comes while its write is under way shares the next transaction. False when the key has ended.
   */
  #store(take: () => void, answers: Answers = new Map()): Promise<boolean> {
    return new Promise((resolve) => {
      this.#waiting.push({ take, answers, done: resolve });
      if (this.#isStoring) return;
      this.#isStoring = true;
      this.#keepAlive(this.#storeWaiting());
    });
  }

  async #storeWaiting(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting;
        this.#waiting = [];
        const isAlive = !this.#hasEnded();
        if (isAlive) this.#storeBatch(batch);
        for (const { done } of batch) done(isAlive);
        await this.ctx.storage.sync();
      }
    } finally {
      this.#isStoring = false;
    }
  }

  #storeBatch(batch: readonly Waiting[]): void {
    this.#commit(() => {
      for (const { take } of batch) take();
      this.#broker.pump(this.#now());
    });
    const answers: Answers = new Map();
    for (const [connectionId, frames] of batch.flatMap((waiting) => [...waiting.answers])) {
      const own = answers.get(connectionId);
      if (own) own.push(...frames);
      else answers.set(connectionId, [...frames]);
    }
    this.#sendDeliveries(answers);
  }

  /** Delivers what may be delivered now, and sends it together with `answers`, answers first. */
  #sendDeliveries(answers: Answers = new Map()): void {
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
    return this.#keys.hasEnded(this.#now());
  }

  /** One transaction. When it fails the object starts over from what is stored, and its clients come again. */
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

  #refreshDirectoryInBackground(key: VhostKey): void {
    this.#keepAlive(
      this.#directory
        .refresh(key.organizationId, DIRECTORY_REFRESH_MS, () => this.#now())
        .catch((error: unknown) => {
          console.warn('directory not read', { error: String(error) });
        }),
    );
  }

  #keepAlive(work: Promise<void> | undefined): void {
    if (work) this.ctx.waitUntil(work);
  }

  #now(): number {
    this.#lastNowMs = Math.max(this.#lastNowMs, Date.now());
    return this.#lastNowMs;
  }
}
