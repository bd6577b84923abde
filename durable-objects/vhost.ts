/**
 * The broker of one API key: its queues, its clients' sockets and its publishes to Sites. This class is the
 * entry point for RPC, upgrades, WebSocket events and the alarm; the logic is in vhost/. The object has the
 * authority over its clients: a key that is revoked here stays revoked, whatever D1 says (rule 6).
 */

import { parseFrames } from '../protocol/link/batch.ts';
import { CLOSE_CODES, PING, PONG } from '../protocol/link/live.ts';
import { SCOPES_HEADER, VHOST_HEADER } from '../protocol/link/proof.ts';
import { STREAM_HEADER, streamFilter } from '../protocol/link/stream.ts';
import { vhostLinkUp } from '../protocol/link/vhost.ts';
import type { WebhookQuestion } from '../protocol/webhook.ts';
import type { AuditEntry } from '../registry/entries.ts';
import type { RestoreAnswer } from './backup-rpc.ts';
import { type ClientDial, notFoundResponse, readDial, stateRefusal } from './dial.ts';
import type { Env } from './env.ts';
import type { EventSearch, JournalQuery } from './journal-rpc.ts';
import { Reporter } from './metrics/report.ts';
import { Agenda, AlarmClock } from './object/agenda.ts';
import { closeQuietly } from './object/sockets.ts';
import type { Turn } from './object/turn.ts';
import { RestorableObject } from './restorable.ts';
import type { OutboxEvent, PassingEvent, Receipt, VhostGrant, VhostRpc } from './rpc.ts';
import { organizationOf } from './standing-rpc.ts';
import { connectionRefusal, openStream } from './vhost/client/opening.ts';
import { receiveFrames } from './vhost/client/receive.ts';
import { dueSources } from './vhost/due.ts';
import { answerJournal } from './vhost/journal/answer.ts';
import { readStatus } from './vhost/key/status.ts';
import { VhostMetrics } from './vhost/metrics.ts';
import { VHOST_BACKUP } from './vhost/migrations.ts';
import { VhostParts } from './vhost/parts.ts';
import { dryRunOverHttps, publishOverHttps, UNSTORED } from './vhost/publish/https.ts';
import { deleteDeadLetter, listDeadLetters, requeueDeadLetter } from './vhost/queue/dead-letters.ts';
import { answerWebhook } from './vhost/webhook/answer.ts';

