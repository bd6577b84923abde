/**
 * The telemetry journal: messages as they came, appended to blocks of five minutes or 8 KB. A block carries data and
 * nonces in one row, so a message costs one row written; the price is reading blocks back to find one signal, until the
 * store has packed them (`store.ts`). A new block takes the row of one that nobody needs any more, which spares deleting
 * it. What is derived from the journal is read back at first use after a wake, block by block: the nonces seen, and the
 * latest values, of which a snapshot is stored now and then.
 */
import type { Clock } from '../../object/clock.ts';
import type { Facts } from '../../object/facts.ts';
import type { Turn } from '../../object/turn.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import { type NonceUse, REPLAY_HORIZON_MS, ReplayGuard } from '../device/replay.ts';
import {
  formatEntry,
  type JournalEntry,
  meaningOf,
  originOf,
  parseEntries,
  readingsOf,
  type StoredReading,
} from './entry.ts';
import type { BlockHeadRow, JournalRows } from './rows.ts';
import { type Sample, type SignalOrigin, Snapshot } from './snapshot.ts';

/** How often the snapshot is stored while messages come: sooner only when so many characters of them came. */
const SNAPSHOT = { chars: 64 * 1_024, soonMs: 5 * 60_000, lateMs: 60 * 60_000 };

/** What an entry says beside its text: the values of a telemetry message. */
export interface Reading {
  entry: JournalEntry;
  data?: Readonly<Record<string, number>>;
}

/** The block that is being filled. */
interface BlockHead {
  id: number;
  openedAtMs: number;
  lastAtMs: number;
  /** What all blocks before it held, since the first there ever was. */
  startsAt: number;
  size: number;
  /** When the last telemetry event went to partners: rides in the same row, for nothing. */
  eventAtMs: number;
  /** What is remembered of the alert rules rides there, too. */
  alerts: string;
}

/** The snapshot as it is stored; entries received since then are read back from the journal. */
interface StoredSnapshot {
  samples: Record<string, Sample>;
  asOfMs: number;
  /** Where the journal ended then, as its blocks count; absent from what older code stored. */
  place?: number;
}

export interface JournalHost {
  clock: Clock;
  /** What a device's bare signal names mean. */
  origin(deviceId: string): SignalOrigin;
  /** Whether the site has a sub-device of that external id. */
  isSubDevice(externalId: string): boolean;
  /** Nonces that no entry has. */
  carried(): Iterable<NonceUse>;
}

export class Journal {
  readonly #rows: JournalRows;
  readonly #facts: Facts<'snapshot'>;
  readonly #host: JournalHost;
  #head: BlockHead | null | undefined;
  #replay: ReplayGuard | undefined;
  #snapshot: Snapshot | undefined;
  #snapshotAtMs = 0;
  #snapshotPlace = 0;

  constructor(rows: JournalRows, facts: Facts<'snapshot'>, host: JournalHost) {
    this.#rows = rows;
    this.#facts = facts;
    this.#host = host;
  }

  /** The nonces that count now. */
  get replay(): ReplayGuard {
    this.#replay ??= this.#readNonces();
    return this.#replay;
  }

  /** They are read back from what is stored. */
  forgetReplay(): void {
    this.#replay = undefined;
  }

  /** The nonces of one device that may still count. */
  *noncesOf(deviceId: string): Generator<NonceUse> {
    for (const { deviceId: usedBy, nonce, digest, ts, receivedMs } of this.#nonceUses()) {
      if (usedBy === deviceId) yield { deviceId, nonce, digest, ts, receivedMs };
    }
  }

  get snapshot(): Snapshot {
    this.#snapshot ??= this.#readSnapshot();
    return this.#snapshot;
  }

  get isSnapshotRead(): boolean {
    return this.#snapshot !== undefined;
  }

  get isEmpty(): boolean {
    return this.#open() === undefined;
  }

  /** The number of the block that is being filled; 0 when there is none. */
  get newestBlock(): number {
    return this.#open()?.id ?? 0;
  }

  /** When the last message came; 0 when none did. */
  get lastAtMs(): number {
    return this.#open()?.lastAtMs ?? 0;
  }

  /** When the last telemetry event went to partners; 0 when none did. */
  get eventAtMs(): number {
    return this.#open()?.eventAtMs ?? 0;
  }

  /** What is remembered of the alert rules; empty while there is nothing. */
  get alerts(): string {
    return this.#open()?.alerts ?? '';
  }

  /** The same without a message. */
  noteAlerts(turn: Turn, alerts: string): void {
    const head = this.#open();
    if (!head || head.alerts === alerts) return;
    this.#rows.noteAlerts(turn, head.id, alerts);
    turn.undo(() => {
      this.#head = head;
    });
    this.#head = { ...head, alerts };
  }

  /** An event has gone, or goes with this turn. */
  noteEvent(turn: Turn): void {
    const head = this.#open();
    if (!head) return;
    this.#rows.noteEvent(turn, head.id, turn.now);
    turn.remember(() => {
      this.#head = { ...head, eventAtMs: turn.now };
    });
  }

