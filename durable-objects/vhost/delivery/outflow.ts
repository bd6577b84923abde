/**
 * What leaves a vhost for its clients: answers first, then the deliveries that may go now. Acknowledgements and
 * telemetry that are only in memory are written with the next turn, or by a turn of their own a little later.
 */
import type { VhostLinkDown } from '../../../protocol/link/vhost.ts';
import type { Turns } from '../../object/turn.ts';
import type { ClientSockets } from '../client/sockets.ts';
import type { Broker } from './broker.ts';

/** What a crash may cost of telemetry events [C-6.4]. */
const TELEMETRY_FLUSH_MS = 60_000;
/** How long acknowledgements wait for a turn to ride in, before they get one of their own. */
const SETTLE_FLUSH_MS = 100;

/** Frames by connection. */
export type Answers = Map<string, VhostLinkDown[]>;

export class Outflow {
  readonly #turns: Turns;
  readonly #sockets: ClientSockets;
  readonly #broker: () => Broker;
  #flushTimer: number | null = null;
  #settleTimer: number | null = null;

  constructor(turns: Turns, sockets: ClientSockets, broker: () => Broker) {
    this.#turns = turns;
    this.#sockets = sockets;
    this.#broker = broker;
  }

  send(answers: Answers = new Map()): void {
    if (this.#broker().hasDeliverable) this.#turns.run((turn) => this.#broker().pump(turn));
    const frames = this.#broker().takeFrames();
    for (const [connectionId, first] of answers) {
      const all = [...first, ...(frames.get(connectionId) ?? [])];
      frames.delete(connectionId);
      if (all.length > 0) this.#sockets.send(connectionId, all);
      else this.#sockets.storeWindow(connectionId);
    }
    for (const [connectionId, deliveries] of frames) this.#sockets.send(connectionId, deliveries);
    this.#scheduleFlush();
  }

  #scheduleFlush(): void {
    if (this.#settleTimer === null && this.#broker().isDirty) {
      this.#settleTimer = setTimeout(() => {
        this.#settleTimer = null;
        this.#turns.run(() => {});
      }, SETTLE_FLUSH_MS);
    }
    if (this.#flushTimer !== null || !this.#broker().telemetry.hasUnstored) return;
    this.#flushTimer = setTimeout(() => {
      this.#flushTimer = null;
      this.#turns.run((turn) => this.#broker().telemetry.flush(turn));
    }, TELEMETRY_FLUSH_MS);
  }
}
