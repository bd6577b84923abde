/**
 * An object's copy of registry data, in memory and storage, with its version and age. The Worker notifies the
 * object of changes (`upTo`); regular reads find missed ones. One read at a time.
 */
import { within } from './calls.ts';
import type { Clock } from './clock.ts';
import type { KeyValues } from './key-values.ts';
import { reasonOf } from './reason.ts';
import type { Turn, Turns } from './turn.ts';

/** Maximum age of a copy by which commands are authorized. Dials, reads and rates use a copy of any age. */
export const FRESH_MS = 20 * 60_000;
/**
 * From this age on a copy in use is read again in the background. Less than FRESH_MS, so frequent callers wait
 * for the registry only at first and while it fails.
 */
const POLL_MS = 15 * 60_000;
/** A read that finds no change stores its time at most this often, because each store writes a row. */
const AGE_STEP_MS = 10 * 60_000;
/** Pause after a failed read. */
const PAUSE_MS = 60_000;
const READ_LIMIT_MS = 3_000;
/** A larger copy is not stored, but read again whenever the object is loaded. */
const MAX_STORED_CHARS = 500_000;

export interface CopyHost<Data> {
  clock: Clock;
  turns: Turns;
  /** Reads the registry. Returns undefined if the object does not know yet what to read. */
  read(): Promise<Data | undefined> | undefined;
  keepAlive(work: Promise<void>): void;
  /** Called in the turn in which the data changed; `record` is undefined if the registry has no such data. */
  onChange?(turn: Turn, record: Data | undefined): void;
}

export class RegistryCopy<Data extends { version: number }> {
  readonly #values: KeyValues<'registry' | 'registryReadAt'>;
  readonly #host: CopyHost<Data>;
  #record: Data | undefined;
  #readAtMs = 0;
  #storedAtMs = 0;
  #triedAtMs = 0;
  #isForgotten = false;
  #reading: Promise<void> | undefined;

  constructor(values: KeyValues<'registry' | 'registryReadAt'>, host: CopyHost<Data>) {
    this.#values = values;
    this.#host = host;
    this.#record = values.get<Data | null>('registry') ?? undefined;
    if (this.#record) this.#readAtMs = values.get<number>('registryReadAt') ?? 0;
    this.#storedAtMs = this.#readAtMs;
  }

  /** The data; undefined before the first read, and if the registry has no such data. */
  get record(): Data | undefined {
    return this.#record;
  }

  /** Whether the copy is recent enough for commands. */
  isFresh(): boolean {
    return this.#ageMs() < FRESH_MS;
  }

  /**
   * Resolves once the copy has this version or a later one, or the registry has no such data. Waits for a read
   * that is already running, which may miss the change, and reads again. Rejects if the registry does not
   * answer in time or has only an older version.
   */
  async upTo(version: number): Promise<void> {
    if (this.#record?.version === version) return;
    await this.#reading?.catch(() => {});
    await this.refresh();
    const known = this.#record?.version ?? version;
    if (known < version)
      throw new Error(
        `the registry returned version ${known}, but a change of version ${version} was announced`,
      );
  }

  /** Reads the copy again in the background if it is older than POLL_MS; after a failure at most once a minute. */
  keepUp(): void {
    const now = this.#host.clock.now();
    if (this.#ageMs() < POLL_MS || now - this.#triedAtMs < PAUSE_MS) return;
    this.#triedAtMs = now;
    const read = this.refresh().catch((error: unknown) => {
      console.warn('registry not read in the background, the copy of the object stays as it is', {
        reason: reasonOf(error),
      });
    });
    this.#host.keepAlive(read);
  }

  /** Reads the copy again unless it is younger than `maxAgeMs`. Rejects if the registry does not answer in time. */
  async refresh(maxAgeMs = Number.NEGATIVE_INFINITY): Promise<void> {
    if (this.#ageMs() < maxAgeMs) return;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
  }

  /** Deletes the copy; the result of a running read is ignored. */
  forget(turn: Turn): void {
    this.#isForgotten = true;
    this.#record = undefined;
    this.#values.set(turn, 'registry', null);
    this.#values.set(turn, 'registryReadAt', null);
  }

  #ageMs(): number {
    return this.#host.clock.now() - this.#readAtMs;
  }

  async #read(): Promise<void> {
    const read = this.#host.read();
    if (!read) return;
    const record = await within(READ_LIMIT_MS, read);
    if (this.#isForgotten) return;
    const readAtMs = this.#host.clock.now();
    const isOther = JSON.stringify(record) !== JSON.stringify(this.#record);
    if (isOther || (record && readAtMs - this.#storedAtMs >= AGE_STEP_MS)) {
      this.#host.turns.attempt((turn) => this.#store(turn, record, isOther, readAtMs));
      this.#storedAtMs = readAtMs;
    }
    this.#readAtMs = readAtMs;
  }

  #store(turn: Turn, record: Data | undefined, isOther: boolean, readAtMs: number): void {
    this.#values.set(turn, 'registryReadAt', readAtMs);
    if (!isOther) return;
    const before = this.#record;
    turn.undo(() => {
      this.#record = before;
    });
    this.#record = record;
    // A copy that is too large is replaced by null, so that no older copy stays stored.
    const isStored = record && JSON.stringify(record).length <= MAX_STORED_CHARS;
    this.#values.set(turn, 'registry', isStored ? record : null);
    this.#host.onChange?.(turn, record);
  }
}
