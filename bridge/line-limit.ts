/**
 * Keeps what a client can cause at will from filling the log: in a minute so many lines that are alike, so many of one
 * address and so many of all. What was left out is told at the minute's end, by address.
 */
const MINUTE_MS = 60_000;
const MAX_ALIKE = 5;
const MAX_OF_ADDRESS = 60;
const MAX_LINES = 600;

interface OfAddress {
  told: number;
  leftOut: number;
  alike: Map<string, number>;
}

export class LineLimit {
  readonly #leftOut: (address: string, count: number) => void;
  readonly #addresses = new Map<string, OfAddress>();
  #told = 0;
  /** Of addresses that nothing was told of. */
  #othersLeftOut = 0;
  #minute: NodeJS.Timeout | undefined;

  /** `leftOut`: an empty address stands for all that are not named. */
  constructor(leftOut: (address: string, count: number) => void) {
    this.#leftOut = leftOut;
  }

  /** Whether a line may be written; `alike`: what it has in common with others like it. */
  takes(address: string, alike: string): boolean {
    this.#minute ??= setTimeout(() => this.turn(), MINUTE_MS).unref();
    const isFull = this.#told >= MAX_LINES;
    const known = this.#addresses.get(address) ?? (isFull ? undefined : this.#add(address));
    if (!known) {
      this.#othersLeftOut += 1;
      return false;
    }
    const times = known.alike.get(alike) ?? 0;
    if (isFull || known.told >= MAX_OF_ADDRESS || times >= MAX_ALIKE) {
      known.leftOut += 1;
      return false;
    }
    known.alike.set(alike, times + 1);
    known.told += 1;
    this.#told += 1;
    return true;
  }

  /** The minute is over: what was left out in it is told. */
  turn(): void {
    clearTimeout(this.#minute);
    this.#minute = undefined;
    const known = [...this.#addresses];
    const others = this.#othersLeftOut;
    this.#addresses.clear();
    this.#told = 0;
    this.#othersLeftOut = 0;
    for (const [address, { leftOut }] of known) if (leftOut > 0) this.#leftOut(address, leftOut);
    if (others > 0) this.#leftOut('', others);
  }

  #add(address: string): OfAddress {
    const known = { told: 0, leftOut: 0, alike: new Map<string, number>() };
    this.#addresses.set(address, known);
    return known;
  }
}
