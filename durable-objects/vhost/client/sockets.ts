/**
 * The client connections of a vhost: one socket each, its row in storage, its delivery window on the socket itself
 * so that it outlives hibernation. Rows without a socket are gone connections: no close event comes after a crash.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { SIGN_OF_LIFE_MS } from '../../../protocol/link/live.ts';
import type { VhostLinkDown } from '../../../protocol/link/vhost.ts';
import type { Clock } from '../../object/clock.ts';
import type { SeenConnections } from '../../object/seen-connections.ts';
import { endLink, sendFrames } from '../../object/sockets.ts';
import type { Turn } from '../../object/turn.ts';
import type { ClientDial } from '../../rpc.ts';
import type { Connections, Window } from '../delivery/broker.ts';
import type { ConnectionRows } from './rows.ts';

interface Attachment extends Window {
  connectionId: string;
  connectedAtMs: number;
  /** The version of the link's frames that its bridge speaks. */
  link: number;
  isProbe?: boolean;
  /** When the key was last noted as used. */
  usedAtMs?: number;
}

interface Client {
  socket: WebSocket;
  connectedAtMs: number;
  lastFrameMs: number;
  link: number;
  isProbe: boolean;
  window: Window;
}

export class ClientSockets implements Connections {
  readonly #ctx: DurableObjectState;
  readonly #rows: ConnectionRows;
  readonly #seen: SeenConnections;
  readonly #clock: Clock;
  readonly #clients = new Map<string, Client>();
  #usedAtMs = 0;

  constructor(ctx: DurableObjectState, rows: ConnectionRows, seen: SeenConnections, clock: Clock) {
    this.#ctx = ctx;
    this.#rows = rows;
    this.#seen = seen;
    this.#clock = clock;
    const known = new Set(rows.all().map((row) => row.id));
    for (const socket of ctx.getWebSockets()) {
      const attachment = socket.deserializeAttachment() as Attachment | null;
      if (!attachment || !known.has(attachment.connectionId) || socket.readyState !== WebSocket.OPEN)
        continue;
      const { connectionId, connectedAtMs, sentBytes, drainedBytes, link = 1, isProbe = false } = attachment;
      this.#usedAtMs = Math.max(this.#usedAtMs, attachment.usedAtMs ?? 0);
      const window = { sentBytes, drainedBytes, isPlain: link < 2 };
      this.#clients.set(connectionId, { socket, connectedAtMs, lastFrameMs: 0, link, isProbe, window });
    }
  }

  get count(): number {
    return this.#clients.size;
  }

  hearsOfCancels(id: string): boolean {
    return this.linkOf(id) >= 5;
  }

