/** A client of its own process that prints what befalls it, a line each, and goes on when it is told. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** From one step to the next, with all the others on the same two cores. */
const PATIENCE_MS = 20_000;

export class OutsideClient {
  readonly lines: string[] = [];
  errors = '';
  exitCode: number | null = null;
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #ended: Promise<unknown>;
  #changed = () => {};

  constructor([program = '', ...given]: readonly string[], env: Record<string, string>) {
    this.#process = spawn(program, given, { env: { ...process.env, ...env } });
    this.#ended = once(this.#process, 'close').then(([code]) => {
      this.exitCode = code;
      this.#changed();
    });
    this.#process.stderr.on('data', (text: Buffer) => {
      this.errors += text;
    });
    // A client that has ended reads nothing more.
    this.#process.stdin.on('error', () => {});
    createInterface({ input: this.#process.stdout }).on('line', (line) => {
      this.lines.push(line);
      this.#changed();
    });
  }

  /** The broker is there: a client that waits for it goes on. */
  tell(): void {
    if (this.#process.stdin.writable) this.#process.stdin.write('\n');
  }

  /**
   * Resolves when it has printed so many lines that begin with this word, when it has ended, or when that takes too
   * long: what it printed says the rest, and the others go on.
   */
  async untilTimes(word: string, times: number): Promise<void> {
    const count = () => this.lines.filter((line) => line.startsWith(`${word} `)).length;
    await this.#until(() => count() >= times);
  }

  async untilEnded(): Promise<void> {
    await this.#until(() => false);
  }

  /** Ends it when it did not end by itself. */
  async stop(): Promise<void> {
    if (this.exitCode === null) this.#process.kill('SIGKILL');
    await this.#ended;
  }

  async #until(holds: () => boolean): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      timer = setTimeout(resolve, PATIENCE_MS);
      this.#changed = () => {
        if (holds() || this.exitCode !== null) resolve();
      };
      this.#changed();
    });
    clearTimeout(timer);
  }
}
