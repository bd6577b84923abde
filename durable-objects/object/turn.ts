/**
 * A turn is one transaction of an object with its `now`: all its writes are committed or rolled back together
 * (rule 3). A function that writes takes a turn; a function without one cannot write. Changes of memory and
 * sends are done after all writes:
 *
 *   work ─► ending ─► remembered ─► sent ─► the runtime commits, and only then lets out what was sent
 *    │ step: a savepoint; if it throws, only its own writes, memory changes and sends are undone
 *    │ anything else that throws: the object is aborted, so that the runtime rolls back and the object restarts
 *
 * The runtime keeps all writes up to the next wait for I/O in one transaction, so a turn needs no savepoint of its own:
 * an aborted object commits none of them, and no code of it runs on.
 */

import type { Clock } from './clock.ts';
import type { Fence } from './fence.ts';
import { stackOf } from './reason.ts';
import type { SqlRow } from './sql.ts';

/** The most values that Cloudflare binds to one statement. */
const MAX_BINDINGS = 100;

type InsertVerb = 'INSERT' | 'INSERT OR REPLACE';
type Write = `INSERT ${string}` | `UPDATE ${string}` | `DELETE ${string}`;

export class Turn {
  /** The time of everything in this turn, epoch milliseconds. */
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

  /** Returns the number of rows written, index entries included. */
  write(statement: Write, ...bindings: SqlStorageValue[]): number {
    const { rowsWritten } = this.#storage.sql.exec(statement, ...bindings);
    this.#rowsWritten += rowsWritten;
    return rowsWritten;
  }

  /** Inserts a row: its keys are the columns. */
  insert(table: string, row: Readonly<SqlRow>, verb: InsertVerb = 'INSERT'): void {
    this.insertAll(table, [row], verb);
  }

  /** Inserts rows with the same columns, with as few statements as the number of bindings allows. */
  insertAll(table: string, rows: readonly Readonly<SqlRow>[], verb: InsertVerb = 'INSERT'): void {
    const columns = Object.keys(rows[0] ?? {});
    const marks = `(${columns.map(() => '?').join(', ')})`;
    const perStatement = Math.max(1, Math.floor(MAX_BINDINGS / columns.length));
    for (let start = 0; start < rows.length; start += perStatement) {
      const some = rows.slice(start, start + perStatement);
      const values = some.flatMap((row) => columns.map((column) => row[column] ?? null));
      const all = some.map(() => marks).join(', ');
      this.write(`${verb} INTO ${table} (${columns.join(', ')}) VALUES ${all}`, ...values);
    }
  }

  /** Inserts a row, or replaces the one with the same key. */
  replace(table: string, row: Readonly<SqlRow>): void {
    this.insert(table, row, 'INSERT OR REPLACE');
  }

  /** Executes a write and returns its row. */
  writeReturning<Row extends SqlRow>(
    statement: `${Write} RETURNING ${string}`,
    ...bindings: SqlStorageValue[]
  ): Row {
    const cursor = this.#storage.sql.exec<Row>(statement, ...bindings);
    const row = cursor.one();
    this.#rowsWritten += cursor.rowsWritten;
    return row;
  }

  /** Registers how to restore memory that was changed in a step: `undo` runs if the step fails. */
  undo(undo: () => void): void {
    this.#undos.push(undo);
  }

  /** Runs `change`, which changes memory, after all writes of the turn. */
  remember(change: () => void): void {
    this.#memories.push(change);
  }

  /** Runs `send` after the memory changes. */
  send(send: () => void): void {
    this.#sends.push(send);
  }

  /**
   * Runs work in a savepoint. If it throws, only this work is undone, the error is logged and the result is
   * false.
   */
  step(work: () => void): boolean {
    const failure = this.tryStep(work);
    if (failure)
      console.error('step of a turn failed and was undone, the rest of the turn continues', {
        stack: stackOf(failure.error),
      });
    return failure === undefined;
  }

  /** Like `step`, but returns the error instead of logging it. */
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

  /** Only for `Turns`: returns and removes the memory changes that wait for the end of the writes. */
  takeMemories(): (() => void)[] {
    return this.#memories.splice(0);
  }

