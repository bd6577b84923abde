/**
 * Events on their way into the queues, from many Sites at once: the first goes at once, and what comes while its
 * write is under way shares the next turn. What follows from them is sent after it, answers first (rule 5).
 */
import type { Turn, Turns } from '../../object/turn.ts';
import type { Broker } from '../delivery/broker.ts';
import type { Answers, Outflow } from '../delivery/outflow.ts';

/** Events that wait for their turn, and what is answered once they are in. */
interface Waiting {
  take: (turn: Turn) => void;
  answers: Answers;
  done: (isStored: boolean) => void;
}

export interface EventStoreHost {
  turns: Turns;
  outflow: Outflow;
  broker(): Broker;
  hasEnded(): boolean;
  /** Resolves once what is written has reached the disk. */
  written(): Promise<void>;
  keepAlive(work: Promise<void>): void;
}

export class EventStore {
  readonly #host: EventStoreHost;
  #waiting: Waiting[] = [];
  #isStoring = false;

  constructor(host: EventStoreHost) {
    this.#host = host;
  }

  /** Stores events and hands out what they make deliverable. False when the key has ended. */
  store(take: (turn: Turn) => void, answers: Answers = new Map()): Promise<boolean> {
    return new Promise((resolve) => {
      this.#waiting.push({ take, answers, done: resolve });
      if (this.#isStoring) return;
      this.#isStoring = true;
      this.#host.keepAlive(this.#storeWaiting());
    });
  }

  async #storeWaiting(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting;
        this.#waiting = [];
        const isAlive = !this.#host.hasEnded();
        if (isAlive) this.#storeBatch(batch);
        for (const { done } of batch) done(isAlive);
        await this.#host.written();
      }
    } finally {
      this.#isStoring = false;
    }
  }

  #storeBatch(batch: readonly Waiting[]): void {
    this.#host.turns.run((turn) => {
      for (const { take } of batch) take(turn);
      this.#host.broker().pump(turn);
    });
    const answers: Answers = new Map();
    for (const [connectionId, frames] of batch.flatMap((waiting) => [...waiting.answers])) {
      const own = answers.get(connectionId);
      if (own) own.push(...frames);
      else answers.set(connectionId, [...frames]);
    }
    this.#host.outflow.send(answers);
  }
}