  /** Appends messages of one device; nonces and latest values follow once the turn stands. */
  append(turn: Turn, readings: readonly Reading[], eventAtMs: number, alerts = this.alerts): void {
    const [first] = readings;
    if (!first) return;
    if (readings.some((reading) => reading.data)) this.#keepSnapshot(turn, first.entry.receivedMs);
    const origin = this.#host.origin(first.entry.deviceId);
    const as = meaningOf(origin);
    const entries = readings.map(({ entry, data }) => (data ? { ...entry, as } : entry));
    const head = this.#write(turn, entries, { eventAtMs, alerts });
    const { replay, snapshot } = this;
    turn.remember(() => {
      this.#head = head;
      for (const { entry, data } of readings) {
        replay.remember(entry);
        if (data) snapshot.apply(origin, entry, data);
      }
    });
  }

  /** What a device's bare signal names mean now. */
  meaningOf(deviceId: string): SignalOrigin {
    return this.#host.origin(deviceId);
  }

  /** What the bare signal names of a reading meant when it came. */
  originOf({ deviceId, as }: JournalEntry): SignalOrigin {
    return as === undefined ? this.#host.origin(deviceId) : originOf(deviceId, as);
  }

  /**
   * The readings received since then, in the order in which they came, one block in memory at a time; the newest where
   * there are more than so many characters of them.
   */
  *readingsSince(sinceMs: number, maxChars?: number): Generator<StoredReading> {
    for (const block of this.#rows.since(sinceMs, maxChars)) yield* readingsOf(block, sinceMs);
  }

  /** The readings of that block and those behind it, in the order in which they came. */
  *readingsFrom(block: number): Generator<StoredReading> {
    for (const text of this.#rows.from(block)) yield* readingsOf(text, 0);
  }

  /** When that block was opened, or the next one that there is. */
  openedFrom(block: number): number | undefined {
    return this.#rows.openedFrom(block);
  }

  /** Where that block and those behind it begin and end. */
  blocksFrom(block: number): Iterable<BlockHeadRow> {
    return this.#rows.headsFrom(block);
  }

  #write(
    turn: Turn,
    entries: readonly JournalEntry[],
    riders: Pick<BlockHead, 'eventAtMs' | 'alerts'>,
  ): BlockHead | undefined {
    let head = this.#open();
    let pending = '';
    const flush = () => {
      if (!head || pending === '') return;
      this.#rows.append(turn, head.id, pending, riders);
      head = { ...head, lastAtMs: turn.now, size: head.size + pending.length, ...riders };
      pending = '';
    };
    for (const entry of entries) {
      const line = formatEntry(entry);
      const isFull = head !== undefined && head.size + pending.length >= SITE_BOUNDS.blockChars;
      const isOld = head !== undefined && turn.now - head.openedAtMs >= SITE_BOUNDS.blockMs;
      if (head && !isFull && !isOld) {
        pending += line;
        continue;
      }
      flush();
      const id: number = (head?.id ?? 0) + 1;
      const startsAt: number = head ? head.startsAt + head.size : 0;
      const block = { id, starts_at: startsAt, data: line };
      this.#rows.insert(turn, block, riders);
      head = { id, openedAtMs: turn.now, lastAtMs: turn.now, startsAt, size: line.length, ...riders };
    }
    flush();
    return head;
  }

  /**
   * Stores what the latest values were before the messages of this turn. It is read back from the blocks when it could
   * not be stored: no reading is lost for it.
   */
  #keepSnapshot(turn: Turn, asOfMs: number): void {
    const { snapshot } = this;
    const head = this.#open();
    const place = head ? head.startsAt + head.size : 0;
    const isLittle = place - this.#snapshotPlace < SNAPSHOT.chars;
    if (turn.now - this.#snapshotAtMs < (isLittle ? SNAPSHOT.lateMs : SNAPSHOT.soonMs)) return;
    const stored: StoredSnapshot = { samples: snapshot.toJSON(), asOfMs, place };
    turn.step(() => this.#facts.set(turn, 'snapshot', stored));
    turn.remember(() => {
      this.#snapshotAtMs = turn.now;
      this.#snapshotPlace = place;
    });
  }

  #open(): BlockHead | undefined {
    if (this.#head === undefined) {
      const row = this.#rows.open();
      this.#head = row
        ? {
            id: row.id,
            openedAtMs: row.opened_at_ms,
            lastAtMs: row.last_at_ms,
            startsAt: row.starts_at,
            size: row.size,
            eventAtMs: row.event_at_ms,
            alerts: row.alerts,
          }
        : null;
    }
    return this.#head ?? undefined;
  }

  #readNonces(): ReplayGuard {
    const replay = new ReplayGuard();
    const now = this.#host.clock.now();
    for (const use of this.#nonceUses()) replay.remember(use, now);
    return replay;
  }

  *#nonceUses(): Generator<NonceUse> {
    yield* this.#host.carried();
    for (const block of this.#rows.since(this.#host.clock.now() - REPLAY_HORIZON_MS))
      yield* parseEntries(block);
  }

  /** From the first block on, when there is none stored. */
  #readSnapshot(): Snapshot {
    const stored = this.#facts.get<StoredSnapshot>('snapshot') ?? { samples: {}, asOfMs: 0 };
    this.#snapshotAtMs = stored.asOfMs;
    this.#snapshotPlace = stored.place ?? 0;
    const snapshot = new Snapshot((externalId) => this.#host.isSubDevice(externalId), stored.samples);
    for (const { entry, data } of this.readingsSince(stored.asOfMs)) {
      snapshot.apply(this.originOf(entry), entry, data);
    }
    return snapshot;
  }
}
