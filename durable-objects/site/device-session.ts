/**
 * The device sockets of a site. One session per device: an accepted connect mints an epoch, and only the socket of
 * a device's newest epoch counts (rule 2). A closed socket still delivers what was under way, and half-open ones
 * stay listed for long, so a socket must also have shown a sign of life in the last minute to be sent to.
 */
import { CLOSE_CODES, type DeviceLinkDown, SIGN_OF_LIFE_MS } from '../../protocol/link.ts';
import { closeQuietly, sendFrames } from '../sockets.ts';
import type { DeviceRow } from './schema.ts';
import type { SiteStorage } from './storage.ts';

/** Rides on the socket itself and outlives hibernation. */
interface Attachment {
  deviceId: string;
  epoch: number;
  connectedAtMs: number;
  subscribed: boolean;
}

/** What the Worker found out about a device that dials. */
export interface DeviceDial {
  siteId: string;
  plantId: string | null;
  deviceId: string;
  connection: string;
  bridge: string;
  boot: string;
  expiresAtMs: number | null;
}

/** How long a bridge's connection id is remembered: its proof is good for a minute either side of its time. */
const SEEN_CONNECTION_MS = 150_000;

/** The socket of a device's newest epoch. */
interface Newest {
  socket: WebSocket;
  attachment: Attachment;
  lastFrameMs: number;
}

export class DeviceSessions {
  readonly #ctx: DurableObjectState;
  readonly #storage: SiteStorage;
  #devices: Map<string, DeviceRow>;
  readonly #newest = new Map<string, Newest>();

  constructor(ctx: DurableObjectState, storage: SiteStorage) {
    this.#ctx = ctx;
    this.#storage = storage;
    this.#devices = new Map(storage.devices().map((device) => [device.id, device]));
    for (const socket of ctx.getWebSockets()) {
      const attachment = socket.deserializeAttachment() as Attachment | null;
      if (attachment && this.#isNewest(attachment)) {
        this.#newest.set(attachment.deviceId, { socket, attachment, lastFrameMs: 0 });
      }
    }
  }

