/**
 * Sends answers and then deliveries to clients, a limited number per turn. When all messages of a stored chunk
 * are settled, the next turn deletes its row, or a turn of its own shortly after. Other acknowledgements and
 * delivered events that are only in memory are stored within a second, the events only if they are not
 * acknowledged first. The handler that started a wait stays open until the wait ends (`keepAlive`), so the
 * waits end within a second and no timer keeps an idle object awake.
 */
import type { VhostLinkDown } from '../../../protocol/link/vhost.ts';
import type { Calls } from '../../object/calls.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { ClientSockets } from '../client/sockets.ts';
import type { Broker } from './broker.ts';

/**
 * How long a client has to acknowledge an event before the event is stored. Most clients need milliseconds,
 * so most events write no row.
 */
const STORE_MS = 1_000;
/** How long the deletion of settled chunks waits for the next turn before a turn is run only for it. */
const SETTLE_FLUSH_MS = 100;

/** Pause between turns when deliveries exceed the limit of one turn. */
const PAUSE_MS = 1;

/** Frames by connection. */
export type Answers = Map<string, VhostLinkDown[]>;

export interface OutflowHost {
  turns: Turns;
  sockets: ClientSockets;
  broker(): Broker;
  /** Whether any event is only in memory; `store` writes all of them. */
  hasUnstored(): boolean;
  store(turn: Turn): void;
  keepAlive(work: Promise<void>): void;
  /** Called when deliveries are sent to clients. */
  taken(): void;
}

/** A wait that keeps its handler open. */
interface Wait {
  timer: number;
  end: () => void;
}

export class Outflow {
  readonly #host: OutflowHost;
  #storeWait: Wait | undefined;
  #settleWait: Wait | undefined;
  #isGoingOn = false;
  /** Who waits for the answer to a publish that no connection sent, by the id in its place. */
  readonly #callers = new Map<string, (frames: VhostLinkDown[]) => void>();

  constructor(host: OutflowHost) {
    this.#host = host;
  }

  send(answers: Answers = new Map()): void {
    const { sockets, turns, broker } = this.#host;
    if (broker().hasDeliverable) turns.run((turn) => broker().pump(turn));
    const frames = broker().links.takeFrames();
    const hasDeliveries = frames.size > 0;
    for (const [connectionId, first] of answers) {
      this.#callers.get(connectionId)?.(first);
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

  /** Resolves with the answer to a publish that is submitted under this id and not by a connection. */
  async answerTo(id: string, deadlineMs: number, calls: Pick<Calls, 'until'>): Promise<VhostLinkDown[]> {
    const { promise, resolve } = Promise.withResolvers<VhostLinkDown[]>();
    this.#callers.set(id, resolve);
    try {
      return await calls.until(deadlineMs, promise);
    } finally {
      this.#callers.delete(id);
    }
  }

  /**
   * Sends the deliveries that exceed the limit of one turn, in further turns. Between them the object handles
   * other events.
   */
  async #goOn(): Promise<void> {
    this.#isGoingOn = true;
    try {
      while (this.#host.broker().hasDeliverable) {
        // Without a pause the runtime handles no other event until all deliveries are sent.
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

  /** Waits `ms`, or until `end` is called because nothing is left to wait for; `work` runs in both cases. */
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
