/**
 * The telemetry journal: telemetry and status messages, appended to blocks of five minutes or 8 KB. A block
 * holds data and nonces in one row, so a batch of messages costs one row write. The price: until the store has
 * packed a block (`store.ts`), a reader of one signal must read the whole block. A new block overwrites the row
 * of a block that is no longer needed, which saves a delete. After a wake the nonces and the latest values are
 * read from the journal when they are first used, block by block. A snapshot of the latest values is stored
 * periodically, so that only newer blocks must be read.
 */
import type { Clock } from '../../object/clock.ts';
import type { KeyValues } from '../../object/key-values.ts';
import type { Turn } from '../../object/turn.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import {
  formatEntry,
  type JournalEntry,
  meaningOf,
  originOf,
  parseEntries,
  readingsOf,
  type StoredReading,
} from './entry.ts';
import { type NonceUse, REPLAY_HORIZON_MS, ReplayGuard, validUntilMs } from './replay.ts';
import type { BlockHead, JournalRows, Riders } from './rows.ts';
import { type Sample, type SignalOrigin, Snapshot } from './snapshot.ts';

/**
 * The snapshot is stored every `lateMs` while messages arrive; every `soonMs` after more than `chars`
 * characters.
 */
const SNAPSHOT = { chars: 64 * 1_024, soonMs: 5 * 60_000, lateMs: 60 * 60_000 };

/** A new entry, with the parsed values if it is a telemetry message. */
export interface Reading {
  entry: JournalEntry;
  data?: Readonly<Record<string, number>>;
}

/** The stored snapshot. Entries received at `asOfMs` or later are read from the journal. */
interface StoredSnapshot {
  samples: Record<string, Sample>;
  asOfMs: number;
  /** The journal's total size at that time. */
  place: number;
}

export interface JournalHost {
  clock: Clock;
  /** What a device's bare signal names mean now (see `SignalOrigin`). */
  origin(deviceId: string): SignalOrigin;
  /** Whether the site has a sub-device with this external id. */
  isSubDevice(externalId: string): boolean;
  /** The nonces that are not in the journal (`MovedNonces`). */
  movedNonces(): Iterable<NonceUse>;
}

export class Journal {
  readonly #rows: JournalRows;
  readonly #values: KeyValues<'snapshot'>;
  readonly #host: JournalHost;
  #head: BlockHead | null | undefined;
  #replay: ReplayGuard | undefined;
  #snapshot: Snapshot | undefined;
  #snapshotAtMs = 0;
  #snapshotPlace = 0;

  constructor(rows: JournalRows, values: KeyValues<'snapshot'>, host: JournalHost) {
    this.#rows = rows;
    this.#values = values;
    this.#host = host;
  }

  /** The nonces that are still valid for replay detection. */
  get replay(): ReplayGuard {
    this.#replay ??= this.#readNonces();
    return this.#replay;
  }

  /** Drops the nonces in memory; the next use reads them from storage. */
  forgetReplay(): void {
    this.#replay = undefined;
  }

