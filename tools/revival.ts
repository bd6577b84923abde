/**
 * Starts the runtime of a local edge again after Miniflare has given up: Miniflare does so for ever when the runtime ends
 * while it starts again.
 */
import type { Miniflare } from 'miniflare';

const LOOK_MS = 250;
/** Starts in a row that may fail; and starts in a row after which the runtime may end within `STEADY_MS`. */
const MOST_STARTS = 10;
const PAUSE_MS = 500;
const STEADY_MS = 10_000;

type Settings = Parameters<Miniflare['setOptions']>[0];

export class Revival {
  readonly #miniflare: Miniflare;
  readonly #settings: () => Settings;
  readonly #port: number;
  readonly #onLost: ((reason: string) => void) | undefined;
  #hasEnded = false;
  #starts = 0;
  #startedAtMs = 0;

  constructor(
    miniflare: Miniflare,
    settings: () => Settings,
    port: number,
    onLost: ((reason: string) => void) | undefined,
  ) {
    this.#miniflare = miniflare;
    this.#settings = settings;
    this.#port = port;
    this.#onLost = onLost;
    void this.#watch();
  }

  end(): void {
    this.#hasEnded = true;
  }

  async #watch(): Promise<void> {
    for (;;) {
      await pause(LOOK_MS);
      let failure = await this.#failure();
      while (failure !== undefined && !this.#hasEnded) {
        if (performance.now() - this.#startedAtMs > STEADY_MS) this.#starts = 0;
        if (this.#starts >= MOST_STARTS) {
          this.#onLost?.(this.#reasonOf(failure));
          return;
        }
        failure = await this.#start();
      }
      if (this.#hasEnded) return;
    }
  }

  /** Why Miniflare has given up; undefined while the runtime runs or starts. */
  async #failure(): Promise<unknown> {
    return await this.#miniflare.ready.then(
      () => undefined,
      (error: unknown) => error,
    );
  }

  async #start(): Promise<unknown> {
    this.#starts += 1;
    this.#startedAtMs = performance.now();
    console.error(
      `edge: the runtime ended while it started, starting it again (${this.#starts} of ${MOST_STARTS})`,
    );
    try {
      await this.#miniflare.setOptions(this.#settings());
      return undefined;
    } catch (error) {
      await pause(PAUSE_MS);
      return error;
    }
  }

  #reasonOf(failure: unknown): string {
    const { code, message } = failure as { code?: string; message?: string };
    return code === 'ERR_ADDRESS_IN_USE'
      ? `port ${this.#port} is in use: stop the program that listens on it, then start the stack again`
      : `the runtime of the edge does not start: ${message}`;
  }
}

async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms).unref());
}
