/** Limits of the API that the console counts with. */

/** Changes of the plan in one answer of `explain` [C-13.3]. */
export const EXPLAIN_CHANGES = 50;
