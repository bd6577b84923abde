/**
 * Prevents clients from filling the log. Per minute it limits the equal lines of one address, all lines of
 * one address, and the lines of all addresses. At the end of the minute it reports the number of suppressed
 * lines by address.
 */
const MINUTE_MS = 60_000;
const MAX_ALIKE = 5;
const MAX_OF_ADDRESS = 60;
const MAX_LINES = 600;

interface OfAddress {
  written: number;
  leftOut: number;
  alike: Map<string, number>;
}

export class LineLimit {
  readonly #leftOut: (address: string, count: number) => void;
  readonly #addresses = new Map<string, OfAddress>();
  #written = 0;
  /** Suppressed lines of addresses that have no entry, because the total limit was reached before them. */
  #othersLeftOut = 0;
  #minute: NodeJS.Timeout | undefined;

  /** `leftOut` gets an empty address for the lines of all addresses without an entry. */
  constructor(leftOut: (address: string, count: number) => void) {
    this.#leftOut = leftOut;
  }

  /** Whether a line may be written. Lines of one address with the same `alike` count as equal. */
  takes(address: string, alike: string): boolean {
    this.#minute ??= setTimeout(() => this.turn(), MINUTE_MS).unref();
    const isFull = this.#written >= MAX_LINES;
    const known = this.#addresses.get(address) ?? (isFull ? undefined : this.#add(address));
    if (!known) {
      this.#othersLeftOut += 1;
      return false;
    }
    const times = known.alike.get(alike) ?? 0;
    if (isFull || known.written >= MAX_OF_ADDRESS || times >= MAX_ALIKE) {
      known.leftOut += 1;
      return false;
    }
    known.alike.set(alike, times + 1);
    known.written += 1;
    this.#written += 1;
    return true;
  }

  /** Ends the minute: reports the suppressed lines and resets all counts. */
  turn(): void {
    clearTimeout(this.#minute);
    this.#minute = undefined;
    const known = [...this.#addresses];
    const others = this.#othersLeftOut;
    this.#addresses.clear();
    this.#written = 0;
    this.#othersLeftOut = 0;
    for (const [address, { leftOut }] of known) if (leftOut > 0) this.#leftOut(address, leftOut);
    if (others > 0) this.#leftOut('', others);
  }

  #add(address: string): OfAddress {
    const known = { written: 0, leftOut: 0, alike: new Map<string, number>() };
    this.#addresses.set(address, known);
    return known;
  }
}
