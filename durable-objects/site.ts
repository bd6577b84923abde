/**
 * Everything about one plant, serialized: its devices' sockets, its commands, its telemetry. This class is the hub:
 * RPC, WebSocket events and the alarm come in here, the rules stand in site/. What every handler keeps to (rule 3):
 * judge without writing, write once, then change memory, then answer; a failed write aborts the object.
 */
import { DurableObject } from 'cloudflare:workers';
import type { SiteConfig } from '../protocol/config.ts';
import { commandMessage } from '../protocol/device.ts';
import type { DeviceType } from '../protocol/enums.ts';
import {
  CLOSE_CODES,
  type DeviceLinkDown,
  type DeviceLinkUp,
  deviceLinkUp,
  PING,
  PONG,
  parseFrames,
} from '../protocol/link.ts';
import { commandSigningString } from '../protocol/signing.ts';
import type { CanonicalTelemetry } from '../protocol/telemetry.ts';
import { AlarmClock } from './alarm-clock.ts';
import type { Env } from './env.ts';
import type { OutboxEvent, SubmissionBatch } from './exchange.ts';
import { hmacHex } from './hmac.ts';
import { DIAL_HEADER, notFoundResponse, refusalResponse } from './refusal-response.ts';
import { applyAck, runDueDispatch, sendUnacknowledged } from './site/command/execution.ts';
import { recordSubmission } from './site/command/submit.ts';
import { BatchFindings } from './site/device-frames.ts';
import { type DeviceDial, DeviceSessions } from './site/device-session.ts';
import { Effects } from './site/effects.ts';
import { Outbox } from './site/outbox.ts';
import { SESSION_GONE_MS } from './site/presence.ts';
import { PresenceKeeper } from './site/presence-keeper.ts';
import { type CommandPage, type ConfigSnapshot, readCommands, readConfig } from './site/reads.ts';
import { RegistryHolder } from './site/registry.ts';
import type { DispatchRow } from './site/schema.ts';
import { SiteState } from './site/state.ts';
import { SiteStorage } from './site/storage.ts';
import { TelemetryFeed } from './site/telemetry/feed.ts';
import { append } from './site/telemetry/journal.ts';
import { closeQuietly, sendFrames } from './sockets.ts';

/** Dispatches that one alarm looks at; the rest follow at once in the next. */
const DUE_PER_ALARM = 200;
/** When a due dispatch that could not be handled is looked at again. */
const STEP_RETRY_MS = 60_000;
/** How often a busy plant's presence is looked at. */
const PRESENCE_CHECK_MS = 1_000;
const JOURNAL_RETENTION_MS = 92 * 24 * 3_600_000;
/** [C-7.3] */
const MESSAGE_MEMORY_MS = 7 * 24 * 3_600_000;
/** Forgetting reads the whole table: no more than this often. */
const FORGET_INTERVAL_MS = 24 * 3_600_000;

/** A device as its provisioning hands it over. */
export interface DeviceGrant {
  siteId: string;
  plantId: string | null;
  deviceId: string;
  type: DeviceType;
  /** 64 hex characters. */
  hmacSecret: string;
}

/** What a submit answers: each submission recorded or failed, and the events that its Vhost does not have yet. */
export interface SubmitAnswer {
  outcomes: ('recorded' | 'failed')[];
  events: OutboxEvent[];
}

export class Site extends DurableObject<Env> {
  readonly #state: SiteState;
  readonly #outbox: Outbox;
  readonly #registry: RegistryHolder;
  readonly #presence: PresenceKeeper;
  readonly #feed: TelemetryFeed;
  readonly #alarm: AlarmClock;
  #messagesForgottenAtMs = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    const storage = new SiteStorage(ctx.storage);
    const sessions = new DeviceSessions(ctx, storage);
    this.#state = new SiteState(storage, sessions, env.DATA_KEYS);
    this.#outbox = new Outbox(this.#state, env);
    this.#registry = new RegistryHolder(this.#state, env.DB, (work) => ctx.waitUntil(work));
    this.#presence = new PresenceKeeper(this.#state);
    this.#feed = new TelemetryFeed(this.#state, ctx, env);
    this.#alarm = new AlarmClock(ctx.storage, () => this.#state.now());
    sessions.reconcile(this.#state.now());
    void ctx.blockConcurrencyWhile(async () => {
      await this.#alarm.load();
      this.#arm();
    });
  }

  // RPC: administration

