/**
 * The size of a table without counting its rows. Each row stores the offset of its bytes, counted from the
 * first row ever written, so the first and the last row are enough. Rows are deleted only from the oldest on.
 */
export interface Extent {
  startsAt: number;
  endsAt: number;
  /** Time of the oldest row; undefined if the table is empty or limited only by bytes. */
  oldestMs: number | undefined;
}

export const EMPTY: Extent = { startsAt: 0, endsAt: 0, oldestMs: undefined };

export function bytesOf({ startsAt, endsAt }: Extent): number {
  return endsAt - startsAt;
}
