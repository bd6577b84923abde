/** The receiver of AMQP clients: collects frames for their links, to be sent after the commit. */
import {
  DELIVERY_WINDOW_BYTES,
  type Delivery,
  messageBytes,
  type VhostLinkDown,
} from '../../../protocol/link/vhost.ts';
import type { Taken } from '../queue/queue.ts';
import type { Consumer, Receiver } from './consumers.ts';

/**
 * Bytes sent to a connection's bridge, and bytes that the bridge has reported as written to the client's
 * socket, both since the link opened.
 */
export interface Window {
  sentBytes: number;
  drainedBytes: number;
}

/** The connections, as the broker needs them; `ClientSockets` has the sockets. */
export interface Connections {
  isConnected(connectionId: string): boolean;
  /** Undefined if nothing may be sent: the connection is half-open or closed. */
  window(connectionId: string): Window | undefined;
  saveWindow(connectionId: string, window: Window): void;
}

export class LinkReceiver implements Receiver {
  readonly #connections: Connections;
  #frames = new Map<string, VhostLinkDown[]>();

  constructor(connections: Connections) {
    this.#connections = connections;
  }

  hasRoom({ readerId: connectionId }: Consumer): boolean {
    const window = this.#connections.window(connectionId);
    return window !== undefined && window.sentBytes - window.drainedBytes < DELIVERY_WINDOW_BYTES;
  }

  deliver({ readerId: connectionId, channel, tag }: Consumer, lease: number, taken: Taken): number {
    const delivery = toDelivery(lease, taken);
    const window = this.#connections.window(connectionId);
    if (window) {
      window.sentBytes += delivery.bytes;
      this.#connections.saveWindow(connectionId, window);
    }
    this.#addFrame(connectionId, { kind: 'deliver', channel, tag, delivery });
    return delivery.bytes;
  }

  cancel({ readerId: connectionId, channel, tag }: Consumer): void {
    this.#addFrame(connectionId, { kind: 'cancelled', channel, tag });
  }

  /** Drops the frames of a closed connection. */
  forget(connectionId: string): void {
    this.#frames.delete(connectionId);
  }

  /** Deliveries and cancels since the last call, per connection. */
  takeFrames(): Map<string, VhostLinkDown[]> {
    const frames = this.#frames;
    this.#frames = new Map();
    return frames;
  }

  #addFrame(connectionId: string, frame: VhostLinkDown): void {
    const frames = this.#frames.get(connectionId);
    if (frames) frames.push(frame);
    else this.#frames.set(connectionId, [frame]);
  }
}

export function toDelivery(lease: number, { message, redelivered }: Taken): Delivery {
  const { routingKey, properties, body, encoding } = message;
  return { lease, redelivered, routingKey, properties, body, encoding, bytes: messageBytes(message) };
}
