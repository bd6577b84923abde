/**
 * The revocation of a key on its way to D1 (rule 6): whoever asked for it writes it there, too, but may not live to do it.
 * Told until D1 has it.
 */
import type { DueSource } from '../../object/agenda.ts';
import type { Clock } from '../../object/clock.ts';
import type { Facts } from '../../object/facts.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Turn, Turns } from '../../object/turn.ts';

/** Its asker has so long to write it. */
const FIRST_MS = 5_000;
const ANSWER_MS = 5_000;
const MAX_PAUSE_MS = 5 * 60_000;

interface Untold {
  keyId: string;
  revokedAtMs: number;
}

export interface EndingHost {
  clock: Pick<Clock, 'now'>;
  turns: Turns;
  /** Writes it to D1; what is there already stays. */
  write(untold: Untold): Promise<void>;
  until<Value>(deadlineMs: number, work: PromiseLike<Value>): Promise<Value>;
  keepAlive(work: Promise<void>): void;
}

export class Ending implements DueSource {
  readonly name = 'ending';
  readonly #facts: Facts<'ending'>;
  readonly #host: EndingHost;
  #untold: Untold | undefined;
  #dueMs = 0;
  #pauseMs = FIRST_MS;

  constructor(facts: Facts<'ending'>, host: EndingHost) {
    this.#facts = facts;
    this.#host = host;
    this.#untold = facts.get<Untold | null>('ending') ?? undefined;
  }

  begin(turn: Turn, keyId: string, revokedAtMs: number): void {
    this.#facts.set(turn, 'ending', { keyId, revokedAtMs });
    turn.remember(() => {
      this.#untold = { keyId, revokedAtMs };
      this.#dueMs = turn.now + FIRST_MS;
    });
  }

  dueMs(): number | undefined {
    return this.#untold && this.#dueMs;
  }

  run(turn: Turn): void {
    const untold = this.#untold;
    if (!untold) return;
    // Due again at its deadline and a pause later: a crash meanwhile strands nothing.
    this.#dueMs = turn.now + ANSWER_MS + this.#pauseMs;
    this.#pauseMs = Math.min(2 * this.#pauseMs, MAX_PAUSE_MS);
    turn.send(() => this.#host.keepAlive(this.#tell(untold, turn.now + ANSWER_MS)));
  }

  async #tell(untold: Untold, deadlineMs: number): Promise<void> {
    try {
      await this.#host.until(deadlineMs, this.#host.write(untold));
    } catch (error) {
      console.warn('revocation not in the registry yet', { keyId: untold.keyId, reason: reasonOf(error) });
      return;
    }
    this.#host.turns.run((turn) => {
      this.#facts.set(turn, 'ending', null);
      turn.remember(() => {
        this.#untold = undefined;
      });
    });
  }
}
