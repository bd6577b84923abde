/**
 * The client connections of a vhost: one socket each, its row in storage, its delivery window on the socket itself
 * so that it outlives hibernation. Rows without a socket are gone connections: no close event comes after a crash.
 */
import { SIGN_OF_LIFE_MS, type VhostLinkDown } from '../../protocol/link.ts';
import { closeQuietly, sendFrames } from '../sockets.ts';
import type { Connections, Window } from './broker.ts';
import type { VhostStorage } from './storage.ts';

interface Attachment extends Window {
  connectionId: string;
  connectedAtMs: number;
}

/** What the Worker found out about a client that dials. */
export interface ClientDial {
  keyId: string;
  connection: string;
  bridge: string;
  boot: string;
  address: string;
}

const SEEN_CONNECTION_MS = 150_000;

interface Client {
  socket: WebSocket;
  connectedAtMs: number;
  lastFrameMs: number;
  window: Window;
}

export class ClientSockets implements Connections {
  readonly #ctx: DurableObjectState;
  readonly #storage: VhostStorage;
  readonly #now: () => number;
  readonly #clients = new Map<string, Client>();

  constructor(ctx: DurableObjectState, storage: VhostStorage, now: () => number) {
    this.#ctx = ctx;
    this.#storage = storage;
    this.#now = now;
    const rows = new Set(storage.connections().map((row) => row.id));
    for (const socket of ctx.getWebSockets()) {
      const attachment = socket.deserializeAttachment() as Attachment | null;
      if (!attachment || !rows.has(attachment.connectionId) || socket.readyState !== WebSocket.OPEN) continue;
      const { connectionId, connectedAtMs, sentBytes, drainedBytes } = attachment;
      const window = { sentBytes, drainedBytes };
      this.#clients.set(connectionId, { socket, connectedAtMs, lastFrameMs: 0, window });
    }
  }

  get count(): number {
    return this.#clients.size;
  }

  ids(): string[] {
    return [...this.#clients.keys()];
  }

  /** Connections that storage still lists and that have no socket any more (rule 8). */
  missing(): string[] {
    return this.#storage
      .connections()
      .map((row) => row.id)
      .filter((id) => !this.#clients.has(id));
  }

  /** Connections of earlier boots of a bridge that dials now. */
  ofOlderBoots(dial: ClientDial): string[] {
    return this.#storage
      .connections()
      .filter((row) => row.bridge_id === dial.bridge && row.bridge_boot !== dial.boot)
      .map((row) => row.id);
  }

  /** Inside the caller's transaction. */
  recordDial(dial: ClientDial, now: number): void {
    this.#storage.rememberConnection(dial.connection, now, now - SEEN_CONNECTION_MS);
    this.#storage.insertConnection({
      id: dial.connection,
      bridge_id: dial.bridge,
      bridge_boot: dial.boot,
      address: dial.address,
      connected_at_ms: now,
    });
  }

  /** After that transaction. Returns the client's end. */
  open(dial: ClientDial, now: number): WebSocket {
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    this.#ctx.acceptWebSocket(server);
    const window = { sentBytes: 0, drainedBytes: 0 };
    this.#clients.set(dial.connection, { socket: server, connectedAtMs: now, lastFrameMs: 0, window });
    this.storeWindow(dial.connection);
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

  isConnected(connectionId: string): boolean {
    return this.#clients.has(connectionId);
  }

  lastSignOfLifeMs(connectionId: string): number {
    const known = this.#clients.get(connectionId);
    return known ? this.#signOfLifeMs(known) : 0;
  }

  /** Pings are answered without waking this object: they are asked for only when frames do not tell. */
  window(connectionId: string): Window | undefined {
    const known = this.#clients.get(connectionId);
    if (!known) return undefined;
    const oldest = this.#now() - SIGN_OF_LIFE_MS;
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
    const attachment: Attachment = { connectionId, connectedAtMs: known.connectedAtMs, ...known.window };
    known.socket.serializeAttachment(attachment);
  }

  /** Forgets a connection; closes its socket when that is still open. */
  drop(connectionId: string, code?: number, reason?: string): void {
    const known = this.#clients.get(connectionId);
    this.#clients.delete(connectionId);
    if (known && code !== undefined) closeQuietly(known.socket, code, reason ?? '');
  }

  #signOfLifeMs({ socket, connectedAtMs, lastFrameMs }: Client): number {
    const pinged = this.#ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    return Math.max(connectedAtMs, lastFrameMs, pinged);
  }
}