export class Vhost extends RestorableObject implements VhostRpc {
  readonly #vhost: VhostParts;
  readonly #agenda: Agenda;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, VHOST_BACKUP);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    this.#vhost = new VhostParts(
      ctx,
      env,
      this.guard,
      (turn) => this.#end(turn),
      (dueMs) => this.#agenda.arm(dueMs),
    );
    const { clock, calls, counts, key, ending, turns, sockets } = this.#vhost;
    const reporter = new Reporter(ctx, env, new VhostMetrics(this.#vhost), () => this.#agenda.arm());
    const readers = [this.#vhost.streams, this.#vhost.webhooks];
    const sources = [key, ending, calls, ...dueSources(this.#vhost), ...readers, counts, reporter];
    this.#agenda = new Agenda(sources, turns, new AlarmClock(ctx.storage, clock));
    if (this.waitsForFence()) return;
    this.#close(sockets.missing());
    void ctx.blockConcurrencyWhile(() => this.#agenda.load());
  }

  // RPC: the key

  open(grant: VhostGrant): void {
    this.#vhost.turns.attempt((turn) => this.#vhost.key.open(turn, grant));
    this.#agenda.arm();
  }

  async revoke(keyId?: string, audit?: AuditEntry): Promise<void> {
    const { key, ending, turns, publisher } = this.#vhost;
    const id = keyId ?? key.record?.keyId;
    turns.run((turn) => {
      key.revoke(turn);
      if (id) ending.begin(turn, { keyId: id, revokedAtMs: turn.now, audit });
      if (key.record) this.#end(turn);
    });
    await publisher.idle();
  }

  async registryChanged(version: number): Promise<void> {
    const { key, organization } = this.#vhost;
    if (key.record && !this.#vhost.hasEnded()) await organization.upTo(version);
  }

  standing() {
    const { key, organization } = this.#vhost;
    return { isRevoked: key.isRevoked, organization: organizationOf(organization.record) };
  }

  sealedBy() {
    return this.#vhost.key.sealedAgain(this.#vhost.turns);
  }

  discard(): void {
    this.#vhost.turns.run((turn) => {
      this.#end(turn);
      this.#vhost.key.forget(turn);
      this.#vhost.organization.forget(turn);
    });
  }

  /** Ends the key, revoked, expired or discarded: closes its connections and deletes its queues [C-5.6]. */
  #end(turn: Turn): void {
    const { key, sockets, streams } = this.#vhost;
    const code = key.record?.revokedAtMs == null ? CLOSE_CODES.expired : CLOSE_CODES.revoked;
    for (const id of sockets.ids()) sockets.drop(turn, id, code, 'key ended');
    streams.closeAll(turn, code, 'key ended');
    this.#vhost.deleteAll(turn);
  }

  // RPC: events from Sites

  async receive(siteId: string, events: OutboxEvent[]): Promise<Receipt> {
    const { intake, store } = this.#vhost;
    const isStored =
      !this.#vhost.hasEnded() && (await store.store((turn) => intake.store(turn, siteId, events)));
    if (!isStored) return { received: 0, gone: true };
    const [received, seen] = [intake.receivedFrom(siteId), intake.seenFrom(siteId)];
    return { received, ...(seen > received ? { seen } : {}), gone: false };
  }

  async receivePassing(siteId: string, events: PassingEvent[]): Promise<'taken' | 'gone'> {
    if (this.#vhost.hasEnded()) return 'gone';
    const { intake, store } = this.#vhost;
    const isTaken = await store.store((turn) => {
      for (const event of events) intake.pass(turn, siteId, event);
    });
    return isTaken ? 'taken' : 'gone';
  }

  readJournal(query: JournalQuery) {
    return answerJournal(this.#vhost, query);
  }

  findEvents(searches: EventSearch[]) {
    return this.#vhost.journal.find(searches);
  }

  readStatus() {
    return readStatus(this.#vhost);
  }

  listDeadLetters(after: string | null, limit: number) {
    return listDeadLetters(this.#vhost, after, limit);
  }

  requeueDeadLetter(id: string) {
    return requeueDeadLetter(this.#vhost, id);
  }

  deleteDeadLetter(id: string) {
    return deleteDeadLetter(this.#vhost, id);
  }

  async publishOverHttps(...publish: Parameters<VhostRpc['publishOverHttps']>) {
    // Behind a fence the answer of the Site could not be stored.
    return this.guard.state ? UNSTORED : await publishOverHttps(this.#vhost, ...publish);
  }

  async dryRunOverHttps(...asked: Parameters<VhostRpc['dryRunOverHttps']>) {
    return this.guard.state ? { ...UNSTORED, place: 0 } : await dryRunOverHttps(this.#vhost, ...asked);
  }

  askWebhook(id: string, question: WebhookQuestion) {
    return answerWebhook(this.#vhost, id, question);
  }

  override restoreBackup(id: string, fenceId: string): RestoreAnswer {
    if (this.#vhost.key.isRevoked) return { refused: 'the key is revoked, and a revoked key stays revoked' };
    return super.restoreBackup(id, fenceId);
  }

  // client sockets

  /** The upgrade of an authenticated client, or of a Worker that serves an event stream. */
  protected override async dialed(request: Request): Promise<Response> {
    const stream = request.headers.get(STREAM_HEADER);
    if (stream !== null) return openStream(this.#vhost, streamFilter.parse(JSON.parse(stream)));
    const dial = readDial<ClientDial>(request);
    if (!dial) return notFoundResponse();
    const { key, sockets, turns, clock } = this.#vhost;
    if (sockets.isReplay(dial)) return notFoundResponse();
    if (!key.record || this.#vhost.hasEnded()) return stateRefusal('The API key was revoked or has expired');
    if (this.#vhost.organization.record?.isSuspended) return stateRefusal('The organization is suspended');
    this.#close(sockets.ofOlderBoots(dial), CLOSE_CODES.takenOver, 'bridge restarted');
    this.#close(sockets.silent(clock.now()), CLOSE_CODES.takenOver, 'no frame or ping from the bridge');
    const refusal = connectionRefusal(this.#vhost, dial);
    if (refusal) return refusal;
    const socket = turns.run((turn) => sockets.accept(turn, dial));
    this.#vhost.organization.keepUp();
    this.#agenda.arm();
    const headers = { [VHOST_HEADER]: key.record.vhost, [SCOPES_HEADER]: [...key.scopes].join(',') };
    return new Response(null, { status: 101, webSocket: socket, headers });
  }

  override webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): void {
    const { key, sockets, streams, turns, clock } = this.#vhost;
    if (streams.has(socket)) {
      if (this.#vhost.hasEnded()) turns.run((turn) => this.#end(turn));
      else streams.receive(socket, message);
      return;
    }
    const connectionId = sockets.current(socket);
    if (connectionId === undefined || !key.record) return;
    const now = clock.now();
    if (key.hasEnded(now)) return void turns.run((turn) => this.#end(turn));
    const frames = parseFrames(vhostLinkUp, message);
    if (!frames.ok) {
      this.#close([connectionId], CLOSE_CODES.protocolError, frames.refusal);
      return;
    }
    sockets.noteFrame(connectionId, now);
    const isDone = receiveFrames(this.#vhost, connectionId, key.record, frames.value, now);
    if (isDone) this.#vhost.organization.keepUp();
    else this.#close([connectionId], CLOSE_CODES.protocolError, 'internal error, or too many held publishes');
  }

  override webSocketClose(socket: WebSocket): void {
    closeQuietly(socket, 1000, '');
    this.#vhost.streams.forget(socket);
    const connectionId = this.#vhost.sockets.current(socket);
    if (connectionId !== undefined) this.#close([connectionId]);
  }

  override webSocketError(socket: WebSocket): void {
    this.webSocketClose(socket);
  }

  // agenda

  protected override due(): void {
    const { broker, turns } = this.#vhost;
    // First store the data that is only in memory, because a due step that fails may discard it.
    if (broker.queues.isDirty || this.#vhost.hasUnstored || this.#vhost.journal.hasPending)
      turns.run((turn) => this.#vhost.storeAll(turn));
    this.#agenda.run();
  }

  #close(ids: readonly string[], code?: number, reason?: string): void {
    if (ids.length === 0) return;
    this.#vhost.turns.run((turn) => this.#vhost.closeConnections(turn, ids, code, reason));
    this.#vhost.outflow.send();
  }
}
