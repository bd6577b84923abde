/** The last attempts of a webhook: the newest ones beside its state, older ones in rows of many. */
import { LIMIT } from '../../../protocol/limits.ts';
import type { WebhookAttempt } from '../../../protocol/webhook.ts';
import type { Turn } from '../../object/turn.ts';
import type { WebhookRows } from './rows.ts';

/** With so many, or so many characters, the newest attempts become a row of their own. */
const RECENT = 20;
/** Attempts of a row: with the longest answers a row must stay under its limit. */
const PER_ROW = 50;
const RECENT_CHARS = 28 * 1_024;

export class AttemptLog {
  readonly #rows: WebhookRows;
  readonly #id: string;
  #recent: WebhookAttempt[];
  #chars: number;

  constructor(rows: WebhookRows, id: string, recent: WebhookAttempt[]) {
    this.#rows = rows;
    this.#id = id;
    this.#recent = recent;
    this.#chars = JSON.stringify(recent).length;
  }

  /** The attempts that are in no row of their own. */
  get recent(): readonly WebhookAttempt[] {
    return this.#recent;
  }

  add(attempt: WebhookAttempt): void {
    this.#recent.push(attempt);
    this.#chars += JSON.stringify(attempt).length;
    if (this.#recent.length > LIMIT.webhookAttemptsKept) this.#recent.shift();
  }

  /** Makes room beside the state, and deletes rows of attempts that are no longer kept. */
  store(turn: Turn): void {
    if (this.#recent.length < RECENT && this.#chars < RECENT_CHARS) return;
    for (let from = 0; from < this.#recent.length; from += PER_ROW)
      this.#rows.insertAttempts(turn, this.#id, this.#recent.slice(from, from + PER_ROW));
    this.#recent = [];
    this.#chars = 0;
    const rows = this.#rows.attemptRows(this.#id);
    let kept = rows.reduce((sum, row) => sum + row.attempt_count, 0);
    for (const { position, attempt_count: count } of rows) {
      if (kept - count < LIMIT.webhookAttemptsKept) break;
      this.#rows.deleteAttempts(turn, position);
      kept -= count;
    }
  }

  /** Oldest first. */
  all(): WebhookAttempt[] {
    return [...this.#rows.attempts(this.#id), ...this.#recent].slice(-LIMIT.webhookAttemptsKept);
  }
}
