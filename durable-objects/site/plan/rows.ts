/** The stored entries of the plan stack: one small row each, all in memory. */
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { Level, PlanEntry } from './stack.ts';

/** A time during which a setpoint was on top of the stack, epoch ms: [from, to). */
export type Span = readonly [fromMs: number, toMs: number];

export interface StoredEntry extends PlanEntry {
  /** When the command's verdict is due; null before execution starts and after the verdict. */
  readonly verdictAtMs: number | null;
  /** Since when the plant follows the setpoint: the ack of its current dispatch. Null while it does not. */
  readonly obeyedSinceMs: number | null;
  /** Earlier times on top of the stack, for the verdict. */
  readonly spans: readonly Span[];
}

/** The fields of an entry that can change. */
export type EntryChange = Partial<Pick<StoredEntry, 'verdictAtMs' | 'obeyedSinceMs' | 'spans'>>;

type EntryRow = {
  command_sequence: number;
  level: Level;
  starts_at_ms: number;
  ends_at_ms: number | null;
  verdict_at_ms: number | null;
  obeyed_since_ms: number | null;
  spans: string;
};

export class PlanEntries {
  readonly #sql: Sql;
  #bySequence: Map<number, StoredEntry> | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): StoredEntry[] {
    return [...this.#entries().values()];
  }

  find(sequence: number): StoredEntry | undefined {
    return this.#entries().get(sequence);
  }

  insert(turn: Turn, { sequence, level, startsAtMs, endsAtMs }: PlanEntry): void {
    this.#note(turn, sequence, {
      sequence,
      level,
      startsAtMs,
      endsAtMs,
      verdictAtMs: null,
      obeyedSinceMs: null,
      spans: [],
    });
    turn.write(
      'INSERT INTO plan_entry (command_sequence, level, starts_at_ms, ends_at_ms) VALUES (?, ?, ?, ?)',
      sequence,
      level,
      startsAtMs,
      endsAtMs,
    );
  }

  update(turn: Turn, entry: StoredEntry, change: EntryChange): void {
    const next = { ...entry, ...change };
    this.#note(turn, entry.sequence, next);
    turn.write(
      'UPDATE plan_entry SET verdict_at_ms = ?, obeyed_since_ms = ?, spans = ? WHERE command_sequence = ?',
      next.verdictAtMs,
      next.obeyedSinceMs,
      JSON.stringify(next.spans),
      entry.sequence,
    );
  }

  /** Returns false if the entry does not exist. */
  delete(turn: Turn, sequence: number): boolean {
    if (!this.find(sequence)) return false;
    this.#note(turn, sequence, undefined);
    turn.write('DELETE FROM plan_entry WHERE command_sequence = ?', sequence);
    return true;
  }

  #note(turn: Turn, sequence: number, entry: StoredEntry | undefined): void {
    const entries = this.#entries();
    const before = entries.get(sequence);
    turn.undo(() => put(entries, sequence, before));
    put(entries, sequence, entry);
  }

  #entries(): Map<number, StoredEntry> {
    this.#bySequence ??= new Map(
      this.#sql
        .all<EntryRow>('SELECT * FROM plan_entry ORDER BY command_sequence')
        .map((row) => [row.command_sequence, toEntry(row)]),
    );
    return this.#bySequence;
  }
}

function put(entries: Map<number, StoredEntry>, sequence: number, entry: StoredEntry | undefined): void {
  if (entry) entries.set(sequence, entry);
  else entries.delete(sequence);
}

function toEntry(row: EntryRow): StoredEntry {
  return {
    sequence: row.command_sequence,
    level: row.level,
    startsAtMs: row.starts_at_ms,
    endsAtMs: row.ends_at_ms,
    verdictAtMs: row.verdict_at_ms,
    obeyedSinceMs: row.obeyed_since_ms,
    spans: JSON.parse(row.spans),
  };
}
