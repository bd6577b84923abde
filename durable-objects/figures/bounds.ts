/** Limits of the metrics object. Anything above a limit is dropped and counted. */
export const FIGURES_BOUNDS = {
  objects: 30_000,
  /** Of all keys together. Each queue is three or more lines of a scrape. */
  queues: 5_000,
  /** Count keys: about twice the number that exists. */
  counts: 200,
} as const;
