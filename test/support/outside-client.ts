/** A client in its own process that prints each event as a line, and continues when the test says so. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** From one step to the next, while all other clients share the same two cores. */
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

  /** Notifies a waiting client that the broker is available. */
  resume(): void {
    if (this.#process.stdin.writable) this.#process.stdin.write('\n');
  }

  /**
   * Resolves when the client has printed the given number of lines that begin with this word, has ended, or
   * takes too long. The test checks the output afterwards, so one slow client does not stop the others.
   */
  async untilTimes(word: string, times: number): Promise<void> {
    const count = () => this.lines.filter((line) => line.startsWith(`${word} `)).length;
    await this.#until(() => count() >= times);
  }

  async untilEnded(): Promise<void> {
    await this.#until(() => false);
  }

  /** Kills the client when it did not end by itself. */
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
