/** What the figures may grow to. Beyond it reports are left out, and counted. */
export const FIGURES_BOUNDS = {
  objects: 30_000,
  /** Of all keys together: three lines or more of an answer each. */
  queues: 5_000,
  /** Of one object: all that there are, twice over. */
  counts: 200,
} as const;