  ids(): string[] {
    return [...this.#clients.keys()];
  }

  /** Connections that storage still lists and that have no socket any more (rule 8). */
  missing(): string[] {
    return this.#rows
      .all()
      .map((row) => row.id)
      .filter((id) => !this.#clients.has(id));
  }

  /** Connections of earlier boots of a bridge that dials now. */
  ofOlderBoots(dial: ClientDial): string[] {
    return this.#rows
      .all()
      .filter((row) => row.bridge_id === dial.bridge && row.bridge_boot !== dial.boot)
      .map((row) => row.id);
  }

  /** Connections without a sign of life for a minute: half-open (rule 2). */
  silent(now: number): string[] {
    return this.ids().filter((id) => now - this.#lastSignOfLifeMs(id) > SIGN_OF_LIFE_MS);
  }

  /**
   * When to look for them next: each look is a row, and until it comes a silent one is sent nothing anyway. Pings are
   * asked for only when frames do not tell.
   */
  silentAtMs(): number | undefined {
    const recentMs = this.#clock.now() - SIGN_OF_LIFE_MS / 2;
    let first: number | undefined;
    for (const client of this.#clients.values()) {
      const { lastFrameMs } = client;
      const signMs = lastFrameMs > recentMs ? lastFrameMs : this.#signOfLifeMs(client);
      if (first === undefined || signMs < first) first = signMs;
    }
    return first === undefined ? undefined : first + 2 * SIGN_OF_LIFE_MS + 1;
  }

  /** True when the bridge's connection id opened a link here before: a replayed proof. */
  isReplay(dial: ClientDial): boolean {
    return this.#seen.has(dial.connection);
  }

  /** Opens a connection; returns the client's end. */
  accept(turn: Turn, dial: ClientDial): WebSocket {
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    this.#seen.remember(turn, dial.connection);
    this.#rows.insert(turn, {
      id: dial.connection,
      bridge_id: dial.bridge,
      bridge_boot: dial.boot,
      address: dial.address,
      connected_at_ms: turn.now,
    });
    turn.remember(() => {
      this.#ctx.acceptWebSocket(server);
      const { link = 1, isProbe = false } = dial;
      const window = { sentBytes: 0, drainedBytes: 0, isPlain: link < 2 };
      const opened = { socket: server, connectedAtMs: turn.now, lastFrameMs: 0, link, isProbe, window };
      this.#clients.set(dial.connection, opened);
      this.storeWindow(dial.connection);
    });
    return client;
  }

  /** The connection of a socket while it counts; undefined for one that is closed, replaced or unknown. */
  current(socket: WebSocket): string | undefined {
    for (const [id, known] of this.#clients) if (known.socket === socket) return id;
    return undefined;
  }

  noteFrame(connectionId: string, now: number): void {
    const known = this.#clients.get(connectionId);
    if (known) known.lastFrameMs = now;
  }

  /** The version of the link's frames that a connection's bridge speaks. */
  linkOf(connectionId: string): number {
    return this.#clients.get(connectionId)?.link ?? 1;
  }

  /** Somebody published or took something; whether that is to be noted: once a minute [C-5.2]. */
  noteUse(now: number): boolean {
    if (now - this.#usedAtMs < LIMIT.lastUsedStepMs) return false;
    this.#usedAtMs = now;
    for (const id of this.#clients.keys()) this.storeWindow(id);
    return true;
  }

  /** Whether it is the probe of a new key [C-5.4]. */
  isProbe(connectionId: string): boolean {
    return this.#clients.get(connectionId)?.isProbe ?? false;
  }

  /** Where a connection comes from. */
  addressOf(connectionId: string): string {
    return this.#rows.all().find((row) => row.id === connectionId)?.address ?? '';
  }

  isConnected(connectionId: string): boolean {
    return this.#clients.has(connectionId);
  }

  /** Pings are answered without waking this object: they are asked for only when frames do not tell. */
  window(connectionId: string): Window | undefined {
    const known = this.#clients.get(connectionId);
    if (!known) return undefined;
    const oldest = this.#clock.now() - SIGN_OF_LIFE_MS;
    return known.lastFrameMs >= oldest || this.#signOfLifeMs(known) >= oldest ? known.window : undefined;
  }

  /** In memory at once; onto the socket with the frames that it counts. */
  saveWindow(connectionId: string, window: Window): void {
    const known = this.#clients.get(connectionId);
    if (known) known.window = window;
  }

  send(connectionId: string, frames: readonly VhostLinkDown[]): void {
    const known = this.#clients.get(connectionId);
    if (!known) return;
    sendFrames(known.socket, frames);
    this.storeWindow(connectionId);
  }

  storeWindow(connectionId: string): void {
    const known = this.#clients.get(connectionId);
    if (!known) return;
    const { connectedAtMs, link, isProbe, window } = known;
    const usedAtMs = this.#usedAtMs;
    const attachment: Attachment = { connectionId, connectedAtMs, link, isProbe, usedAtMs, ...window };
    known.socket.serializeAttachment(attachment);
  }

  /** Forgets a connection; closes its socket when that is still open. */
  drop(turn: Turn, connectionId: string, code?: number, reason?: string): void {
    const known = this.#clients.get(connectionId);
    this.#rows.delete(turn, connectionId);
    this.#clients.delete(connectionId);
    if (!known) return;
    turn.undo(() => this.#clients.set(connectionId, known));
    if (code !== undefined) turn.send(() => endLink(known.socket, code, reason ?? ''));
  }

  #lastSignOfLifeMs(connectionId: string): number {
    const known = this.#clients.get(connectionId);
    return known ? this.#signOfLifeMs(known) : 0;
  }

  #signOfLifeMs({ socket, connectedAtMs, lastFrameMs }: Client): number {
    const pinged = this.#ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    return Math.max(connectedAtMs, lastFrameMs, pinged);
  }
}
