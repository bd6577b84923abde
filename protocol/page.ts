/**
 * Paged lists (spec: List endpoints): `page` and `limit` in the request, `{data, meta}` in the answer. The command log
 * of the partner surface differs: its request has `pageSize`, its answer `{items, page, pageSize, total}`, and its sizes
 * are `commandsPageSize…` in limits.ts.
 */
import * as z from 'zod';
import { LIMIT } from './limits.ts';

/** The numbers of a request for a page. */
export const PAGE = {
  last: LIMIT.listTotal,
  rowsDefault: LIMIT.listRowsDefault,
  rows: LIMIT.listRows,
} as const;

export interface PageRequest {
  /** Starts at 1. */
  page: number;
  limit: number;
  /** Only for lists with a cursor: the `before` of the request. */
  before?: Cursor | undefined;
}

/** Where a page of a long list begins: after the row with this value of the order's column, and this id. */
export interface Cursor {
  value: string | number;
  id: string;
}

export interface Page<Row> {
  data: Row[];
  meta: { page: number; limit: number; total: number; totalPages: number };
}

/** A page of a list that may be longer than offsets reach. */
export interface LongPage<Row> {
  data: Row[];
  /** `next`: what the request for the next page sends as `before`; null on the last page. */
  meta: Page<Row>['meta'] & { next: string | null };
}

/** The rows of one page, and the number of rows of all pages. */
export interface FoundPage<Row> {
  rows: Row[];
  total: number;
}

/** The answer with a page of rows. `toRecord` converts a row to what the client sees. */
export function pageOf<Row, Shown>(
  { rows, total }: FoundPage<Row>,
  { page, limit }: PageRequest,
  toRecord: (row: Row) => Shown,
): Page<Shown> {
  return { data: rows.map(toRecord), meta: { page, limit, total, totalPages: Math.ceil(total / limit) } };
}

export function pageSchema<Row>(row: z.ZodType<Row>, most = LIMIT.listRows): z.ZodType<Page<Row>> {
  return z.strictObject({ data: z.array(row).max(most), meta: pageMeta(most) });
}

/** `most`: the largest `limit` that a request may have. */
export function pageMeta(most: number) {
  return z.strictObject({
    page: z.int().min(1),
    limit: z.int().min(1).max(most),
    total: z.int().min(0),
    totalPages: z.int().min(0),
  });
}

/** As `pageSchema`, for a `LongPage`. */
export function longPageSchema<Row>(row: z.ZodType<Row>): z.ZodType<LongPage<Row>> {
  const meta = pageMeta(LIMIT.listRows).extend({ next: z.string().nullable() });
  return z.strictObject({ data: z.array(row).max(LIMIT.listRows), meta });
}
