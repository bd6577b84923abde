/**
 * Everything about one plant, serialized: its devices' sockets, its commands, its telemetry. This class is the hub:
 * RPC, WebSocket events and the alarm come in here; what they do stands in site/.
 */
import { DurableObject } from 'cloudflare:workers';
import type { CommandLogPage } from '../protocol/command-log.ts';
import { parseFrames } from '../protocol/link/batch.ts';
import { deviceLinkUp } from '../protocol/link/device.ts';
import { CLOSE_CODES, PING, PONG } from '../protocol/link/live.ts';
import { LINK_VERSION, LINK_VERSION_HEADER } from '../protocol/link/proof.ts';
import type { SiteConfig } from '../protocol/site-config.ts';
import type { CanonicalTelemetry } from '../protocol/telemetry.ts';
import type { Env } from './env.ts';
import { Agenda } from './object/agenda.ts';
import { AlarmClock } from './object/alarm-clock.ts';
import { migrate } from './object/migrate.ts';
import { closeQuietly, sendFrames } from './object/sockets.ts';
import {
  type ConfigAnswer,
  type ConfigPut,
  type DeviceDiagnostics,
  type DeviceDial,
  type DeviceGrant,
  notFoundResponse,
  readDial,
  refusalResponse,
  type SiteRpc,
  type SubmissionBatch,
  type SubmitAnswer,
} from './rpc.ts';
import { readCommands } from './site/command/log.ts';
import { recordSubmission } from './site/command/receive.ts';
import { configAnswer, putConfig } from './site/config/put.ts';
import { readConfig } from './site/config/snapshot.ts';
import { receiveFrames } from './site/device/receive.ts';
import { dispatchAgenda, plantChanged } from './site/dispatch/execution.ts';
import { SITE_MIGRATIONS } from './site/migrations.ts';
import { SiteParts } from './site/parts.ts';
import { planAgenda, settlePlan } from './site/plan/settle.ts';