  /** The nonces of one device that are valid at `now`, each once. */
  noncesOf(deviceId: string, now: number): NonceUse[] {
    const uses = new Map<string, NonceUse>();
    for (const { deviceId: usedBy, nonce, digest, ts, receivedMs } of this.#nonceUses()) {
      const use = { deviceId, nonce, digest, ts, receivedMs };
      if (usedBy === deviceId && validUntilMs(use) >= now) uses.set(nonce, use);
    }
    return [...uses.values()];
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

  /** The number of the open block; 0 when there is none. */
  get newestBlock(): number {
    return this.#open()?.id ?? 0;
  }

  /** When the last message was received; 0 when none was. */
  get lastAtMs(): number {
    return this.#open()?.lastAtMs ?? 0;
  }

  /** When the last telemetry event was sent to partners; 0 when none was. */
  get eventAtMs(): number {
    return this.#open()?.eventAtMs ?? 0;
  }

  /** The state of the alert rules as JSON; empty when there is none. */
  get alerts(): string {
    return this.#open()?.alerts ?? '';
  }

  /** Stores the state of the alert rules without appending a message. */
  noteAlerts(turn: Turn, alerts: string): void {
    const head = this.#open();
    if (!head || head.alerts === alerts) return;
    this.#rows.noteAlerts(turn, head.id, alerts);
    turn.undo(() => {
      this.#head = head;
    });
    this.#head = { ...head, alerts };
  }

  /** Stores that a telemetry event is sent with this turn. */
  noteEvent(turn: Turn): void {
    const head = this.#open();
    if (!head) return;
    this.#rows.noteEvent(turn, head.id, turn.now);
    turn.remember(() => {
      this.#head = { ...head, eventAtMs: turn.now };
    });
  }

  /** Appends messages of one device. The nonces and latest values in memory are updated after the commit. */
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

  /** What a device's bare signal names mean now (see `SignalOrigin`). */
  meaningOf(deviceId: string): SignalOrigin {
    return this.#host.origin(deviceId);
  }

  /** The meaning of a reading's bare signal names when it was received. */
  originOf({ deviceId, as }: JournalEntry): SignalOrigin {
    return as === undefined ? this.#host.origin(deviceId) : originOf(deviceId, as);
  }

  /**
   * The readings received since `sinceMs`, oldest first, one block in memory at a time. With `maxChars`, only
   * the newest blocks that fit.
   */
  *readingsSince(sinceMs: number, maxChars?: number): Generator<StoredReading> {
    for (const block of this.#rows.since(sinceMs, maxChars)) yield* readingsOf(block, sinceMs);
  }

  /** The readings of this block and all later ones, in order of receipt. */
  *readingsFrom(block: number): Generator<StoredReading> {
    for (const text of this.#rows.from(block)) yield* readingsOf(text, 0);
  }

  /** The heads of this block and all later ones. */
  blocksFrom(block: number): Iterable<BlockHead> {
    return this.#rows.headsFrom(block);
  }

  #write(turn: Turn, entries: readonly JournalEntry[], riders: Riders): BlockHead | undefined {
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
      head = { id, openedAtMs: turn.now, lastAtMs: turn.now, startsAt, size: line.length, ...riders };
      this.#rows.insert(turn, head, line);
    }
    flush();
    return head;
  }

  /**
   * Stores a snapshot of the latest values from before this turn's messages. A failed write loses nothing:
   * the values are read from the blocks instead.
   */
  #keepSnapshot(turn: Turn, asOfMs: number): void {
    const { snapshot } = this;
    const head = this.#open();
    const place = head ? head.startsAt + head.size : 0;
    const isLittle = place - this.#snapshotPlace < SNAPSHOT.chars;
    if (turn.now - this.#snapshotAtMs < (isLittle ? SNAPSHOT.lateMs : SNAPSHOT.soonMs)) return;
    const stored: StoredSnapshot = { samples: snapshot.toJSON(), asOfMs, place };
    turn.step(() => this.#values.set(turn, 'snapshot', stored));
    turn.remember(() => {
      this.#snapshotAtMs = turn.now;
      this.#snapshotPlace = place;
    });
  }

  #open(): BlockHead | undefined {
    if (this.#head === undefined) this.#head = this.#rows.open() ?? null;
    return this.#head ?? undefined;
  }

  #readNonces(): ReplayGuard {
    const replay = new ReplayGuard();
    const now = this.#host.clock.now();
    for (const use of this.#nonceUses()) replay.remember(use, now);
    return replay;
  }

  *#nonceUses(): Generator<NonceUse> {
    yield* this.#host.movedNonces();
    for (const block of this.#rows.since(this.#host.clock.now() - REPLAY_HORIZON_MS))
      yield* parseEntries(block);
  }

  /** Reads the stored snapshot and applies the entries received since; without one, all entries. */
  #readSnapshot(): Snapshot {
    const stored = this.#values.get<StoredSnapshot>('snapshot') ?? { samples: {}, asOfMs: 0, place: 0 };
    this.#snapshotAtMs = stored.asOfMs;
    this.#snapshotPlace = stored.place;
    const snapshot = new Snapshot((externalId) => this.#host.isSubDevice(externalId), stored.samples);
    for (const { entry, data } of this.readingsSince(stored.asOfMs)) {
      snapshot.apply(this.originOf(entry), entry, data);
    }
    return snapshot;
  }
}
