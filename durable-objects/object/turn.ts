/**
 * A turn is one transaction of an object with its `now`: all that it writes stands or falls together (rule 3). A
 * function that writes takes a turn; one that takes none cannot write. What follows from a write waits for it:
 *
 *   work ─► ending ─► commit ─► remembered ─► sent
 *    │ step: a savepoint of its own; one that throws falls alone, with what it wrote, remembered, sent and changed
 *    │ anything else that throws: nothing stands, and the object starts over from what is stored
 */

import type { Clock } from './clock.ts';
import { stackOf } from './reason.ts';
import type { SqlRow } from './sql.ts';

type Write = `INSERT ${string}` | `UPDATE ${string}` | `DELETE ${string}`;

export class Turn {
  /** The moment at which all of it happens, epoch milliseconds. */
  readonly now: number;
  readonly #storage: DurableObjectStorage;
  readonly #undos: (() => void)[] = [];
  readonly #memories: (() => void)[] = [];
  readonly #sends: (() => void)[] = [];
  #rowsWritten = 0;

  constructor(storage: DurableObjectStorage, now: number) {
    this.#storage = storage;
    this.now = now;
  }

  get rowsWritten(): number {
    return this.#rowsWritten;
  }

  /** Returns the rows written: what the statement changed, index entries included. */
  write(statement: Write, ...bindings: SqlStorageValue[]): number {
    const { rowsWritten } = this.#storage.sql.exec(statement, ...bindings);
    this.#rowsWritten += rowsWritten;
    return rowsWritten;
  }

  /** A write that answers with its row. */
  writeReturning<Row extends SqlRow>(
    statement: `${Write} RETURNING ${string}`,
    ...bindings: SqlStorageValue[]
  ): Row {
    const cursor = this.#storage.sql.exec<Row>(statement, ...bindings);
    const row = cursor.one();
    this.#rowsWritten += cursor.rowsWritten;
    return row;
  }

  /** Memory that must already be other for the rest of the turn: `undo` brings it back if the step falls. */
  undo(undo: () => void): void {
    this.#undos.push(undo);
  }

  /** Memory that changes once the turn stands. */
  remember(change: () => void): void {
    this.#memories.push(change);
  }

  /** What leaves the object once the turn stands and is remembered. */
  send(send: () => void): void {
    this.#sends.push(send);
  }

  /** Work in a savepoint. When it throws it alone is undone, and the answer is false. */
  step(work: () => void): boolean {
    const failure = this.tryStep(work);
    if (failure) console.error('step failed', { stack: stackOf(failure.error) });
    return failure === undefined;
  }

  /** The same, for who wants to know what it threw. */
  tryStep(work: () => void): { error: unknown } | undefined {
    const marks = [this.#undos.length, this.#memories.length, this.#sends.length] as const;
    try {
      this.#storage.transactionSync(work);
      return undefined;
    } catch (error) {
      for (const undo of this.#undos.splice(marks[0]).reverse()) undo();
      this.#memories.length = marks[1];
      this.#sends.length = marks[2];
      return { error };
    }
  }

  /** For `Turns`: what waited for the commit. */
  takeMemories(): (() => void)[] {
    return this.#memories.splice(0);
  }

  takeSends(): (() => void)[] {
    return this.#sends.splice(0);
  }
}

export interface TurnHooks {
  /** Writes what has gathered; last in every transaction. */
  ending(turn: Turn): void;
  /** After everything: the agenda is armed, and what waited for a turn goes on. */
  ended(): void;
}

/** The only maker of turns: one at a time, each whole. */
export class Turns {
  readonly #ctx: DurableObjectState;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #hooks: TurnHooks;
  #isRunning = false;
  #rowsWritten = 0;

  constructor(ctx: DurableObjectState, clock: Pick<Clock, 'now'>, hooks: TurnHooks) {
    this.#ctx = ctx;
    this.#clock = clock;
    this.#hooks = hooks;
  }

  /** Rows written since this wake: they are the bill. */
  get rowsWritten(): number {
    return this.#rowsWritten;
  }

  /**
   * Runs one turn; returns what `work` does. `sendWhen` decides when its sends go, at once unless told otherwise. A
   * turn that fails aborts the object: memory is read back from what is stored, and clients come again.
   */
  run<Value>(work: (turn: Turn) => Value, sendWhen: (send: () => void) => void = (send) => send()): Value {
    if (this.#isRunning) throw new Error('a turn within a turn');
    const turn = new Turn(this.#ctx.storage, this.#clock.now());
    this.#isRunning = true;
    let value: Value;
    try {
      value = this.#ctx.storage.transactionSync(() => {
        const done = work(turn);
        this.#hooks.ending(turn);
        return done;
      });
    } catch (error) {
      console.error('write failed', { stack: stackOf(error) });
      this.#ctx.abort('write failed');
      throw error;
    } finally {
      this.#isRunning = false;
    }
    this.#rowsWritten += turn.rowsWritten;
    for (const change of turn.takeMemories()) change();
    sendWhen(() => {
      for (const send of turn.takeSends()) sendQuietly(send);
      this.#hooks.ended();
    });
    return value;
  }

  /** A turn for a caller who is told what was wrong with its work: that is undone, and the object goes on. */
  attempt(work: (turn: Turn) => void): void {
    const failure = this.run((turn) => turn.tryStep(() => work(turn)));
    if (failure) throw failure.error;
  }
}

/** One that fails holds back no other. */
function sendQuietly(send: () => void): void {
  try {
    send();
  } catch (error) {
    console.error('send failed', { stack: stackOf(error) });
  }
}