export class Site extends DurableObject<Env> implements SiteRpc {
  readonly #site: SiteParts;
  readonly #agenda: Agenda;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    migrate(ctx.storage, SITE_MIGRATIONS);
    this.#site = new SiteParts(
      ctx,
      env,
      () => this.#agenda.arm(),
      (turn, isGone) => plantChanged(turn, this.#site, isGone),
      (turn) => settlePlan(turn, this.#site),
    );
    const { clock, turns, calls, sessions, presence, feed, outbox, retention } = this.#site;
    const sources = [
      sessions,
      planAgenda(this.#site),
      dispatchAgenda(this.#site),
      presence,
      feed,
      calls,
      outbox,
      retention,
    ];
    this.#agenda = new Agenda(sources, turns, new AlarmClock(ctx.storage, clock));
    if (sessions.isAnyMissing) {
      turns.run((turn) => sessions.reconcile(turn));
      presence.noteChange();
    }
    void ctx.blockConcurrencyWhile(() => this.#agenda.load());
  }

  // RPC: administration

  adoptDevice(grant: DeviceGrant): void {
    this.#site.identity.be(grant.siteId);
    this.#site.turns.attempt((turn) => this.#site.devices.adopt(turn, grant));
  }

  setDeviceStatus(deviceId: string, status: 'ACTIVE' | 'SUSPENDED' | 'DECOMMISSIONED'): void {
    const { devices, sessions, presence, turns } = this.#site;
    if (devices.find(deviceId)?.status === 'DECOMMISSIONED') return;
    turns.attempt((turn) => {
      devices.setStatus(turn, deviceId, status);
      if (status === 'ACTIVE') return;
      sessions.cut(turn, deviceId, CLOSE_CODES.revoked, status, turn.now);
      presence.update(turn);
    });
  }

  configure(siteId: string, config: SiteConfig): void {
    this.#site.identity.be(siteId);
    this.#site.turns.attempt((turn) => this.#site.configuration.configure(turn, config));
  }

  async readConfiguration(siteId: string): Promise<ConfigAnswer> {
    await this.#ready(siteId);
    return configAnswer(this.#site);
  }

  async putConfiguration(siteId: string, put: ConfigPut): Promise<ConfigAnswer> {
    await this.#ready(siteId);
    return this.#site.turns.run((turn) => putConfig(turn, this.#site, put));
  }

  async registryChanged(siteId: string, version: number): Promise<void> {
    this.#site.identity.be(siteId);
    await this.#site.registry.upTo(version);
  }

  // RPC: commands

  async submit(batch: SubmissionBatch): Promise<SubmitAnswer> {
    this.#site.identity.be(batch.siteId);
    await this.#site.registry.fresh();
    const { outbox, turns, clock } = this.#site;
    // Its Vhost has given these up: nothing of them may come true any more.
    if (clock.now() > (batch.notAfterMs ?? Number.POSITIVE_INFINITY)) {
      return { outcomes: batch.submissions.map(() => 'failed'), events: [] };
    }
    outbox.noteSeen(batch.keyId, batch.received, batch.seen);
    // The partner's answer first, then the devices: both wait for the commit, and the answer has the longer way.
    const sendLater = (send: () => void) => this.ctx.waitUntil(this.ctx.storage.sync().then(send));
    const outcomes = turns.run(
      (turn) =>
        batch.submissions.map((submission) =>
          turn.step(() => recordSubmission(turn, this.#site, batch, submission)) ? 'recorded' : 'failed',
        ),
      sendLater,
    );
    const events = outbox.handOver(batch.keyId);
    this.#agenda.arm();
    return { outcomes, events };
  }

  // RPC: reads

  async readConfig(siteId: string): Promise<string> {
    await this.#ready(siteId);
    return readConfig(this.#site, siteId, this.#site.clock.now()).text;
  }

  async readCommands(siteId: string, page: number, pageSize: number): Promise<CommandLogPage> {
    await this.#ready(siteId);
    return readCommands(this.#site, siteId, page, pageSize);
  }

  async readLatestTelemetry(siteId: string): Promise<{ timestamp: string; payload: CanonicalTelemetry }> {
    await this.#ready(siteId);
    return this.#site.feed.latest(this.#site.clock.now());
  }

  diagnostics(deviceId: string): DeviceDiagnostics {
    const { devices, turns } = this.#site;
    return { dropped: devices.dropped(deviceId), rowsWritten: turns.rowsWritten };
  }

  // device sockets

  /** The upgrade of an authenticated device. */
  override async fetch(request: Request): Promise<Response> {
    const dial = readDial<DeviceDial>(request);
    if (!dial) return notFoundResponse();
    const { devices, sessions, presence, turns } = this.#site;
    if (dial.plantId) await this.#ready(dial.siteId);
    // No await from here on: what is checked still holds when the socket is accepted.
    if (sessions.isReplay(dial)) return notFoundResponse();
    const device = devices.find(dial.deviceId);
    if (!device) return refusalResponse('SERVICE_UNAVAILABLE', 'The device is not here yet');
    if (device.status !== 'ACTIVE') return refusalResponse('UNAUTHORIZED', 'The device is not active');
    const socket = turns.run((turn) => {
      const opened = sessions.accept(turn, dial);
      presence.update(turn);
      return opened;
    });
    const headers = { [LINK_VERSION_HEADER]: String(LINK_VERSION) };
    return new Response(null, { status: 101, webSocket: socket, headers });
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    const { devices, sessions, presence, turns, clock } = this.#site;
    const attachment = sessions.current(socket);
    const device = attachment && devices.find(attachment.deviceId);
    if (!device) return;
    const now = clock.now();
    const cut = (code: number, reason: string) =>
      turns.run((turn) => {
        sessions.cut(turn, device.id, code, reason, now);
        presence.update(turn);
      });
    const hasExpired = (device.session_expires_at_ms ?? Number.POSITIVE_INFINITY) <= now;
    if (device.status !== 'ACTIVE' || hasExpired) {
      cut(device.status === 'ACTIVE' ? CLOSE_CODES.expired : CLOSE_CODES.revoked, 'credential ended');
      return;
    }
    const frames = parseFrames(deviceLinkUp, message);
    if (!frames.ok) cut(CLOSE_CODES.protocolError, frames.refusal);
    else receiveFrames(this.#site, device, frames.value, now, (answers) => sendFrames(socket, answers));
  }

  override webSocketClose(socket: WebSocket): void {
    closeQuietly(socket, 1000, '');
    const { sessions, presence, turns } = this.#site;
    if (!sessions.current(socket)) return;
    turns.run((turn) => {
      sessions.closed(turn, socket);
      presence.update(turn);
    });
  }

  override webSocketError(socket: WebSocket): void {
    this.webSocketClose(socket);
  }

  // agenda

  override alarm(): void {
    const { presence, registry, clock } = this.#site;
    // Readings within a second of the last look, a registry read anew: each alarm looks once more.
    if (presence.isStale(clock.now())) presence.noteChange();
    this.#agenda.run();
    registry.refreshInBackground();
  }

  /** The site knows who it is and what it consists of before it decides anything. */
  async #ready(siteId: string): Promise<void> {
    this.#site.identity.be(siteId);
    await this.#site.registry.ready();
  }
}
