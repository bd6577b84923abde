/**
 * Marks beside the events of a row of the journal, for the timelines of commands [C-13.2]: when events were stored, and
 * when a reader confirmed one. A mark of a stored event is in the row of the event. A mark of a confirmed one is in the
 * newest row that began before the event was made, so it is found by the time of the event, however late it comes.
 */
import type { EventKind } from '../../../protocol/routing-keys.ts';
import { VHOST_BOUNDS } from '../bounds.ts';

/** The events from the first to the last one were stored at that time. */
type StoredMark = [first: number, last: number, atMs: number];
/** `by`: the queue or the webhook. */
type ConfirmedMark = [messageId: string, atMs: number, by: string];

/** An event that a reader has confirmed. */
export interface Confirmation {
  messageId: string;
  /** When the event was made. */
  madeAtMs: number;
  atMs: number;
  by: string;
}

/** Only the events that are in a timeline are marked. */
export function isMarked(kind: EventKind): boolean {
  return kind === 'ack' || kind === 'execution';
}

export function storedMark(...mark: StoredMark): string {
  return markLine(mark);
}

function markLine(mark: StoredMark | ConfirmedMark): string {
  return `${JSON.stringify(mark)}\n`;
}

export interface RowMarks {
  /** When the event with this sequence was stored; undefined: its row has no mark of it. */
  storedAtMs(sequence: number): number | undefined;
  confirmed: Pick<Confirmation, 'messageId' | 'atMs' | 'by'>[];
}

/** Reads the column `marks`. */
export function readMarks(text: string): RowMarks {
  const marks = JSON.parse(`[${text.trimEnd().replaceAll('\n', ',')}]`) as (StoredMark | ConfirmedMark)[];
  const stored = marks.filter((mark): mark is StoredMark => typeof mark[0] === 'number');
  const confirmed = marks.filter((mark): mark is ConfirmedMark => typeof mark[0] === 'string');
  return {
    storedAtMs: (sequence) => stored.find(([first, last]) => first <= sequence && sequence <= last)?.[2],
    confirmed: confirmed.map(([messageId, atMs, by]) => ({ messageId, atMs, by })),
  };
}

/** Confirmations that are only in memory: they are stored with the next events, or within a second. */
export class Confirmations {
  #waiting: Confirmation[] = [];

  /** More than a limit are not noted: a client that takes a long backlog confirms thousands a second. */
  add(confirmation: Confirmation): void {
    if (this.#waiting.length < VHOST_BOUNDS.journalConfirmations) this.#waiting.push(confirmation);
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  clear(): void {
    this.#waiting = [];
  }

  /** Returns the marks by the row that they belong to, and forgets them. `rowOf`: the first sequence of the row. */
  take(rowOf: (madeAtMs: number) => number): Map<number, string> {
    const rows = new Map<number, string>();
    const known = new Map<number, number>();
    for (const { messageId, madeAtMs, atMs, by } of this.#waiting) {
      const row = known.get(madeAtMs) ?? rowOf(madeAtMs);
      known.set(madeAtMs, row);
      const text = (rows.get(row) ?? '') + markLine([messageId, atMs, by]);
      if (text.length <= VHOST_BOUNDS.journalMarksChars) rows.set(row, text);
    }
    this.clear();
    return rows;
  }
}