  /** Takes a provisioned device in. The same grant again changes nothing; a decommissioned device stays so. */
  adoptDevice(grant: DeviceGrant): void {
    this.#identify(grant.siteId);
    const state = this.#state;
    const known = state.sessions.device(grant.deviceId);
    if (known?.status === 'DECOMMISSIONED') return;
    const isSameSecret = known !== undefined && state.secret(known).text === grant.hmacSecret;
    if (isSameSecret && known.type === grant.type) return;
    state.storage.putDevice({
      id: grant.deviceId,
      type: grant.type,
      secret_sealed: isSameSecret ? known.secret_sealed : state.sealSecret(grant.deviceId, grant.hmacSecret),
      secret_form: isSameSecret ? known.secret_form : 'text',
    });
    state.sessions.reload();
  }

  /** Suspends, reactivates or, for good, decommissions a device here, where it takes effect at once (rule 6). */
  setDeviceStatus(deviceId: string, status: 'ACTIVE' | 'SUSPENDED' | 'DECOMMISSIONED'): void {
    if (this.#state.sessions.device(deviceId)?.status === 'DECOMMISSIONED') return;
    if (status === 'DECOMMISSIONED') this.#state.storage.decommissionDevice(deviceId);
    else this.#state.storage.setDeviceStatus(deviceId, status);
    this.#state.sessions.reload();
    if (status === 'ACTIVE') return;
    this.#state.sessions.cut(deviceId, CLOSE_CODES.revoked, status, this.#state.now());
    this.#afterSessionChange();
  }

  configure(siteId: string, config: SiteConfig): void {
    this.#identify(siteId);
    this.#state.storage.setFact('config', config);
    this.#state.config = config;
  }

  // RPC: commands

  /** Records a batch of one key's publishes, all in one transaction, in order. */
  async submit(batch: SubmissionBatch): Promise<SubmitAnswer> {
    await this.#ready(batch.siteId);
    const state = this.#state;
    const now = state.now();
    const outcomes: SubmitAnswer['outcomes'] = [];
    this.#outbox.noteReceived(batch.keyId, batch.received);
    const effects = this.#write((all) => {
      for (const submission of batch.submissions) {
        outcomes.push(this.#step(all, (step) => recordSubmission(state, step, batch, submission, now)));
      }
    });
    const { events, isAll } = this.#outbox.handOver(batch.keyId);
    this.#arm();
    // The partner's answer first, then the devices: both wait for the commit, and the answer has the longer way.
    const performed = this.ctx.storage
      .sync()
      .then(() => this.#perform(effects, isAll ? batch.keyId : undefined));
    this.ctx.waitUntil(performed);
    return { outcomes, events };
  }

  // RPC: reads

  async readConfig(siteId: string): Promise<ConfigSnapshot> {
    await this.#ready(siteId);
    return readConfig(this.#state, siteId, this.#state.now());
  }

  async readCommands(siteId: string, page: number, pageSize: number): Promise<CommandPage> {
    await this.#ready(siteId);
    return readCommands(this.#state, siteId, page, pageSize);
  }

  async readLatestTelemetry(siteId: string): Promise<{ timestamp: string; payload: CanonicalTelemetry }> {
    await this.#ready(siteId);
    return this.#feed.latest(this.#state.now());
  }

  /** Messages dropped, by reason: what a device is never told [C-3.8]; and the rows written since this wake. */
  diagnostics(deviceId: string): { dropped: { reason: string; count: number }[]; rowsWritten: number } {
    const dropped = this.#state.storage
      .droppedMessages(deviceId)
      .map(({ reason, count }) => ({ reason, count }));
    return { dropped, rowsWritten: this.#state.storage.rowsWritten };
  }

  // device sockets

  /** The upgrade of an authenticated device: the Worker's dial is in a header that no client can set. */
  override async fetch(request: Request): Promise<Response> {
    const header = request.headers.get(DIAL_HEADER);
    if (!header || request.headers.get('upgrade') !== 'websocket') return notFoundResponse();
    const dial = JSON.parse(header) as DeviceDial;
    const { sessions } = this.#state;
    if (dial.plantId) await this.#ready(dial.siteId);
    // No await from here on: what is checked still holds when the socket is accepted.
    if (sessions.isReplay(dial)) return notFoundResponse();
    const device = sessions.device(dial.deviceId);
    if (!device) return refusalResponse('SERVICE_UNAVAILABLE', 'The device is not here yet');
    if (device.status !== 'ACTIVE') return refusalResponse('UNAUTHORIZED', 'The device is not active');
    const socket = sessions.accept(dial, this.#state.now());
    this.#afterSessionChange();
    return new Response(null, { status: 101, webSocket: socket });
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    const { sessions } = this.#state;
    const attachment = sessions.current(socket);
    const device = attachment && sessions.device(attachment.deviceId);
    if (!attachment || !device) return;
    const now = this.#state.now();
    if (device.status !== 'ACTIVE' || (device.session_expires_at_ms ?? Number.POSITIVE_INFINITY) <= now) {
      const code = device.status === 'ACTIVE' ? CLOSE_CODES.expired : CLOSE_CODES.revoked;
      sessions.cut(device.id, code, 'credential ended', now);
      this.#afterSessionChange();
      return;
    }
    const frames = parseFrames(deviceLinkUp, message);
    if (!frames.ok) {
      closeQuietly(socket, CLOSE_CODES.protocolError, frames.refusal);
      return;
    }
    const wasLive = sessions.isLive(device.id, now);
    sessions.noteFrame(device.id, now);
    this.#receive(socket, device.id, frames.value, now, wasLive);
  }

  override webSocketClose(socket: WebSocket): void {
    closeQuietly(socket, 1000, '');
    if (this.#state.sessions.closed(socket, this.#state.now())) this.#afterSessionChange();
  }

  override webSocketError(socket: WebSocket): void {
    this.webSocketClose(socket);
  }

  // agenda

  override async alarm(): Promise<void> {
    this.#alarm.rang();
    try {
      const now = this.#state.now();
      this.#runDue(now);
      this.#feed.emitIfDue(now);
      this.#registry.refreshInBackground();
      // Not awaited: a slow destination delays no other due time.
      this.ctx.waitUntil(this.#outbox.drainDue(now).then(() => this.#arm()));
    } catch (error) {
      console.error('agenda failed', { error });
    } finally {
      this.#arm();
    }
  }

  #runDue(now: number): void {
    const { sessions, storage } = this.#state;
    for (const device of sessions.devices()) {
      if ((device.session_expires_at_ms ?? Number.POSITIVE_INFINITY) <= now) {
        sessions.cut(device.id, CLOSE_CODES.expired, 'token expired', now);
      } else if (device.connection_id) {
        const lastSignMs = sessions.lastSignOfLifeMs(device.id) ?? device.connected_at_ms ?? now;
        if (now - lastSignMs < SESSION_GONE_MS) continue;
        sessions.cut(device.id, CLOSE_CODES.takenOver, 'no sign of life', lastSignMs);
      }
    }
    const effects = this.#write((all) => {
      for (const row of storage.dueDispatches(now, DUE_PER_ALARM)) {
        const outcome = this.#step(all, (step) => runDueDispatch(this.#state, step, row, now));
        if (outcome === 'failed') storage.setDispatch(row.cmd_id, { ...row, due_at_ms: now + STEP_RETRY_MS });
      }
      this.#presence.update(all, now);
    });
    storage.reviseDispatchDue();
    this.#perform(effects);
  }

  #arm(): void {
    this.#alarm.arm(this.#nextDueMs());
  }

  #nextDueMs(): number | undefined {
    const { sessions, storage } = this.#state;
    const candidates = [storage.dispatchDueMs, this.#outbox.nextDueMs(), this.#presence.dueMs];
    for (const device of sessions.devices()) {
      if (!device.connection_id) continue;
      candidates.push(device.session_expires_at_ms ?? undefined);
      candidates.push((sessions.lastSignOfLifeMs(device.id) ?? 0) + SESSION_GONE_MS);
    }
    candidates.push(this.#feed.agendaMs());
    const known = candidates.filter((candidate) => candidate !== undefined);
    return known.length === 0 ? undefined : Math.min(...known);
  }

  // one batch of device frames

  #receive(
    socket: WebSocket,
    deviceId: string,
    frames: readonly DeviceLinkUp[],
    now: number,
    wasLive: boolean,
  ): void {
    const state = this.#state;
    const device = state.sessions.device(deviceId);
    const attachment = state.sessions.current(socket);
    if (!device || !attachment) return;

    // 1. judge each frame; nothing is written yet
    const findings = new BatchFindings();
    let subscribed: boolean | undefined;
    for (const frame of frames) {
      if (frame.kind === 'subscribed') subscribed = frame.commands;
      else findings.take(state, device, frame, now);
    }
    if (subscribed !== undefined) state.sessions.setSubscribed(deviceId, subscribed);
    // It listens now and did not before, or it was given up for silent: what waited for it goes out.
    const isBack = !wasLive && (subscribed ?? attachment.subscribed);

    // 2. write once
    const { head } = state.journal;
    const hasData = findings.entries.some((finding) => finding.data);
    const eventAtMs = hasData && this.#feed.isDue(now) ? now : (head?.eventAtMs ?? 0);
    let nextHead = head;
    const effects = this.#write((all) => {
      const entries = findings.entries.map((finding) => finding.entry);
      nextHead = append(state.storage, head, entries, now, eventAtMs, () => this.#onRollover(now));
      for (const [reason, count] of findings.dropped)
        state.storage.countDropped(deviceId, reason, count, now);
      if (findings.secretForm) state.storage.setSecretForm(deviceId, findings.secretForm);
      const reported = findings.entries.findLast((finding) => finding.status)?.status;
      if (reported && reported !== device.reported_status)
        state.storage.setReportedStatus(deviceId, reported);
      for (const { seq, ack } of findings.acks) {
        const outcome = this.#step(all, (step) =>
          applyAck(state, step, { deviceId, cmdId: ack.cmdId, status: ack.status }, now),
        );
        if (outcome === 'failed') findings.refuseAck(seq);
      }
      if (isBack) sendUnacknowledged(state, all, deviceId, now);
    });

    // 3. remember
    state.journal.head = nextHead;
    for (const { entry, data } of findings.entries) {
      state.journal.replay.remember(entry);
      if (data) state.journal.snapshot.apply(state.origin(deviceId), now, data);
    }
    if (findings.secretForm || findings.entries.some((finding) => finding.status)) state.sessions.reload();

    // 4. answer
    const answers: DeviceLinkDown[] = [];
    if (findings.stored.length > 0) answers.push({ kind: 'stored', seqs: findings.stored });
    for (const { seq, reason } of findings.refused) answers.push({ kind: 'refused', seq, reason });
    if (answers.length > 0) sendFrames(socket, answers);
    if (hasData) {
      this.#feed.note(eventAtMs === now, now);
      this.#registry.refreshInBackground();
    }
    const isChecked = hasData && now - this.#presence.checkedAtMs < PRESENCE_CHECK_MS;
    if (findings.entries.length > 0 && !isChecked) this.#refreshPresence(now);
    this.#perform(effects);
  }

  #onRollover(now: number): void {
    this.#state.storeSnapshot(now);
    this.#state.storage.deleteBlocksBefore(now - JOURNAL_RETENTION_MS);
    if (now - this.#messagesForgottenAtMs < FORGET_INTERVAL_MS) return;
    this.#messagesForgottenAtMs = now;
    this.#state.storage.forgetMessagesBefore(now - MESSAGE_MEMORY_MS);
  }

  // presence

  #afterSessionChange(): void {
    this.#refreshPresence(this.#state.now());
    this.#arm();
  }

