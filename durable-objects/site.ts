/**
 * Everything about one plant, serialized: its devices' sockets, its commands, its telemetry. This class is the hub:
 * RPC, WebSocket events and the alarm come in here; what they do stands in site/.
 */
import { DurableObject } from 'cloudflare:workers';
import type { CommandLogPage } from '../protocol/command-log.ts';
import type { OwnCommand, TokenRenewal } from '../protocol/device-record.ts';
import type { DevicePage, DeviceQuery, HistoryQuery, JsonChunk } from '../protocol/history.ts';
import { PING, PONG } from '../protocol/link/live.ts';
import type { MeterReading } from '../protocol/meter.ts';
import type { SiteConfig } from '../protocol/site-config.ts';
import type { CanonicalTelemetry } from '../protocol/telemetry.ts';
import type { Env } from './env.ts';
import { Agenda } from './object/agenda.ts';
import { AlarmClock } from './object/alarm-clock.ts';
import { migrate } from './object/migrate.ts';
import { closeQuietly } from './object/sockets.ts';
import type { AuditEntry } from './registry/entries.ts';
import {
  type ConfigAnswer,
  type ConfigPut,
  type DeviceDial,
  type DeviceGrant,
  type DevicePack,
  type Diagnosis,
  notFoundResponse,
  type OwnCommandAnswer,
  type OwnCommandSubmission,
  type RefusedLogin,
  readDial,
  type SiteRpc,
  type SubmissionBatch,
  type SubmitAnswer,
} from './rpc.ts';
import { readCommands } from './site/command/log.ts';
import { submitBatch } from './site/command/submit.ts';
import { configAnswer, putConfig } from './site/config/apply.ts';
import { readConfig } from './site/config/snapshot.ts';
import { readDiagnostics } from './site/device/diagnostics.ts';
import { forgetDevice, noteRefusedLogin, rotateSecret, setDeviceStatus } from './site/device/lifecycle.ts';
import { acceptDial, receiveMessage } from './site/device/link.ts';
import { dropDevice, releaseDevice, takeDevice } from './site/device/move.ts';
import { proveRenewal } from './site/device/renewal.ts';
import { plantChanged } from './site/dispatch/execution.ts';
import { dueSources } from './site/due-sources.ts';
import { SITE_MIGRATIONS } from './site/migrations.ts';
import { findOwnCommand, pageOwnCommands, submitOwnCommand } from './site/own-command/own-commands.ts';
import { SiteParts } from './site/parts.ts';
import { settlePlan } from './site/plan/settle.ts';
import { readDeviceTelemetry, readHistory, readMeterState } from './site/telemetry/answers.ts';

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
    const { clock, turns, sessions, presence } = this.#site;
    const sources = dueSources(this.#site, ctx, env, () => this.#agenda.arm());
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

  setDeviceStatus(
    id: string,
    status: 'ACTIVE' | 'SUSPENDED' | 'DECOMMISSIONED',
    reason: string | null = null,
    audit?: AuditEntry,
  ) {
    return setDeviceStatus(this.#site, id, status, reason, audit);
  }

  forgetDevice(id: string): void {
    forgetDevice(this.#site, id);
  }

  rotateSecret(id: string, hmacSecret: string, audit?: AuditEntry) {
    return rotateSecret(this.#site, id, hmacSecret, audit);
  }

  proveRenewal(id: string, renewal: TokenRenewal): boolean {
    return proveRenewal(this.#site, id, renewal);
  }

  noteRefusedLogin(id: string, refused: RefusedLogin): void {
    noteRefusedLogin(this.#site, id, refused);
  }

  endSessionBy(id: string, atMs: number): void {
    this.#site.turns.run((turn) => this.#site.devices.endSessionBy(turn, id, atMs));
  }

  releaseDevice(id: string, to: string): DevicePack | undefined {
    return releaseDevice(this.#site, id, to);
  }

  takeDevice(siteId: string, id: string, pack: DevicePack): void {
    this.#site.identity.be(siteId);
    takeDevice(this.#site, id, pack);
  }

  dropDevice(id: string): void {
    dropDevice(this.#site, id);
  }

  submitOwnCommand(id: string, submission: OwnCommandSubmission, audit?: AuditEntry): OwnCommandAnswer {
    return this.#site.turns.run((turn) => submitOwnCommand(turn, this.#site, id, submission, audit));
  }

  pageOwnCommands(id: string, page: number, limit: number) {
    return pageOwnCommands(this.#site, id, page, limit);
  }

  findOwnCommand(id: string, cmdId: string): OwnCommand | undefined {
    return findOwnCommand(this.#site, id, cmdId);
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

  endAlert(alertId: string): void {
    this.#site.turns.run((turn) => this.#site.alerts.end(turn, alertId));
  }

  async submit(batch: SubmissionBatch): Promise<SubmitAnswer> {
    this.#site.identity.be(batch.siteId);
    await this.#site.registry.fresh();
    // The partner's answer first, then the devices: both wait for the commit, and the answer has the longer way.
    const answer = submitBatch(this.#site, batch, (send) => {
      this.ctx.waitUntil(this.ctx.storage.sync().then(send));
    });
    this.#agenda.arm();
    return answer;
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

  async readHistory(siteId: string, query: HistoryQuery): Promise<JsonChunk> {
    await this.#ready(siteId);
    return readHistory(this.#site, query);
  }

  async readMeterState(siteId: string): Promise<MeterReading | null> {
    await this.#ready(siteId);
    return readMeterState(this.#site);
  }

  readDeviceTelemetry(id: string, query: DeviceQuery): DevicePage {
    return readDeviceTelemetry(this.#site, id, query);
  }

  diagnostics(id: string): Diagnosis {
    return { ...readDiagnostics(this.#site, id), rowsWritten: this.#site.turns.rowsWritten };
  }

  /** The upgrade of an authenticated device. */
  override async fetch(request: Request): Promise<Response> {
    const dial = readDial<DeviceDial>(request);
    if (!dial) return notFoundResponse();
    if (dial.plantId) await this.#ready(dial.siteId);
    // No await from here on: what is checked still holds when the socket is accepted.
    return acceptDial(this.#site, dial);
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    receiveMessage(this.#site, socket, message);
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

  override alarm(): void {
    const { presence, registry, clock } = this.#site;
    // Readings that came since the last look: each alarm looks once more.
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