  devices(): DeviceRow[] {
    return [...this.#devices.values()];
  }

  device(id: string): DeviceRow | undefined {
    return this.#devices.get(id);
  }

  /** Call after any write to the device table. */
  reload(): void {
    this.#devices = new Map(this.#storage.devices().map((device) => [device.id, device]));
  }

  /** True when the bridge's connection id opened a link here before: a replayed proof. */
  isReplay(dial: DeviceDial): boolean {
    return this.#storage.hasSeenConnection(dial.connection);
  }

  /** Opens the session: a new epoch, the older sockets of the device closed. Returns the client's end. */
  accept(dial: DeviceDial, now: number): WebSocket {
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    const older = this.#ctx.getWebSockets(dial.deviceId);
    const epoch = this.#storage.transaction(() => {
      this.#storage.rememberConnection(dial.connection, now, now - SEEN_CONNECTION_MS);
      this.#freeOlderBoots(dial, now);
      const minted = this.#storage.nextEpoch();
      this.#storage.openSession(
        {
          id: dial.deviceId,
          epoch: minted,
          connection_id: dial.connection,
          bridge_id: dial.bridge,
          bridge_boot: dial.boot,
          session_expires_at_ms: dial.expiresAtMs,
        },
        now,
      );
      return minted;
    });
    this.reload();
    this.#ctx.acceptWebSocket(server, [dial.deviceId]);
    const attachment: Attachment = { deviceId: dial.deviceId, epoch, connectedAtMs: now, subscribed: false };
    server.serializeAttachment(attachment);
    this.#newest.set(dial.deviceId, { socket: server, attachment, lastFrameMs: 0 });
    for (const socket of older) closeQuietly(socket, CLOSE_CODES.takenOver, 'taken over');
    return client;
  }

  /** A bridge that booted anew has none of its old connections (rule 8). */
  #freeOlderBoots(dial: DeviceDial, now: number): void {
    for (const device of this.#devices.values()) {
      if (device.bridge_id !== dial.bridge || device.bridge_boot === dial.boot || !device.connection_id)
        continue;
      this.#storage.closeSession(device.id, device.epoch, now);
      for (const socket of this.#ctx.getWebSockets(device.id))
        closeQuietly(socket, CLOSE_CODES.takenOver, 'new boot');
    }
  }

  /** The device of a socket while it is that device's newest; undefined for every other socket. */
  current(socket: WebSocket): Attachment | undefined {
    for (const { socket: newest, attachment } of this.#newest.values()) {
      if (newest === socket) return this.#isNewest(attachment) ? attachment : undefined;
    }
    return undefined;
  }

  noteFrame(deviceId: string, now: number): void {
    const newest = this.#newest.get(deviceId);
    if (newest) newest.lastFrameMs = now;
  }

  setSubscribed(deviceId: string, subscribed: boolean): void {
    const newest = this.#newest.get(deviceId);
    if (!newest) return;
    newest.attachment = { ...newest.attachment, subscribed };
    newest.socket.serializeAttachment(newest.attachment);
  }

  /** The last moment at which a device's current socket showed life; undefined without one. */
  lastSignOfLifeMs(deviceId: string): number | undefined {
    const newest = this.#open(deviceId);
    return newest && this.#signOfLifeMs(newest);
  }

  /** Whether commands reach the device now: its newest socket is open, alive and subscribed. */
  isLive(deviceId: string, now: number): boolean {
    const newest = this.#open(deviceId);
    if (!newest?.attachment.subscribed) return false;
    const oldest = now - SIGN_OF_LIFE_MS;
    return newest.lastFrameMs >= oldest || this.#signOfLifeMs(newest) >= oldest;
  }

  send(deviceId: string, frames: readonly DeviceLinkDown[]): void {
    const newest = this.#open(deviceId);
    if (newest) sendFrames(newest.socket, frames);
  }

  /** Cuts a device's sockets and ends its session in storage, as of a moment; the caller is inside no transaction. */
  cut(deviceId: string, code: number, reason: string, endedAtMs: number): void {
    const device = this.#devices.get(deviceId);
    if (device) this.#storage.closeSession(deviceId, device.epoch, endedAtMs);
    for (const socket of this.#ctx.getWebSockets(deviceId)) closeQuietly(socket, code, reason);
    this.#newest.delete(deviceId);
    this.reload();
  }

  /** The socket is gone: ends its session if it was the newest. True when it was. */
  closed(socket: WebSocket, now: number): boolean {
    const attachment = this.current(socket);
    if (!attachment) return false;
    this.#storage.closeSession(attachment.deviceId, attachment.epoch, now);
    this.#newest.delete(attachment.deviceId);
    this.reload();
    return true;
  }

  /** No close event comes after a crash: at each wake, sessions without a socket end (rule 8). */
  reconcile(now: number): void {
    let changed = false;
    for (const device of this.#devices.values()) {
      if (!device.connection_id || this.#open(device.id)) continue;
      this.#storage.closeSession(device.id, device.epoch, now);
      changed = true;
    }
    if (changed) this.reload();
  }

  #isNewest(attachment: Attachment): boolean {
    const device = this.#devices.get(attachment.deviceId);
    return device?.epoch === attachment.epoch && device.connection_id !== null;
  }

  #open(deviceId: string): Newest | undefined {
    const newest = this.#newest.get(deviceId);
    if (!newest || newest.socket.readyState !== WebSocket.OPEN) return undefined;
    return this.#isNewest(newest.attachment) ? newest : undefined;
  }

  /** Pings are answered without waking this object. */
  #signOfLifeMs({ socket, attachment, lastFrameMs }: Newest): number {
    const pinged = this.#ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    return Math.max(attachment.connectedAtMs, lastFrameMs, pinged);
  }
}
