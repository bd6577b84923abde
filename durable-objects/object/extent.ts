/**
 * How much a table holds, without counting it: each row says where its bytes begin, counted from the first there ever
 * was, so the two ends tell. Rows leave at the old end only.
 */
export interface Extent {
  startsAt: number;
  endsAt: number;
  /** When its oldest row came; undefined for a table that goes by bytes alone, or is empty. */
  oldestMs: number | undefined;
}

export const EMPTY: Extent = { startsAt: 0, endsAt: 0, oldestMs: undefined };

export function bytesOf({ startsAt, endsAt }: Extent): number {
  return endsAt - startsAt;
}
