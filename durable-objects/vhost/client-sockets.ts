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

export class ClientSockets implements Connections {
  readonly #ctx: DurableObjectState;
  readonly #storage: VhostStorage;
  readonly #now: () => number;
  readonly #sockets = new Map<string, WebSocket>();
  readonly #windows = new Map<string, Window>();
  readonly #lastFrameMs = new Map<string, number>();

  constructor(ctx: DurableObjectState, storage: VhostStorage, now: () => number) {
    this.#ctx = ctx;
    this.#storage = storage;
    this.#now = now;
    const rows = new Set(storage.connections().map((row) => row.id));
    for (const socket of ctx.getWebSockets()) {
      const attachment = socket.deserializeAttachment() as Attachment | null;
      if (!attachment || !rows.has(attachment.connectionId) || socket.readyState !== WebSocket.OPEN) continue;
      this.#sockets.set(attachment.connectionId, socket);
      this.#windows.set(attachment.connectionId, {
        sentBytes: attachment.sentBytes,
        drainedBytes: attachment.drainedBytes,
      });
    }
  }

  get count(): number {
    return this.#sockets.size;
  }

  ids(): string[] {
    return [...this.#sockets.keys()];
  }

  /** Connections that storage still lists and that have no socket any more (rule 8). */
  missing(): string[] {
    return this.#storage
      .connections()
      .map((row) => row.id)
      .filter((id) => !this.#sockets.has(id));
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
    this.#sockets.set(dial.connection, server);
    this.#windows.set(dial.connection, { sentBytes: 0, drainedBytes: 0 });
    const attachment: Attachment = {
      connectionId: dial.connection,
      connectedAtMs: now,
      sentBytes: 0,
      drainedBytes: 0,
    };
    server.serializeAttachment(attachment);
    return client;
  }

  /** The connection of a socket while it counts; undefined for one that is closed, replaced or unknown. */
  current(socket: WebSocket): string | undefined {
    const attachment = socket.deserializeAttachment() as Attachment | null;
    const id = attachment?.connectionId;
    return id !== undefined && this.#sockets.get(id) === socket ? id : undefined;
  }

  noteFrame(connectionId: string, now: number): void {
    this.#lastFrameMs.set(connectionId, now);
  }

  isConnected(connectionId: string): boolean {
    return this.#sockets.has(connectionId);
  }

  lastSignOfLifeMs(connectionId: string): number {
    const socket = this.#sockets.get(connectionId);
    if (!socket) return 0;
    const attachment = socket.deserializeAttachment() as Attachment;
    const pinged = this.#ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    return Math.max(attachment.connectedAtMs, this.#lastFrameMs.get(connectionId) ?? 0, pinged);
  }

  window(connectionId: string): Window | undefined {
    const window = this.#windows.get(connectionId);
    if (!window) return undefined;
    return this.#now() - this.lastSignOfLifeMs(connectionId) <= SIGN_OF_LIFE_MS ? window : undefined;
  }

  /** In memory at once; onto the socket with the frames that it counts. */
  saveWindow(connectionId: string, window: Window): void {
    this.#windows.set(connectionId, window);
  }

  send(connectionId: string, frames: readonly VhostLinkDown[]): void {
    const socket = this.#sockets.get(connectionId);
    if (!socket) return;
    sendFrames(socket, frames);
    this.storeWindow(connectionId);
  }

  storeWindow(connectionId: string): void {
    const socket = this.#sockets.get(connectionId);
    const window = this.#windows.get(connectionId);
    if (!socket || !window) return;
    socket.serializeAttachment({ ...(socket.deserializeAttachment() as Attachment), ...window });
  }

  /** Forgets a connection; closes its socket when that is still open. */
  drop(connectionId: string, code?: number, reason?: string): void {
    const socket = this.#sockets.get(connectionId);
    this.#sockets.delete(connectionId);
    this.#windows.delete(connectionId);
    this.#lastFrameMs.delete(connectionId);
    if (socket && code !== undefined) closeQuietly(socket, code, reason ?? '');
  }
}
