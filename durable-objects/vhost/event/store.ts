/**
 * Stores events from many Sites. The first ones are stored at once; those that arrive during that write are
 * stored together in the next turn. Answers, then deliveries are sent after the turn (rule 5).
 */
import type { Turn, Turns } from '../../object/turn.ts';
import type { Broker } from '../delivery/broker.ts';
import type { Answers, Outflow } from '../delivery/outflow.ts';

/** Events that wait for a turn, and the answers to send once they are stored. */
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
  /** Resolves once all writes are on disk. */
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

  /** Stores events and delivers what is then deliverable. False if the key has ended. */
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