  /** Writes presence only when it changed. */
  #refreshPresence(now: number): void {
    this.#perform(this.#write((effects) => this.#presence.update(effects, now)));
  }

  // shared mechanics

  /**
   * One transaction, its events last, and what has arrived of earlier ones deleted along with it. When it fails the
   * object starts over from what is stored, and its clients send again.
   */
  #write(work: (effects: Effects) => void): Effects {
    const { storage } = this.#state;
    const effects = new Effects();
    try {
      const rows = storage.transaction(() => {
        work(effects);
        this.#outbox.deleteReceived();
        return storage.insertOutbox(effects.outbox);
      });
      this.#outbox.add(rows);
      return effects;
    } catch (error) {
      console.error('write failed', { error });
      this.ctx.abort('write failed');
      throw error;
    }
  }

  /** One item of a batch in a savepoint of its own: when it fails it alone is undone. */
  #step(effects: Effects, work: (step: Effects) => void): 'recorded' | 'failed' {
    const step = new Effects();
    try {
      this.#state.storage.transaction(() => work(step));
      effects.add(step);
      return 'recorded';
    } catch (error) {
      console.error('step failed', { error });
      this.#state.reloadConfig();
      return 'failed';
    }
  }

  /** After the commit: commands to their devices, events to their lanes, the alarm. `handedOver` is the caller's own lane. */
  #perform(effects: Effects, handedOver?: string): void {
    const now = this.#state.now();
    for (const row of effects.dispatches) this.#sendCommand(row, now);
    const lanes = new Set(effects.outbox.map((row) => row.lane));
    if (handedOver !== undefined) lanes.delete(handedOver);
    if (lanes.size > 0) this.ctx.waitUntil(this.#outbox.drain(lanes).then(() => this.#arm()));
    this.#arm();
  }

  /** Signed with a fresh `ts` at every dispatch [C-3.9]. */
  #sendCommand(row: DispatchRow, now: number): void {
    const device = this.#state.sessions.device(row.device_id);
    if (!device) return;
    const { cmd_id: cmdId, action, payload: payloadText } = row;
    const signingString = commandSigningString(device.id, cmdId, now, action, payloadText);
    const sig = hmacHex(this.#state.commandKey(device), signingString);
    const payload = commandMessage({ cmdId, ts: now, action, payloadText, sig });
    this.#state.sessions.send(device.id, [{ kind: 'command', payload }]);
  }

  #identify(siteId: string): void {
    if (this.#state.siteId === siteId) return;
    this.#state.storage.setFact('identity', { siteId });
    this.#state.siteId = siteId;
  }

  /** The site knows who it is and what it consists of before it decides anything. */
  async #ready(siteId: string): Promise<void> {
    this.#identify(siteId);
    await this.#registry.ready();
  }
}
