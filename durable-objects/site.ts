/**
 * Everything about one plant, or about one device without a plant, serialized: sockets, commands, telemetry.
 * RPC, the upgrades of devices, WebSocket events and the alarm arrive here, and the nouns in site/ do the work.
 */
import type { TokenRenewal } from '../protocol/device-record.ts';
import type { DeviceQuery, HistoryQuery, ScheduleQuery } from '../protocol/history.ts';
import { CLOSE_CODES, PING, PONG } from '../protocol/link/live.ts';
import type { SiteConfig } from '../protocol/site-config.ts';
import type { Asker, SiteQuestion } from './ask-rpc.ts';
import { type DeviceDial, notFoundResponse, readDial } from './dial.ts';
import type { Env } from './env.ts';
import { Agenda, AlarmClock } from './object/agenda.ts';
import { closeQuietly } from './object/sockets.ts';
import { RestorableObject } from './restorable.ts';
import type { DeviceGrant, DevicePack, Diagnosis, SiteRpc, SubmissionBatch, SubmitAnswer } from './rpc.ts';
import { type AssembledSite, assembleSite } from './site/assemble.ts';
import { readCommands } from './site/command/log.ts';
import { submitBatch } from './site/command/submit.ts';
import { openWatcher } from './site/event/watchers.ts';
import { dryRun } from './site/explain/dry-run.ts';
import { answer } from './site/explain/questions.ts';
import { SITE_BACKUP } from './site/migrations.ts';
import * as telemetry from './site/telemetry/answers.ts';

export class Site extends RestorableObject implements SiteRpc {
  readonly #site: AssembledSite;
  readonly #agenda: Agenda;
  /** True after `erase`, until the next wake: the tables no longer exist, so the data in memory must not be used. */
  #isErased = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, SITE_BACKUP);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    this.#site = assembleSite(ctx, env, this.guard, (dueMs) => this.#agenda.arm(dueMs));
    const { clock, turns, sessions, presence } = this.#site;
    this.#agenda = new Agenda(this.#site.dueSources, turns, new AlarmClock(ctx.storage, clock));
    if (this.waitsForFence()) return;
    if (sessions.isAnyMissing) {
      turns.run((turn) => sessions.reconcile(turn));
      presence.noteChange();
    }
    void ctx.blockConcurrencyWhile(() => this.#agenda.load());
  }

  adoptDevice(grant: DeviceGrant): void {
    this.#site.identity.be(grant.siteId);
    this.#site.turns.attempt((turn) => this.#site.devices.adopt(turn, grant));
  }

  setDeviceStatus(...change: Parameters<SiteRpc['setDeviceStatus']>) {
    return this.#site.suspension.setStatus(...change);
  }

  async erase(): Promise<void> {
    for (const socket of this.ctx.getWebSockets()) closeQuietly(socket, CLOSE_CODES.revoked, 'deleted');
    this.#isErased = true;
    await Promise.all([this.ctx.storage.deleteAlarm(), this.ctx.storage.deleteAll()]);
  }

  forgetDevice(id: string): void {
    this.#site.suspension.forget(id);
  }

  rotateSecret(...rotation: Parameters<SiteRpc['rotateSecret']>) {
    return this.#site.rotation.rotateSecret(...rotation);
  }

  standing() {
    return this.#site.suspension.standing();
  }

  sealedBy() {
    return this.#site.secrets.sealedAgain(this.#site.turns);
  }

  endTokens(id: string): number | undefined {
    return this.#site.rotation.endTokens(id);
  }

  verifyRenewal(id: string, renewal: TokenRenewal) {
    return this.#site.tokens.verifyRenewal(id, renewal);
  }

  noteRefusedLogin(...login: Parameters<SiteRpc['noteRefusedLogin']>): void {
    this.#site.suspension.noteRefusedLogin(...login);
  }

  endSessionBy(id: string, atMs: number): void {
    this.#site.turns.run((turn) => this.#site.devices.endSessionBy(turn, id, atMs));
  }

  releaseDevice(id: string, to: string, from?: DevicePack['next']) {
    return this.#site.move.release(id, to, from);
  }

  takeDevice(siteId: string, id: string, pack: DevicePack): void {
    this.#site.identity.be(siteId);
    this.#site.move.take(id, pack);
  }

  dropDevice(id: string): void {
    this.#site.move.drop(id);
  }

  submitRestCommand(...command: Parameters<SiteRpc['submitRestCommand']>) {
    return this.#site.turns.run((turn) => this.#site.restCommands.submit(turn, ...command));
  }

  pageRestCommands(id: string, page: number, limit: number) {
    return this.#site.restCommands.page(id, page, limit);
  }

  findRestCommand(id: string, cmdId: string) {
    return this.#site.restCommands.find(id, cmdId);
  }

