/**
 * The device sockets of a site. One session per device: an accepted connect mints an epoch, and only the socket of
 * a device's newest epoch counts (rule 2). A closed socket still delivers what was under way, and half-open ones
 * stay listed for long, so a socket must also have shown a sign of life in the last minute to be sent to.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { DeviceLinkDown } from '../../../protocol/link/device.ts';
import { CLIENT_QUIET_MS, CLOSE_CODES, SIGN_OF_LIFE_MS } from '../../../protocol/link/live.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { SeenConnections } from '../../object/seen-connections.ts';
import { endLink, sendFrames } from '../../object/sockets.ts';
import type { Turn } from '../../object/turn.ts';
import type { DeviceDial } from '../../rpc.ts';
import type { Devices } from './devices.ts';
import type { DeviceRow } from './rows.ts';

/** Rides on the socket itself and outlives hibernation. */
interface Attachment {
  deviceId: string;
  epoch: number;
  connectedAtMs: number;
  subscribed: boolean;
  /** The version of the link's frames that its bridge speaks. */
  link: number;
  /** What the device may have forgotten was told again in this session. */
  handedOver?: boolean;
  /** Since when nothing, no ping either, came from the client [C-3.10]. */
  quietSinceMs?: number;
  /** A newer token that it was sent: how often, and as which command; `taken` once it says so. */
  refresh?: { tries: number; cmdId: string; taken?: boolean };
}

/** The socket of a device's newest epoch. */
interface Newest {
  socket: WebSocket;
  attachment: Attachment;
  lastFrameMs: number;
}

export class DeviceSessions implements DueSource {
  readonly name = 'sessions';
  readonly #ctx: DurableObjectState;
  readonly #devices: Devices;
  readonly #seen: SeenConnections;
  readonly #onEnd: (turn: Turn) => void;
  readonly #newest = new Map<string, Newest>();

  /** `onEnd`: sessions ended by themselves, in this turn. */
  constructor(ctx: DurableObjectState, devices: Devices, seen: SeenConnections, onEnd: (turn: Turn) => void) {
    this.#ctx = ctx;
    this.#devices = devices;
    this.#seen = seen;
    this.#onEnd = onEnd;
    for (const socket of ctx.getWebSockets()) {
      const attachment = socket.deserializeAttachment() as Attachment | null;
      if (attachment && this.#isNewest(attachment)) {
        this.#newest.set(attachment.deviceId, { socket, attachment, lastFrameMs: 0 });
      }
    }
  }

  /** True when the bridge's connection id opened a link here before: a replayed proof. */
  isReplay(dial: DeviceDial): boolean {
    return this.#seen.has(dial.connection);
  }

