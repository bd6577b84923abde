/**
 * The client connections of a vhost; each has a socket and a row. The delivery window is stored on the socket, so
 * that it survives hibernation. A row without a socket is a lost connection: after a crash there is no close
 * event.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { SIGN_OF_LIFE_MS } from '../../../protocol/link/live.ts';
import type { VhostLinkDown } from '../../../protocol/link/vhost.ts';
import type { ClientDial, SeenConnections } from '../../dial.ts';
import type { Clock } from '../../object/clock.ts';
import { endLink, sendFrames } from '../../object/sockets.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { Connections, Window } from '../delivery/receiver.ts';

interface Attachment extends Window {
  connectionId: string;
  connectedAtMs: number;
  isProbe: boolean;
  /** When `lastUsedAt` of the key was last written. */
  usedAtMs: number;
}

interface Client {
  socket: WebSocket;
  connectedAtMs: number;
  lastFrameMs: number;
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

  constructor(ctx: DurableObjectState, sql: Sql, seen: SeenConnections, clock: Clock) {
    this.#ctx = ctx;
    this.#rows = new ConnectionRows(sql);
    this.#seen = seen;
    this.#clock = clock;
    const known = new Set(this.#rows.all().map((row) => row.id));
    for (const socket of ctx.getWebSockets()) {
      const attachment = socket.deserializeAttachment() as Attachment | null;
      if (!attachment || !known.has(attachment.connectionId) || socket.readyState !== WebSocket.OPEN)
        continue;
      const { connectionId, connectedAtMs, isProbe, usedAtMs, ...window } = attachment;
      this.#usedAtMs = Math.max(this.#usedAtMs, usedAtMs);
      this.#clients.set(connectionId, { socket, connectedAtMs, lastFrameMs: 0, isProbe, window });
    }
  }

  get count(): number {
    return this.#clients.size;
  }

  ids(): string[] {
    return [...this.#clients.keys()];
  }

  /** Where the clients are, the first that connected first. */
  places(): { address: string; connectedAtMs: number }[] {
    const live = this.#rows.all().filter(({ id }) => this.#clients.get(id)?.isProbe === false);
    return live.map(({ address, connected_at_ms: connectedAtMs }) => ({ address, connectedAtMs }));
  }

  /** Connections with a row but without a socket (rule 8). */
  missing(): string[] {
    return this.#rows
      .all()
      .map((row) => row.id)
      .filter((id) => !this.#clients.has(id));
  }

  /** Connections from other starts of the bridge that dials. */
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
   * When to check for silent connections next. The check is rare, because each one writes a row, and a silent
   * connection gets no messages before it is closed. The time of the last ping is read only if the last frame
   * is not recent enough.
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

  /** True if the bridge's connection id has already opened a link here: the proof is a replay. */
  isReplay(dial: ClientDial): boolean {
    return this.#seen.has(dial.connection);
  }

  /** Opens a connection; returns the client's end of the WebSocket. */
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
      const { isProbe } = dial;
      const window = { sentBytes: 0, drainedBytes: 0 };
      const opened = { socket: server, connectedAtMs: turn.now, lastFrameMs: 0, isProbe, window };
      this.#clients.set(dial.connection, opened);
      this.storeWindow(dial.connection);
    });
    return client;
  }

  /** The connection id of a socket; undefined if it is closed, replaced or unknown. */
  current(socket: WebSocket): string | undefined {
    for (const [id, known] of this.#clients) if (known.socket === socket) return id;
    return undefined;
  }

  noteFrame(connectionId: string, now: number): void {
    const known = this.#clients.get(connectionId);
    if (known) known.lastFrameMs = now;
  }

  /**
   * Records that a client used the key. Returns true if the caller must write `lastUsedAt`, at most once a
   * minute [C-5.2].
   */
  noteUse(now: number): boolean {
    if (now - this.#usedAtMs < LIMIT.lastUsedStepMs) return false;
    this.#usedAtMs = now;
    for (const id of this.#clients.keys()) this.storeWindow(id);
    return true;
  }

  /** Whether the connection is the connection test of a new key [C-5.4]. */
  isProbe(connectionId: string): boolean {
    return this.#clients.get(connectionId)?.isProbe ?? false;
  }

  /** The client address of a connection. */
  addressOf(connectionId: string): string {
    return this.#rows.all().find((row) => row.id === connectionId)?.address ?? '';
  }

  isConnected(connectionId: string): boolean {
    return this.#clients.has(connectionId);
  }

  /**
   * The delivery window; undefined if the connection is silent or unknown. The runtime answers pings without
   * this object; the time of the last one is read only if the last frame is not recent enough.
   */
  window(connectionId: string): Window | undefined {
    const known = this.#clients.get(connectionId);
    if (!known) return undefined;
    const oldest = this.#clock.now() - SIGN_OF_LIFE_MS;
    return known.lastFrameMs >= oldest || this.#signOfLifeMs(known) >= oldest ? known.window : undefined;
  }

  /** Changes the window in memory. It is stored on the socket when the frames that it counts are sent. */
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
    const { connectedAtMs, isProbe, window } = known;
    const usedAtMs = this.#usedAtMs;
    const attachment: Attachment = { connectionId, connectedAtMs, isProbe, usedAtMs, ...window };
    known.socket.serializeAttachment(attachment);
  }

  /** Deletes a connection; with a `code` its socket is closed too. */
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

type ConnectionRow = {
  id: string;
  bridge_id: string;
  bridge_boot: string;
  address: string;
  connected_at_ms: number;
};

class ConnectionRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): ConnectionRow[] {
    return this.#sql.all<ConnectionRow>('SELECT * FROM connection ORDER BY connected_at_ms');
  }

  insert(turn: Turn, row: ConnectionRow): void {
    turn.insert('connection', row);
  }

  delete(turn: Turn, id: string): void {
    turn.write('DELETE FROM connection WHERE id = ?', id);
  }
}
