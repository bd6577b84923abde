/**
 * The device sockets of a site. One session per device: each accepted connect gets a new epoch, and only the
 * socket of a device's newest epoch is valid (rule 2). A closed socket may still deliver frames that were
 * sent earlier, and a half-open socket may look open for a long time. Therefore commands are sent only to a
 * socket that showed a sign of life in the last minute.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { DeviceLinkDown } from '../../../protocol/link/device.ts';
import { CLIENT_QUIET_MS, CLOSE_CODES, SIGN_OF_LIFE_MS } from '../../../protocol/link/live.ts';
import type { DeviceDial, SeenConnections } from '../../dial.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import { endLink, sendFrames } from '../../object/sockets.ts';
import type { Turn } from '../../object/turn.ts';
import type { Devices } from './devices.ts';
import type { DeviceRow } from './rows.ts';

/** Stored with the socket, so it survives hibernation. */
interface Attachment {
  deviceId: string;
  epoch: number;
  connectedAtMs: number;
  /** Where the client is. */
  address: string;
  subscribed: boolean;
  /** True once the Site has sent again, in this session, the dispatches that the device may have lost. */
  handedOver?: boolean;
  /** Since when the client has sent nothing, not even pings [C-3.10]. */
  quietSinceMs?: number;
  /**
   * The new token that was sent in this session: how many were sent, and the `cmdId` of the last one.
   * `taken`: the device acknowledged it.
   */
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

  /** `onEnd`: called when sessions expired or timed out in this turn. */
  constructor(ctx: DurableObjectState, devices: Devices, seen: SeenConnections, onEnd: (turn: Turn) => void) {
    this.#ctx = ctx;
    this.#devices = devices;
    this.#seen = seen;
    this.#onEnd = onEnd;
    for (const socket of ctx.getWebSockets()) {
      const attachment = socket.deserializeAttachment() as Attachment | null;
      // Event streams have no deviceId.
      if (attachment?.deviceId && this.#isNewest(attachment)) {
        this.#newest.set(attachment.deviceId, { socket, attachment, lastFrameMs: 0 });
      }
    }
  }

  /** True if this connection id already opened a link here: the bridge proof is a replay. */
  isReplay(dial: DeviceDial): boolean {
    return this.#seen.has(dial.connection);
  }

