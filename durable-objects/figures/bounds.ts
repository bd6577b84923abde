/** What the figures may grow to. What finds no room is left out, and counted. */
export const FIGURES_BOUNDS = {
  objects: 30_000,
  /** Of all keys together: three lines or more of an answer each. */
  queues: 5_000,
  /** Counts with a key of their own: all that there are, twice over. */
  counts: 200,
} as const;