  takeSends(): (() => void)[] {
    return this.#sends.splice(0);
  }
}

/** Ends the transaction of a rehearsal, which stores nothing. */
const DISCARDED = new Error('the rehearsal ends here');

export interface TurnHooks {
  /** Writes collected changes; the last writes of every turn. */
  ending(turn: Turn): void;
  /** Called after the sends: sets the alarm for the agenda and starts work that waited for the end of the turn. */
  ended(): void;
}

/** An object runs fewer turns than this in a millisecond, so a sequence that begins at the clock is higher than any before. */
const SEQUENCES_PER_MS = 1_000;

/** Creates all turns of an object, one at a time. */
export class Turns {
  readonly #ctx: DurableObjectState;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #hooks: TurnHooks;
  readonly #fence: Pick<Fence, 'check'> | undefined;
  #isRunning = false;
  #rowsWritten = 0;
  #sequence: number;

  constructor(
    ctx: DurableObjectState,
    clock: Pick<Clock, 'now'>,
    hooks: TurnHooks,
    fence?: Pick<Fence, 'check'>,
  ) {
    this.#ctx = ctx;
    this.#clock = clock;
    this.#hooks = hooks;
    this.#fence = fence;
    this.#sequence = clock.now() * SEQUENCES_PER_MS;
  }

  /** Increases with each turn, also over restarts of the object. Rehearsals leave it as it is. */
  get sequence(): number {
    return this.#sequence;
  }

  /** Rows written since the object was loaded; Cloudflare bills them. */
  get rowsWritten(): number {
    return this.#rowsWritten;
  }

  /**
   * Runs one turn and returns the result of `work`. `sent` runs after the sends, before the hook `ended`. The
   * runtime holds back everything that leaves the object until the writes are on disk. Throws while the object is
   * behind a fence. A turn that fails aborts the object: it reloads its memory from storage, and clients reconnect.
   */
  run<Value>(work: (turn: Turn) => Value, sent?: () => unknown): Value {
    if (this.#isRunning) throw new Error('a turn began inside another one: pass the outer turn on instead');
    this.#fence?.check();
    const turn = new Turn(this.#ctx.storage, this.#clock.now());
    this.#isRunning = true;
    let value: Value;
    try {
      value = work(turn);
      this.#hooks.ending(turn);
    } catch (error) {
      console.error('turn failed and is undone, the object restarts', { stack: stackOf(error) });
      this.#ctx.abort('write failed');
      throw error;
    } finally {
      this.#isRunning = false;
    }
    this.#rowsWritten += turn.rowsWritten;
    this.#sequence += 1;
    for (const change of turn.takeMemories()) change();
    for (const send of turn.takeSends()) sendQuietly(send);
    try {
      sent?.();
    } finally {
      this.#hooks.ended();
    }
    return value;
  }

  /**
   * Runs work in a turn and always rolls it back: writes, changes of memory and sends are undone, only the result is left.
   * The hooks do not run. Memory that the work changes must be registered with `turn.undo`.
   */
  rehearse<Value>(work: (turn: Turn) => Value): Value {
    if (this.#isRunning) throw new Error('a rehearsal began inside a turn');
    this.#fence?.check();
    const turn = new Turn(this.#ctx.storage, this.#clock.now());
    const done: Value[] = [];
    this.#isRunning = true;
    try {
      const failure = turn.tryStep(() => {
        done.push(work(turn));
        throw DISCARDED;
      });
      if (failure?.error !== DISCARDED) throw failure?.error;
    } finally {
      this.#isRunning = false;
    }
    return done[0] as Value;
  }

  /**
   * Runs a turn whose failed work is undone and reported to the caller as an exception; the object is not
   * aborted.
   */
  attempt(work: (turn: Turn) => void): void {
    const failure = this.run((turn) => turn.tryStep(() => work(turn)));
    if (failure) throw failure.error;
  }
}

/** A send that fails must not prevent the others. */
function sendQuietly(send: () => void): void {
  try {
    send();
  } catch (error) {
    console.error('turn stored, but something that it sends afterwards failed', {
      stack: stackOf(error),
    });
  }
}
