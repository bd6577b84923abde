/**
 * Paged lists (spec: List endpoints): `page` and `limit` in the request, `{data, meta}` in the answer. The command log
 * of the partner surface differs: its request has `pageSize`, its answer `{items, page, pageSize, total}`, and its sizes
 * are `commandsPageSize…` in limits.ts.
 */
import { z } from 'zod';
import { LIMIT } from './limits.ts';

/** The numbers of a request for a page. */
export const PAGE = {
  last: LIMIT.listPage,
  rowsDefault: LIMIT.listRowsDefault,
  rows: LIMIT.listRows,
} as const;

export interface PageRequest {
  /** Starts at 1. */
  page: number;
  limit: number;
}

export interface Page<Row> {
  data: Row[];
  meta: PageRequest & { total: number; totalPages: number };
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
