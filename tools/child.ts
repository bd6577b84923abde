/** A supervised child process: when it ends it is restarted within a second, on the same ports and data. */
import { type ChildProcess, fork } from 'node:child_process';

const RESTART_MS = 300;
const STOP_TIMEOUT_MS = 10_000;
/** A child that ran for so long works; one that ends sooner this often in a row does not. */
const STEADY_MS = 30_000;
const MOST_ENDS = 10;

export interface ChildOptions {
  name: string;
  script: string;
  env: Record<string, string>;
  /** Called at each start, including the first one. */
  onStart?(child: ChildProcess): void;
  /** Called in place of another start when it has ended so often, each time soon after its start, that it will not work. */
  onLost(reason: string): void;
}

export class Child {
  readonly #options: ChildOptions;
  #process: ChildProcess | undefined;
  #stopping = false;
  #restart: NodeJS.Timeout | undefined;
  #startedAtMs = 0;
  /** Ends in a row, each soon after a start. */
  #ends = 0;

  constructor(options: ChildOptions) {
    this.#options = options;
  }

  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  start(): void {
    this.#stopping = false;
    const { script, env, onStart } = this.#options;
    const child = fork(script, {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // The child gets no signals of the terminal: the stack gets them and stops its children in order.
      detached: true,
    });
    this.#process = child;
    this.#startedAtMs = performance.now();
    child.on('exit', (code, signal) => this.#ended(signal ?? code));
    child.on('error', (error) => {
      if (child.pid === undefined) this.#ended(error.message);
      else console.error(`${this.#options.name}: ${error.message}`);
    });
    onStart?.(child);
  }

  #ended(reason: string | number | null): void {
    this.#process = undefined;
    if (this.#stopping) return;
    const { name, onLost } = this.#options;
    this.#ends = performance.now() - this.#startedAtMs >= STEADY_MS ? 0 : this.#ends + 1;
    if (this.#ends >= MOST_ENDS) {
      onLost(`${name} ended ${MOST_ENDS} times, each time soon after its start (${reason})`);
      return;
    }
    console.error(`${name} ended (${reason}), restarting it`);
    this.#restart = setTimeout(() => this.start(), RESTART_MS);
  }

  send(message: object): void {
    if (this.#process?.connected) this.#process.send(message);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    clearTimeout(this.#restart);
    const child = this.#process;
    if (!child) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(timer);
  }
}
