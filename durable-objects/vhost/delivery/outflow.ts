/**
 * What leaves a vhost for its clients: answers first, then the deliveries that may go now, so many a turn.
 * Acknowledgements that are only in memory ride with the next turn, or get one of their own a moment later; what is in
 * memory alone and was handed out is stored a little after, unless it is acknowledged by then. Both waits are part of
 * the handler that began them (`keepAlive`): no timer keeps an object awake that has nothing to do.
 */
import type { VhostLinkDown } from '../../../protocol/link/vhost.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { ClientSockets } from '../client/sockets.ts';
import type { Broker } from './broker.ts';

/** How long a client may take to acknowledge an event before it is stored: most take milliseconds, and no row. */
const STORE_MS = 1_000;
/** How long acknowledgements wait for a turn to ride in, before they get one of their own. */
const SETTLE_FLUSH_MS = 100;

/** Between turns of deliveries that one did not hold. */
const PAUSE_MS = 1;

/** Frames by connection. */
export type Answers = Map<string, VhostLinkDown[]>;

export interface OutflowHost {
  turns: Turns;
  sockets: ClientSockets;
  broker(): Broker;
  /** Whether something is in memory alone; and what stores it. */
  hasUnstored(): boolean;
  store(turn: Turn): void;
  keepAlive(work: Promise<void>): void;
  /** Clients take something. */
  taken(): void;
}

/** A wait within a handler. */
interface Wait {
  timer: number;
  end: () => void;
}

export class Outflow {
  readonly #host: OutflowHost;
  #storeWait: Wait | undefined;
  #settleWait: Wait | undefined;
  #isGoingOn = false;

  constructor(host: OutflowHost) {
    this.#host = host;
  }

  send(answers: Answers = new Map()): void {
    const { sockets, turns, broker } = this.#host;
    if (broker().hasDeliverable) turns.run((turn) => broker().pump(turn));
    const frames = broker().takeFrames();
    const hasDeliveries = frames.size > 0;
    for (const [connectionId, first] of answers) {
      const all = [...first, ...(frames.get(connectionId) ?? [])];
      frames.delete(connectionId);
      if (all.length > 0) sockets.send(connectionId, all);
      else sockets.storeWindow(connectionId);
    }
    for (const [connectionId, deliveries] of frames) sockets.send(connectionId, deliveries);
    if (hasDeliveries) this.#host.taken();
    this.#scheduleFlush();
    if (!this.#isGoingOn && broker().hasDeliverable) this.#host.keepAlive(this.#goOn());
  }

  /** The deliveries that one turn did not hold: others get their turns in between. */
  async #goOn(): Promise<void> {
    this.#isGoingOn = true;
    try {
      while (this.#host.broker().hasDeliverable) {
        // A pause, however short: without one the runtime lets nobody in before all of it has gone.
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        this.send();
      }
    } finally {
      this.#isGoingOn = false;
    }
  }

  #scheduleFlush(): void {
    const { turns, broker } = this.#host;
    if (!broker().queues.isDirty) this.#settleWait?.end();
    else
      this.#settleWait ??= this.#wait(SETTLE_FLUSH_MS, () => {
        this.#settleWait = undefined;
        if (broker().queues.isDirty) turns.run(() => {});
      });
    if (!this.#host.hasUnstored()) this.#storeWait?.end();
    else
      this.#storeWait ??= this.#wait(STORE_MS, () => {
        this.#storeWait = undefined;
        if (this.#host.hasUnstored()) turns.run((turn) => this.#host.store(turn));
      });
  }

  /** Ends by itself or when there is nothing to wait for any more; `work` runs in both cases. */
  #wait(ms: number, work: () => void): Wait {
    const { promise, resolve } = Promise.withResolvers<void>();
    const end = () => {
      clearTimeout(timer);
      try {
        work();
      } finally {
        resolve();
      }
    };
    const timer = setTimeout(end, ms);
    this.#host.keepAlive(promise);
    return { timer, end };
  }
}
