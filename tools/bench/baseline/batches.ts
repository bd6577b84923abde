/**
 * Group commit: what arrives while a batch is under way shares the next one. A batch is one transaction, so under load
 * many items share one write to the disk, and without load an item does not wait.
 */
export class Batches<Item> {
  readonly #run: (items: Item[]) => Promise<void>;
  readonly #most: number;
  readonly #parallel: number;
  #waiting: Item[] = [];
  #running = 0;

  /** `most`: items of a batch; `parallel`: batches under way at the same time. */
  constructor(run: (items: Item[]) => Promise<void>, { most = 1_000, parallel = 1 } = {}) {
    this.#run = run;
    this.#most = most;
    this.#parallel = parallel;
  }

  add(item: Item): void {
    this.#waiting.push(item);
    // Not at once: all messages that one read of a socket brings then share a batch.
    if (this.#waiting.length === 1) setImmediate(() => this.#start());
  }

  #start(): void {
    while (this.#running < this.#parallel && this.#waiting.length > 0) {
      const items = this.#waiting.splice(0, this.#most);
      this.#running += 1;
      // A failure is a bug or a broken server: it ends the process.
      this.#run(items).then(() => {
        this.#running -= 1;
        this.#start();
      });
    }
  }
}
