import type { Reporter, TestModule } from 'vitest/node';

/** Longer than the slowest test and the slowest hook take, which their own time limits end. */
const STALL_SECONDS = 240;

/**
 * Ends a run in which nothing happens any more, and names the files that did not end. Vitest's own time limits are
 * timers of the process that runs the test, so a loop or a runtime that does not answer would block the run for ever.
 */
export class StallReporter implements Reporter {
  readonly #running = new Set<string>();
  #ended = 0;
  #timer: NodeJS.Timeout | undefined;

  onTestRunStart(): void {
    this.#wait();
  }

  onTestModuleQueued({ project, relativeModuleId }: TestModule): void {
    this.#running.add(`${project.name} ${relativeModuleId}`);
    this.#wait();
  }

  onTestCaseResult(): void {
    this.#wait();
  }

  onTestModuleEnd({ project, relativeModuleId }: TestModule): void {
    this.#running.delete(`${project.name} ${relativeModuleId}`);
    this.#ended += 1;
    this.#wait();
  }

  onTestRunEnd(): void {
    clearTimeout(this.#timer);
  }

  #wait(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const files =
        [...this.#running].map((file) => `  ${file}`).join('\n') ||
        '  none: all files ended, but a runtime did not say so';
      process.stderr.write(
        `No test ended for ${STALL_SECONDS} s after ${this.#ended} files. Still running:\n${files}\n`,
      );
      process.exit(1);
    }, STALL_SECONDS * 1000);
  }
}
