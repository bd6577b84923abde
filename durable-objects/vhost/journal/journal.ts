/**
 * The event journal of a key: every event that the key may see, in order, each with a sequence that grows by one and
 * is never used twice [C-12.1]. Polls, streams and webhooks read it; queues are separate.
 *
 *   add ─► pending, in memory ─► stored (flush) ─► read
 *
 * Readers get only stored events, so no client knows a sequence that a crash could give to another event. Until an
 * event is stored, its Site keeps it; telemetry is in no outbox, so a crash may lose what is pending [C-8.2]. Many
 * events share a row. They are stored when many are pending, when a reader waits, when the vhost stores its other
 * data, or when their alarm is due.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { EventKind } from '../../../protocol/routing-keys.ts';
import type { EventSearch, FoundEvent, JournalQuery } from '../../journal-rpc.ts';
import { earliest } from '../../object/agenda.ts';
import type { Turn } from '../../object/turn.ts';
import { VHOST_BOUNDS } from '../bounds.ts';
import type { Safety } from '../queue/rows.ts';
import { Ahead, readSites } from './ahead.ts';
import { findEvents } from './found.ts';
import { eventsOf, type JournalEvent, matches } from './line.ts';
import { type Confirmation, Confirmations, storedMark } from './marks.ts';
import { type PendingEvent, PendingEvents } from './pending.ts';
import type { JournalRows } from './rows.ts';

/** Pause between the turns that store events only because readers wait, so that frequent events share a row. */
const SHOW_MS = 30;
/**
 * Telemetry is stored in time only for a journal that is read: of one that was not read for this long, an eviction may
 * lose what is pending. A row for each telemetry event of every key that uses only AMQP would cost more than all else
 * that the vhost does.
 */
const UNREAD_MS = 7 * 24 * 60 * 60_000;
const READ_STEP_MS = 24 * 60 * 60_000;
/** The shortest time between two deletions of events that are too old. */
const AGED_STEP_MS = 60 * 60_000;

export interface JournalPage {
  events: JournalEvent[];
  /** The sequence to continue after. */
  next: number;
  /** Sequence of the first event that is kept; that of the next event if none is. */
  firstKept: number;
  /** Sequence of the last stored event. */
  last: number;
  /** Whether events after `after` are no longer kept. */
  gap: boolean;
}

/** Stored in the vhost's key-value store: the first sequence ever used, and the last one if its row was deleted. */
export interface JournalBounds {
  begun: number;
  last?: number;
  /** When the journal was read, exact to READ_STEP_MS. */
  readAtMs?: number;
}

export interface JournalHost {
  rows: JournalRows;
  retentionMs(): number;
  /** Whether a reader waits for an event of one of these kinds. */
  isAwaited(kinds: ReadonlySet<EventKind>): boolean;
  /** Whether a webhook wants telemetry. */
  wantsTelemetry(): boolean;
  /**
   * Counts deleted events. Stored ones are not counted: the count would need an alarm for each telemetry event, which
   * costs two rows.
   */
  countDeleted(turn: Turn, why: 'age' | 'limit', events: number): void;
  bounds: { get(): JournalBounds | undefined; set(turn: Turn, bounds: JournalBounds): void };
}

/** The newest row: lines are appended until it is full. */
interface Tail {
  first: number;
  count: number;
  chars: number;
  bytes: number;
  bytesBefore: number;
  latestAtMs: number;
  begunAtMs: number;
  sites: Map<string, number>;
}

export class EventJournal {
  readonly #host: JournalHost;
  #bounds: JournalBounds | undefined;
  #tail: Tail | undefined;
  #last = 0;
  #firstKept = 0;
  #bytes = 0;
  /** Time of the newest event of the oldest row. */
  #oldestAtMs: number | undefined;
  #agedAtMs = 0;
  /** All outbox sequences of the events up to this one are in the table `received` or `journaled`. */
  #covered = 0;
  readonly #ahead: Ahead;

