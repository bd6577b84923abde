/**
 * The telemetry journal: messages as they came, appended to blocks of five minutes or 64 KB. A block carries data
 * and nonces in one row, so a message costs one row written; the price is reading blocks back to find one signal.
 * Blocks are kept for `journalRetentionMs` (`protocol/limits.ts`).
 * What is derived from it, the nonces seen and the latest values, is read back at first use after a wake.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { Clock } from '../../object/clock.ts';
import type { Facts } from '../../object/facts.ts';
import type { Turn } from '../../object/turn.ts';
import { REPLAY_HORIZON_MS, ReplayGuard } from '../device/replay.ts';
import { formatEntry, type JournalEntry, parseEntries } from './entry.ts';
import type { JournalRows } from './rows.ts';
import { type Sample, type SignalOrigin, Snapshot } from './snapshot.ts';

/** A block is closed at this age or size; a row is never longer than the size and one message. */
const BLOCK_MS = 5 * 60_000;
const BLOCK_CHARS = 64 * 1024;

/** What an entry says beside its text: the values of a telemetry message. */
export interface Reading {
  entry: JournalEntry;
  data?: Readonly<Record<string, number>>;
}

/** The block that is being filled. */
interface BlockHead {
  id: number;
  openedAtMs: number;
  size: number;
  /** When the last telemetry event went to partners: rides in the same row, for nothing. */
  eventAtMs: number;
}

/** The snapshot as it is stored when a block closes; entries received since then are read back from the journal. */
interface StoredSnapshot {
  samples: Record<string, Sample>;
  asOfMs: number;
}

interface Derived {
  head: BlockHead | undefined;
  replay: ReplayGuard;
  snapshot: Snapshot;
}

export interface JournalHost {
  clock: Clock;
  /** What a device's bare signal names mean. */
  origin(deviceId: string): SignalOrigin;
  /** Whether the site has a sub-device of that external id. */
  isSubDevice(externalId: string): boolean;
  /** A block has closed: what goes by the journal's pace is done in the same turn. */
  onRollover(turn: Turn): void;
}

export class Journal {
  readonly #rows: JournalRows;
  readonly #facts: Facts<'snapshot'>;
  readonly #host: JournalHost;
  #derived: Derived | undefined;

  constructor(rows: JournalRows, facts: Facts<'snapshot'>, host: JournalHost) {
    this.#rows = rows;
    this.#facts = facts;
    this.#host = host;
  }

  get replay(): ReplayGuard {
    return this.#read().replay;
  }

  get snapshot(): Snapshot {
    return this.#read().snapshot;
  }

  get isEmpty(): boolean {
    return this.#read().head === undefined;
  }

  /** When the last telemetry event went to partners; 0 when none did. */
  get eventAtMs(): number {
    return this.#read().head?.eventAtMs ?? 0;
  }

  /** In memory; it is stored with the next message. */
  noteEvent(atMs: number): void {
    const derived = this.#read();
    if (derived.head) derived.head = { ...derived.head, eventAtMs: atMs };
  }

  /** Appends messages; nonces and latest values follow once the turn stands. */
  append(turn: Turn, readings: readonly Reading[], eventAtMs: number): void {
    const head = this.#write(
      turn,
      readings.map((reading) => reading.entry),
      eventAtMs,
    );
    turn.remember(() => {
      const derived = this.#read();
      derived.head = head;
      for (const { entry, data } of readings) {
        derived.replay.remember(entry);
        if (data) derived.snapshot.apply(this.#host.origin(entry.deviceId), entry.receivedMs, data);
      }
    });
  }

  #write(turn: Turn, entries: readonly JournalEntry[], eventAtMs: number): BlockHead | undefined {
    let head = this.#read().head;
    let pending = '';
    const flush = () => {
      if (!head || pending === '') return;
      this.#rows.append(turn, head.id, pending, eventAtMs);
      head = { ...head, size: head.size + pending.length, eventAtMs };
      pending = '';
    };
    for (const entry of entries) {
      const line = formatEntry(entry);
      const isFull = head !== undefined && head.size + pending.length >= BLOCK_CHARS;
      const isOld = head !== undefined && turn.now - head.openedAtMs >= BLOCK_MS;
      if (head && !isFull && !isOld) {
        pending += line;
        continue;
      }
      flush();
      if (head) this.#closeBlock(turn, entry.receivedMs);
      const id: number = (head?.id ?? 0) + 1;
      this.#rows.insert(turn, { id, event_at_ms: eventAtMs, data: line });
      head = { id, openedAtMs: turn.now, size: line.length, eventAtMs };
    }
    flush();
    return head;
  }

  /** The snapshot holds nothing of the entry that opens the next block, whose moment may be before the turn's. */
  #closeBlock(turn: Turn, asOfMs: number): void {
    const stored: StoredSnapshot = { samples: this.snapshot.toJSON(), asOfMs };
    // It is read back from the blocks when it could not be stored: no reading is lost for it.
    turn.step(() => this.#facts.set(turn, 'snapshot', stored));
    this.#rows.deleteBefore(turn, turn.now - LIMIT.journalRetentionMs);
    this.#host.onRollover(turn);
  }

  #read(): Derived {
    this.#derived ??= this.#readBack();
    return this.#derived;
  }

  #readBack(): Derived {
    const horizonMs = this.#host.clock.now() - REPLAY_HORIZON_MS;
    const stored = this.#facts.get<StoredSnapshot>('snapshot') ?? { samples: {}, asOfMs: 0 };
    const snapshot = new Snapshot((externalId) => this.#host.isSubDevice(externalId), stored.samples);
    const replay = new ReplayGuard();
    for (const block of this.#rows.since(Math.min(horizonMs, stored.asOfMs || horizonMs))) {
      for (const entry of parseEntries(block.data)) {
        replay.remember(entry);
        if (entry.topic === 'telemetry' && entry.receivedMs >= stored.asOfMs) {
          const data = JSON.parse(entry.dataText) as Record<string, number>;
          snapshot.apply(this.#host.origin(entry.deviceId), entry.receivedMs, data);
        }
      }
    }
    const row = this.#rows.open();
    const head = row && {
      id: row.id,
      openedAtMs: row.opened_at_ms,
      size: row.size,
      eventAtMs: row.event_at_ms,
    };
    return { head, replay, snapshot };
  }
}