  /** Opens the session: a new epoch, the older sockets of the device closed. Returns the client's end. */
  accept(turn: Turn, dial: DeviceDial): WebSocket {
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    const older = this.#ctx.getWebSockets(dial.deviceId);
    this.#seen.remember(turn, dial.connection);
    this.#freeOlderBoots(turn, dial);
    const epoch = this.#devices.openSession(turn, dial.deviceId, {
      connection_id: dial.connection,
      bridge_id: dial.bridge,
      bridge_boot: dial.boot,
      session_expires_at_ms: dial.expiresAtMs,
      session_issued_at_ms: dial.issuedAtMs ?? null,
    });
    turn.remember(() => {
      this.#ctx.acceptWebSocket(server, [dial.deviceId]);
      const { deviceId, link } = dial;
      const attachment = { deviceId, epoch, connectedAtMs: turn.now, subscribed: false, link };
      server.serializeAttachment(attachment);
      this.#newest.set(dial.deviceId, { socket: server, attachment, lastFrameMs: 0 });
    });
    turn.send(() => {
      for (const socket of older) endLink(socket, CLOSE_CODES.takenOver, 'taken over');
    });
    return client;
  }

  /** A bridge that booted anew has none of its old connections (rule 8). */
  #freeOlderBoots(turn: Turn, dial: DeviceDial): void {
    for (const device of this.#devices.all()) {
      const isOlder = device.bridge_id === dial.bridge && device.bridge_boot !== dial.boot;
      if (isOlder && device.connection_id) {
        this.cut(turn, device.id, CLOSE_CODES.takenOver, 'new boot', turn.now);
      }
    }
  }

  /** The device of a socket while it is that device's newest; undefined for every other socket. */
  current(socket: WebSocket): Readonly<Attachment> | undefined {
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
    this.#attach(deviceId, (attachment) => ({ ...attachment, subscribed }));
  }

  /** True once a session: what its device has and may have forgotten is to be told again. */
  handOver(deviceId: string): boolean {
    const isFirst = this.#newest.get(deviceId)?.attachment.handedOver !== true;
    if (isFirst) this.#attach(deviceId, (attachment) => ({ ...attachment, handedOver: true }));
    return isFirst;
  }

  /** What of a newer token this session was sent. */
  refreshOf(deviceId: string): Attachment['refresh'] {
    return this.#newest.get(deviceId)?.attachment.refresh;
  }

  setRefresh(deviceId: string, refresh: NonNullable<Attachment['refresh']>): void {
    this.#attach(deviceId, (attachment) => ({ ...attachment, refresh }));
  }

  /** Nothing came from the client for so long that its bridge says so, or something came again. */
  setQuiet(deviceId: string, isQuiet: boolean, now: number): void {
    this.#attach(deviceId, ({ quietSinceMs: _before, ...attachment }) =>
      isQuiet ? { ...attachment, quietSinceMs: now - CLIENT_QUIET_MS } : attachment,
    );
  }

  /** Since when nothing came from a connected client; undefined while it shows life. */
  quietSinceMs(deviceId: string): number | undefined {
    return this.#newest.get(deviceId)?.attachment.quietSinceMs;
  }

  /** The version of the link's frames that a device's bridge speaks. */
  linkOf(deviceId: string): number {
    return this.#newest.get(deviceId)?.attachment.link ?? 1;
  }

  /** Whether the bridges of all connected devices tell when they fall silent. */
  get areLullsTold(): boolean {
    return this.#devices.all().every(({ id, connection_id }) => !connection_id || this.linkOf(id) >= 4);
  }

  #attach(deviceId: string, change: (attachment: Attachment) => Attachment): void {
    const newest = this.#newest.get(deviceId);
    if (!newest) return;
    newest.attachment = change(newest.attachment);
    newest.socket.serializeAttachment(newest.attachment);
  }

  /** Whether any device is in a session and shows life. */
  get isAnyConnected(): boolean {
    return this.#devices.all().some(({ id, connection_id }) => connection_id && !this.quietSinceMs(id));
  }

  /** Whether commands reach the device now: its newest socket is open, alive and subscribed. */
  isLive(deviceId: string, now: number): boolean {
    const newest = this.#open(deviceId);
    if (!newest?.attachment.subscribed || newest.attachment.quietSinceMs !== undefined) return false;
    const oldest = now - SIGN_OF_LIFE_MS;
    return newest.lastFrameMs >= oldest || this.#signOfLifeMs(newest) >= oldest;
  }

  send(deviceId: string, frames: readonly DeviceLinkDown[]): void {
    const newest = this.#open(deviceId);
    if (newest) sendFrames(newest.socket, frames);
  }

  /** Ends a device's session as of a moment, and closes its sockets. */
  cut(turn: Turn, deviceId: string, code: number, reason: string, endedAtMs: number): void {
    const sockets = this.#ctx.getWebSockets(deviceId);
    this.#devices.closeSession(turn, deviceId, endedAtMs);
    turn.remember(() => this.#newest.delete(deviceId));
    turn.send(() => {
      for (const socket of sockets) endLink(socket, code, reason);
    });
  }

  /** The socket is gone: ends its session if it was the newest. */
  closed(turn: Turn, socket: WebSocket): void {
    const attachment = this.current(socket);
    if (!attachment) return;
    this.#devices.closeSession(turn, attachment.deviceId, turn.now);
    turn.remember(() => this.#newest.delete(attachment.deviceId));
  }

  /** Whether a session has no socket: no close event comes after a crash (rule 8). */
  get isAnyMissing(): boolean {
    return this.#devices.all().some((device) => this.#isMissing(device));
  }

  /** At each wake: sessions without a socket end. */
  reconcile(turn: Turn): void {
    for (const device of this.#devices.all()) {
      if (this.#isMissing(device)) this.#devices.closeSession(turn, device.id, turn.now);
    }
  }

  #isMissing(device: DeviceRow): boolean {
    return device.connection_id !== null && !this.#open(device.id);
  }

  // the agenda: tokens expire, and the silent are given up

  dueMs(): number | undefined {
    const connected = this.#devices.all().filter((device) => device.connection_id);
    return earliest(
      connected.flatMap((device) => [
        device.session_expires_at_ms,
        this.#lastKnownMs(device) + LIMIT.sessionGoneMs,
      ]),
    );
  }

  run(turn: Turn): void {
    for (const device of this.#devices.all()) {
      if (!device.connection_id) continue;
      const lastKnownMs = this.#lastKnownMs(device);
      if ((device.session_expires_at_ms ?? Number.POSITIVE_INFINITY) <= turn.now) {
        this.cut(turn, device.id, CLOSE_CODES.expired, 'token expired', turn.now);
      } else if (lastKnownMs + LIMIT.sessionGoneMs <= turn.now) {
        this.cut(turn, device.id, CLOSE_CODES.takenOver, 'no sign of life', lastKnownMs);
      }
    }
    this.#onEnd(turn);
  }

  /** The last moment at which a connected device showed life, or at least connected. */
  #lastKnownMs(device: DeviceRow): number {
    const newest = this.#open(device.id);
    return newest ? this.#signOfLifeMs(newest) : (device.connected_at_ms ?? 0);
  }

  #isNewest(attachment: Attachment): boolean {
    const device = this.#devices.find(attachment.deviceId);
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
