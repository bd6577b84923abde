/** The entries of the plan stack as they are kept: all in memory, one small row each. */
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { Level, PlanEntry } from './stack.ts';

/** A time on top, epoch milliseconds: [from, to). */
export type Span = readonly [fromMs: number, toMs: number];

export interface KeptEntry extends PlanEntry {
  /** When its command's verdict is due; null before it executes, and once it is judged. */
  readonly verdictAtMs: number | null;
  /** Since when the plant obeys it: the ack of its present dispatch. Null while it does not. */
  readonly obeyedSinceMs: number | null;
  /** Earlier times on top, for the verdict. */
  readonly spans: readonly Span[];
}

/** What of an entry ever changes. */
export type EntryChange = Partial<Pick<KeptEntry, 'verdictAtMs' | 'obeyedSinceMs' | 'spans'>>;

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
  #bySequence: Map<number, KeptEntry> | undefined;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): KeptEntry[] {
    return [...this.#entries().values()];
  }

  find(sequence: number): KeptEntry | undefined {
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

  update(turn: Turn, entry: KeptEntry, change: EntryChange): void {
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

  /** Returns whether there was one. */
  delete(turn: Turn, sequence: number): boolean {
    if (!this.find(sequence)) return false;
    this.#note(turn, sequence, undefined);
    turn.write('DELETE FROM plan_entry WHERE command_sequence = ?', sequence);
    return true;
  }

  #note(turn: Turn, sequence: number, entry: KeptEntry | undefined): void {
    const entries = this.#entries();
    const before = entries.get(sequence);
    turn.undo(() => put(entries, sequence, before));
    put(entries, sequence, entry);
  }

  #entries(): Map<number, KeptEntry> {
    this.#bySequence ??= new Map(
      this.#sql
        .all<EntryRow>('SELECT * FROM plan_entry ORDER BY command_sequence')
        .map((row) => [row.command_sequence, toEntry(row)]),
    );
    return this.#bySequence;
  }
}

function put(entries: Map<number, KeptEntry>, sequence: number, entry: KeptEntry | undefined): void {
  if (entry) entries.set(sequence, entry);
  else entries.delete(sequence);
}

function toEntry(row: EntryRow): KeptEntry {
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