  /**
   * Opens a session with a new epoch and closes older sockets of the device. Returns the bridge's end of the
   * socket.
   */
  accept(turn: Turn, dial: DeviceDial): { socket: WebSocket; displaced: string | undefined } {
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    const older = this.#ctx.getWebSockets(dial.deviceId);
    this.#seen.remember(turn, dial.connection);
    this.#freeOlderBoots(turn, dial);
    const displaced = this.#liveAddress(dial.deviceId, turn.now);
    const epoch = this.#devices.openSession(turn, dial.deviceId, {
      connection_id: dial.connection,
      bridge_id: dial.bridge,
      bridge_boot: dial.boot,
      session_expires_at_ms: dial.expiresAtMs,
      session_issued_at_ms: dial.issuedAtMs,
    });
    turn.remember(() => {
      this.#ctx.acceptWebSocket(server, [dial.deviceId]);
      const { deviceId } = dial;
      const attachment = {
        deviceId,
        epoch,
        connectedAtMs: turn.now,
        address: dial.address,
        subscribed: false,
      };
      server.serializeAttachment(attachment);
      this.#newest.set(dial.deviceId, { socket: server, attachment, lastFrameMs: 0 });
    });
    turn.send(() => {
      for (const socket of older) endLink(socket, CLOSE_CODES.takenOver, 'taken over');
    });
    return { socket: client, displaced };
  }

  /**
   * Where the client of an open session is that showed life lately; undefined if there is none. Pings of the bridge do
   * not count: a client that lost its connection without a word, and logs in again, takes its own place.
   */
  #liveAddress(deviceId: string, now: number): string | undefined {
    const newest = this.#open(deviceId);
    if (!newest || newest.attachment.quietSinceMs !== undefined) return undefined;
    const { connectedAtMs, address } = newest.attachment;
    return Math.max(connectedAtMs, newest.lastFrameMs) >= now - LIMIT.sessionGoneMs ? address : undefined;
  }

  /** A restarted bridge has none of its previous connections (rule 8): ends their sessions. */
  #freeOlderBoots(turn: Turn, dial: DeviceDial): void {
    for (const device of this.#devices.all()) {
      const isOlder = device.bridge_id === dial.bridge && device.bridge_boot !== dial.boot;
      if (isOlder && device.connection_id) {
        this.cut(turn, device.id, CLOSE_CODES.takenOver, 'new boot', turn.now);
      }
    }
  }

  /** The attachment of a socket if it is its device's newest; undefined for every other socket. */
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

  /**
   * Returns true at the first call in a session: the Site must then send again the dispatches that the device
   * may have lost.
   */
  handOver(deviceId: string): boolean {
    const isFirst = this.#newest.get(deviceId)?.attachment.handedOver !== true;
    if (isFirst) this.#attach(deviceId, (attachment) => ({ ...attachment, handedOver: true }));
    return isFirst;
  }

  /** The newer token that was sent in this session, if any. */
  refreshOf(deviceId: string): Attachment['refresh'] {
    return this.#newest.get(deviceId)?.attachment.refresh;
  }

  setRefresh(deviceId: string, refresh: NonNullable<Attachment['refresh']>): void {
    this.#attach(deviceId, (attachment) => ({ ...attachment, refresh }));
  }

  /** The bridge reports that the client has been silent for CLIENT_QUIET_MS, or that it sends again. */
  setQuiet(deviceId: string, isQuiet: boolean, now: number): void {
    this.#attach(deviceId, ({ quietSinceMs: _before, ...attachment }) =>
      isQuiet ? { ...attachment, quietSinceMs: now - CLIENT_QUIET_MS } : attachment,
    );
  }

  /** Since when a connected client has been silent; undefined while it shows signs of life. */
  quietSinceMs(deviceId: string): number | undefined {
    return this.#newest.get(deviceId)?.attachment.quietSinceMs;
  }

  #attach(deviceId: string, change: (attachment: Attachment) => Attachment): void {
    const newest = this.#newest.get(deviceId);
    if (!newest) return;
    newest.attachment = change(newest.attachment);
    newest.socket.serializeAttachment(newest.attachment);
  }

  /** Whether any device has a session and is not silent. */
  get isAnyConnected(): boolean {
    return this.#devices.all().some(({ id, connection_id }) => connection_id && !this.quietSinceMs(id));
  }

  /** Whether commands can reach the device now: its newest socket is open, alive and subscribed. */
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

  /** Ends a device's session, with `endedAtMs` as its end, and closes its sockets. */
  cut(turn: Turn, deviceId: string, code: number, reason: string, endedAtMs: number): void {
    const sockets = this.#ctx.getWebSockets(deviceId);
    this.#devices.closeSession(turn, deviceId, endedAtMs);
    turn.remember(() => this.#newest.delete(deviceId));
    turn.send(() => {
      for (const socket of sockets) endLink(socket, code, reason);
    });
  }

  /** The socket closed: ends the session if it was the device's newest socket. */
  closed(turn: Turn, socket: WebSocket): void {
    const attachment = this.current(socket);
    if (!attachment) return;
    this.#devices.closeSession(turn, attachment.deviceId, turn.now);
    turn.remember(() => this.#newest.delete(attachment.deviceId));
  }

  /** Whether a session has no socket: after a crash there is no close event (rule 8). */
  get isAnyMissing(): boolean {
    return this.#devices.all().some((device) => this.#isMissing(device));
  }

  /** Ends sessions without a socket. Called at each wake. */
  reconcile(turn: Turn): void {
    for (const device of this.#devices.all()) {
      if (this.#isMissing(device)) this.#devices.closeSession(turn, device.id, turn.now);
    }
  }

  #isMissing(device: DeviceRow): boolean {
    return device.connection_id !== null && !this.#open(device.id);
  }

  // Agenda: ends sessions whose token or certificate expired or whose socket shows no sign of life.

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
        this.cut(turn, device.id, CLOSE_CODES.expired, 'credential expired', turn.now);
      } else if (lastKnownMs + LIMIT.sessionGoneMs <= turn.now) {
        this.cut(turn, device.id, CLOSE_CODES.takenOver, 'no frame or ping from the bridge', lastKnownMs);
      }
    }
    this.#onEnd(turn);
  }

  /** When a connected device last showed a sign of life; at least its connect time. */
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

  /** Includes pings, which the runtime answers without waking this object. */
  #signOfLifeMs({ socket, attachment, lastFrameMs }: Newest): number {
    const pinged = this.#ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    return Math.max(attachment.connectedAtMs, lastFrameMs, pinged);
  }
}