  configure(siteId: string, config: SiteConfig): void {
    this.#site.identity.be(siteId);
    this.#site.turns.attempt((turn) => this.#site.configuration.state.configure(turn, config));
  }

  async readConfiguration(siteId: string) {
    await this.#ready(siteId);
    return this.#site.configuration.answer();
  }

  async exchangeMeter(...[siteId, externalId, { registers }, audit]: Parameters<SiteRpc['exchangeMeter']>) {
    await this.#ready(siteId);
    return this.#site.meters.exchange(externalId, registers, audit);
  }

  async putConfiguration(...[siteId, put]: Parameters<SiteRpc['putConfiguration']>) {
    await this.#ready(siteId);
    return this.#site.turns.run((turn) => this.#site.configuration.put(turn, put));
  }

  async registryChanged(siteId: string, version: number): Promise<void> {
    this.#site.identity.be(siteId);
    await this.#site.registry.upTo(version);
  }

  endAlert(alertId: string): void {
    this.#site.turns.run((turn) => this.#site.alerts.end(turn, alertId));
  }

  submit(batch: SubmissionBatch): Promise<SubmitAnswer> {
    return submitBatch(this.#site, batch);
  }

  dryRun(...asked: Parameters<SiteRpc['dryRun']>) {
    return dryRun(this.#site, ...asked);
  }

  ask(question: SiteQuestion) {
    return answer(this.#site, question);
  }

  // RPC: reads

  async readConfig(siteId: string, asker: Asker): Promise<string> {
    await this.#ready(siteId);
    return this.#site.configuration.snapshot(siteId, asker, this.#site.clock.now()).text;
  }

  async readCommands(siteId: string, page: number, pageSize: number, asker: Asker, atMs?: number) {
    await this.#ready(siteId);
    return readCommands(this.#site.commandRows, siteId, { page, pageSize, asker, atMs });
  }

  async readLatestTelemetry(siteId: string) {
    await this.#ready(siteId);
    return this.#site.feed.latest(this.#site.clock.now());
  }

  async readHistory(siteId: string, query: HistoryQuery) {
    await this.#ready(siteId);
    return query.kind === 'telemetry'
      ? telemetry.readTelemetry(this.#site, query)
      : telemetry.readMeterReadings(this.#site, query.fromMs, query.toMs);
  }

  async readSchedules(siteId: string, query: ScheduleQuery, asker: Asker) {
    await this.#ready(siteId);
    return this.#site.schedules.page(siteId, query, asker);
  }

  async readMeterState(siteId: string) {
    await this.#ready(siteId);
    return telemetry.readMeterState(this.#site);
  }

  readDeviceTelemetry(id: string, query: DeviceQuery) {
    const isHere = (deviceId: string) => this.#site.devices.find(deviceId) !== undefined;
    return telemetry.readDeviceTelemetry({ ...this.#site, isHere }, id, query);
  }

  diagnostics(id: string): Diagnosis {
    return { ...this.#site.diagnostics.read(id), rowsWritten: this.#site.turns.rowsWritten };
  }

  /** The upgrade of an authenticated device, or of a Worker that serves an event stream. */
  protected override async dialed(request: Request): Promise<Response> {
    if (this.#isErased) return notFoundResponse();
    const watcher = await openWatcher(this.#site, request, (siteId) => this.#ready(siteId));
    if (watcher) return watcher;
    const dial = readDial<DeviceDial>(request);
    if (!dial) return notFoundResponse();
    // No await after this one, so the checks are still true when the socket is accepted.
    if (dial.plantId) await this.#ready(dial.siteId);
    return this.#site.link.accept(dial);
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    const { link, watchers } = this.#site;
    if (watchers.has(socket)) watchers.receive(socket, message);
    else if (!this.#isErased) link.receive(socket, message);
  }

  override webSocketClose(socket: WebSocket): void {
    closeQuietly(socket, 1000, '');
    if (this.#site.watchers.has(socket)) this.#site.plantEvents.left();
    this.#site.watchers.forget(socket);
    const { sessions, presence, turns } = this.#site;
    if (this.#isErased || !sessions.current(socket)) return;
    turns.run((turn) => {
      sessions.closed(turn, socket);
      presence.update(turn);
    });
  }

  override webSocketError(socket: WebSocket): void {
    this.webSocketClose(socket);
  }

  protected override due(): void {
    if (this.#isErased) return;
    const { presence, registry, clock } = this.#site;
    // Readings may have arrived since presence was last computed, so this alarm computes it again.
    if (presence.isStale(clock.now())) presence.noteChange();
    this.#agenda.run();
    registry.keepUp();
  }

  /** Stores the identity of the site and waits until it has a copy of the registry, of any age. */
  async #ready(siteId: string): Promise<void> {
    this.#site.identity.be(siteId);
    await this.#site.registry.ready();
  }
}
