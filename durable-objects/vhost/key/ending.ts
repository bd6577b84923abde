/**
 * Writes the revocation of a key to D1 (rule 6). The Worker that requested the revocation also writes it, but
 * may fail first. Retried until D1 has it.
 */

import type { AuditEntry } from '../../../registry/entries.ts';
import type { DueSource } from '../../object/agenda.ts';
import type { Clock } from '../../object/clock.ts';
import type { KeyValues } from '../../object/key-values.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Turn, Turns } from '../../object/turn.ts';

/** Time for the Worker to write the revocation itself. */
const FIRST_MS = 5_000;
const ANSWER_MS = 5_000;
const MAX_PAUSE_MS = 5 * 60_000;

interface Unwritten {
  keyId: string;
  revokedAtMs: number;
  /** The event for the audit log; absent: the key was not revoked by a person. */
  audit?: AuditEntry | undefined;
}

export interface EndingHost {
  clock: Pick<Clock, 'now'>;
  turns: Turns;
  /** Writes the revocation to D1; an earlier one in D1 stays. */
  write(unwritten: Unwritten): Promise<void>;
  until<Value>(deadlineMs: number, work: PromiseLike<Value>): Promise<Value>;
  keepAlive(work: Promise<void>): void;
}

export class Ending implements DueSource {
  readonly name = 'ending';
  readonly #values: KeyValues<'ending'>;
  readonly #host: EndingHost;
  #unwritten: Unwritten | undefined;
  #dueMs = 0;
  #pauseMs = FIRST_MS;

  constructor(values: KeyValues<'ending'>, host: EndingHost) {
    this.#values = values;
    this.#host = host;
    this.#unwritten = values.get<Unwritten | null>('ending') ?? undefined;
  }

  begin(turn: Turn, unwritten: Unwritten): void {
    this.#values.set(turn, 'ending', unwritten);
    turn.remember(() => {
      this.#unwritten = unwritten;
      this.#dueMs = turn.now + FIRST_MS;
    });
  }

  dueMs(): number | undefined {
    return this.#unwritten && this.#dueMs;
  }

  run(turn: Turn): void {
    const unwritten = this.#unwritten;
    if (!unwritten) return;
    // The write is due again after its deadline and a pause. This is set before the write starts, so that a
    // crash during the write does not stop the retries.
    this.#dueMs = turn.now + ANSWER_MS + this.#pauseMs;
    this.#pauseMs = Math.min(2 * this.#pauseMs, MAX_PAUSE_MS);
    turn.send(() => this.#host.keepAlive(this.#report(unwritten, turn.now + ANSWER_MS)));
  }

  async #report(unwritten: Unwritten, deadlineMs: number): Promise<void> {
    try {
      await this.#host.until(deadlineMs, this.#host.write(unwritten));
    } catch (error) {
      console.warn(
        'revocation of a key not confirmed by the registry, its vhost will retry; AMQP refuses the key already',
        {
          keyId: unwritten.keyId,
          reason: reasonOf(error),
        },
      );
      return;
    }
    this.#host.turns.run((turn) => {
      this.#values.set(turn, 'ending', null);
      turn.remember(() => {
        this.#unwritten = undefined;
      });
    });
  }
}