  readonly #pending = new PendingEvents();
  readonly #confirmations = new Confirmations();
  #storedAtMs = 0;

  constructor(host: JournalHost) {
    this.#host = host;
    this.#ahead = new Ahead(host.rows);
    this.reload();
  }

  /** Reads the state from storage. Pending events are lost; the caller makes the sites send them again. */
  reload(): void {
    const { rows, bounds } = this.#host;
    this.#pending.take();
    this.#confirmations.clear();
    this.#bounds = bounds.get();
    this.#last = this.#bounds?.last ?? (this.#bounds?.begun ?? 1) - 1;
    this.#tail = undefined;
    const newest = rows.newest();
    if (newest) {
      const { first, event_count: count, chars, byte_count: bytes, covered } = newest;
      const { bytes_before: bytesBefore, latest_at_ms: latestAtMs, begun_at_ms: begunAtMs } = newest;
      const sites = readSites(newest.sites);
      this.#tail = { first, count, chars, bytes, bytesBefore, latestAtMs, begunAtMs, sites };
      this.#last = first + count - 1;
      this.#covered = covered;
    }
    this.#ahead.load(newest && newest.covered < this.#last ? newest.covered + 1 : undefined);
    this.#useOldest();
  }

  // adding

  /**
   * Adds an event that is stored soon; in this turn if `isAtOnce`, or if it has no `safety`. An event that the journal
   * already has, because its site sends it again after a crash, is ignored.
   */
  add(
    turn: Turn,
    event: { kind: EventKind; siteId: string; body: string },
    safety: Safety | undefined,
    isAtOnce = false,
  ): void {
    if (typeof safety === 'object' && this.#ahead.has(turn, safety)) return;
    this.#pending.add(turn, event, safety, isAtOnce);
  }

  /** Notes that a reader has confirmed an event; it is stored with the next events, or when the vhost stores its data. */
  confirm(confirmation: Confirmation): void {
    this.#confirmations.add(confirmation);
  }

  get hasPending(): boolean {
    return !this.#pending.isEmpty;
  }

  get hasConfirmations(): boolean {
    return !this.#confirmations.isEmpty;
  }

  get pendingKinds(): ReadonlySet<EventKind> {
    return this.#pending.kinds;
  }

  /** The outbox sequence of a site's first pending event; undefined if none is pending. */
  firstPending(siteId: string): number | undefined {
    return this.#pending.first(siteId);
  }

  /** Whether what is only in memory must be stored by the end of this turn. */
  mustStore(now: number): boolean {
    if (!this.hasPending) return false;
    if (this.#pending.mustStore(now, this.#isRead(now))) return true;
    return this.showAtMs <= now && this.#host.isAwaited(this.pendingKinds);
  }

  /** From when on pending events are stored only because a reader waits. */
  get showAtMs(): number {
    return this.#storedAtMs + SHOW_MS;
  }

  #isRead(now: number): boolean {
    if (this.#host.wantsTelemetry()) return true;
    const readAtMs = this.#bounds?.readAtMs;
    return readAtMs !== undefined && now - readAtMs < UNREAD_MS;
  }

  // storing

  /**
   * Stores the pending events and confirmations. `isCovered`: the same turn stores the table `received`. A failure must
   * lead to `reload`.
   */
  flush(turn: Turn, isCovered: boolean): void {
    const pending = this.#pending.take();
    if (pending.length > 0) this.#bounds ??= this.#begin(turn);
    if (isCovered) {
      this.#covered = this.#last + pending.length;
      this.#ahead.store(turn);
    }
    const marks = this.#confirmations.take((madeAtMs) => this.#rowOf(madeAtMs));
    for (let from = 0; from < pending.length; ) from = this.#storeFrom(turn, pending, from, marks);
    for (const [first, lines] of marks) this.#host.rows.mark(turn, first, lines);
    if (pending.length === 0) return;
    this.#storedAtMs = turn.now;
    while (this.#bytes > LIMIT.journalBytes && this.#firstKept < (this.#tail?.first ?? 0))
      this.#dropOldest(turn, 'limit');
  }

  /** The row with the marks of an event that was made at a time, see `marks.ts`; without rows that of the next event. */
  #rowOf(madeAtMs: number): number {
    const tail = this.#tail;
    if (tail && tail.begunAtMs <= madeAtMs) return tail.first;
    const { rows } = this.#host;
    return rows.begunBefore(madeAtMs) ?? rows.oldest()?.first ?? this.#last + 1;
  }

  /**
   * Sequences begin at the clock's milliseconds, so a journal that begins again, because its object was lost, uses
   * none that the lost one used.
   */
  #begin(turn: Turn): JournalBounds {
    const bounds = { begun: turn.now };
    this.#host.bounds.set(turn, bounds);
    this.#last = turn.now - 1;
    this.#firstKept = turn.now;
    return bounds;
  }

  /**
   * Stores events in the newest row, or in a new one if the first does not fit. Takes the marks of that row along. Returns
   * the index of the next event.
   */
  #storeFrom(turn: Turn, pending: readonly PendingEvent[], from: number, marks: Map<number, string>): number {
    const { rows } = this.#host;
    const fits = (tail: Tail, index: number) =>
      tail.chars + (pending[index]?.line.length ?? 0) <= VHOST_BOUNDS.chunkChars;
    const isNew = !this.#tail || !fits(this.#tail, from);
    const tail = isNew || !this.#tail ? this.#newTail(pending[from]?.atMs ?? turn.now) : this.#tail;
    let lines = '';
    let index = from;
    for (; index < pending.length && (lines === '' || fits(tail, index)); index++) {
      const { line, bytes, atMs, safety } = pending[index] as PendingEvent;
      lines += line;
      tail.chars += line.length;
      tail.bytes += bytes;
      tail.count += 1;
      tail.latestAtMs = Math.max(tail.latestAtMs, atMs);
      this.#bytes += bytes;
      if (typeof safety === 'object') tail.sites.set(safety.siteId, safety.sequence);
    }
    this.#tail = tail;
    this.#last = tail.first + tail.count - 1;
    const row = {
      first: tail.first,
      event_count: tail.count,
      latest_at_ms: tail.latestAtMs,
      begun_at_ms: tail.begunAtMs,
      byte_count: tail.bytes,
      bytes_before: tail.bytesBefore,
      sites: JSON.stringify(Object.fromEntries(tail.sites)),
      covered: Math.min(this.#covered, this.#last),
    };
    const stored = storedMark(this.#last + 1 - (index - from), this.#last, turn.now);
    const confirmed = marks.get(tail.first) ?? '';
    marks.delete(tail.first);
    if (isNew) rows.insert(turn, row, lines, stored + confirmed);
    else rows.append(turn, row, lines, stored, confirmed);
    if (tail.first === this.#firstKept) this.#oldestAtMs = tail.latestAtMs;
    return index;
  }

  #newTail(begunAtMs: number): Tail {
    const bytesBefore = this.#tail ? this.#tail.bytesBefore + this.#tail.bytes : 0;
    const rest = { count: 0, chars: 0, bytes: 0, latestAtMs: 0, sites: new Map<string, number>() };
    return { first: this.#last + 1, bytesBefore, begunAtMs, ...rest };
  }

  // retention

  /** When the oldest events are too old; undefined if there are none. */
  agedAtMs(): number | undefined {
    if (this.#oldestAtMs === undefined) return undefined;
    return Math.max(this.#oldestAtMs + this.#host.retentionMs(), this.#agedAtMs + AGED_STEP_MS);
  }

  /** When telemetry must be stored; undefined if none is pending, or if nobody reads the journal. */
  telemetryAtMs(): number | undefined {
    const { telemetrySinceMs, telemetryAtMs } = this.#pending;
    return telemetrySinceMs === undefined || !this.#isRead(telemetrySinceMs) ? undefined : telemetryAtMs;
  }

  dueMs(): number | undefined {
    return earliest([this.telemetryAtMs(), this.agedAtMs()]);
  }

  /**
   * Deletes events that are too old, a limited number of rows per call. `isKnown`: the retention is known; if not, they
   * stay for now. A failure must lead to `reload`.
   */
  dropAged(turn: Turn, isKnown: boolean): void {
    const isAged = () => isKnown && (this.#oldestAtMs ?? turn.now) + this.#host.retentionMs() <= turn.now;
    for (let left: number = VHOST_BOUNDS.journalRowsPerLook; left > 0 && isAged(); left--)
      this.#dropOldest(turn, 'age');
    if (!isAged()) this.#agedAtMs = turn.now;
  }

  #dropOldest(turn: Turn, why: 'age' | 'limit'): void {
    const { rows, bounds, countDeleted } = this.#host;
    const oldest = rows.oldest();
    if (!oldest) return;
    rows.delete(turn, oldest.first);
    countDeleted(turn, why, oldest.event_count);
    if (this.#tail?.first === oldest.first && this.#bounds) {
      this.#tail = undefined;
      this.#bounds = { ...this.#bounds, last: this.#last };
      bounds.set(turn, this.#bounds);
    }
    this.#useOldest();
  }

  #useOldest(): void {
    const oldest = this.#host.rows.oldest();
    this.#firstKept = oldest?.first ?? this.#last + 1;
    this.#oldestAtMs = oldest?.latest_at_ms;
    const tail = this.#tail;
    this.#bytes = tail ? tail.bytesBefore + tail.bytes - (oldest?.bytes_before ?? 0) : 0;
  }

  // reading

  /** Whether a read must be noted: none was in the last day. */
  mustNoteRead(now: number): boolean {
    return now - (this.#bounds?.readAtMs ?? 0) >= READ_STEP_MS;
  }

  /** Notes that the journal is read. A failure must lead to `reload`. */
  noteRead(turn: Turn): void {
    this.#bounds = { ...(this.#bounds ?? this.#begin(turn)), readAtMs: turn.now };
    this.#host.bounds.set(turn, this.#bounds);
  }

  /** Sequence of the last stored event. */
  get last(): number {
    return this.#last;
  }

  /** The sequence from which on events of this time or later are stored; undefined if there are none. */
  firstSince(atMs: number): number | undefined {
    return this.#host.rows.firstSince(atMs);
  }

  /** The stored events among these. What is pending is not found. */
  find(searches: readonly EventSearch[]): FoundEvent[] {
    return findEvents(this.#host.rows, searches);
  }

  /** The stored events of a kind in the last rows, newest first. */
  newest(kind: EventKind): JournalEvent[] {
    const rows = this.#host.rows.lastLines(VHOST_BOUNDS.journalRowsSearched);
    return rows.flatMap((row) => eventsOf(row).reverse()).filter((event) => event.kind === kind);
  }

  /** Reads stored events. A page may have fewer than `limit`: it is bounded in bytes, and in the rows that it reads. */
  read({ after, limit, ...filter }: JournalQuery): JournalPage {
    const [firstKept, last] = [this.#firstKept, this.#last];
    const gap = after < firstKept - 1 && (after > 0 || firstKept > (this.#bounds?.begun ?? 0));
    const events: JournalEvent[] = [];
    let next = Math.max(after, firstKept - 1);
    let chars = 0;
    for (let rows: number = VHOST_BOUNDS.journalRowsPerRead; rows > 0 && next < last; rows--) {
      const row = this.#host.rows.linesAt(next + 1);
      if (!row) break;
      for (const event of eventsOf(row)) {
        if (event.sequence <= next) continue;
        if (events.length >= limit || chars > VHOST_BOUNDS.journalPageChars)
          return { events, next, firstKept, last, gap };
        next = event.sequence;
        if (!matches(filter, event)) continue;
        events.push(event);
        chars += event.body.length;
      }
    }
    return { events, next, firstKept, last, gap };
  }
}
