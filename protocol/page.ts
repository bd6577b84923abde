/** Paged lists (spec: List endpoints): `page` and `limit` in the request, `{data, meta}` in the answer. */
import { z } from 'zod';
import { LIMIT } from './limits.ts';

export interface PageRequest {
  /** Starts at 1. */
  page: number;
  limit: number;
}

export interface Page<Row> {
  data: Row[];
  meta: PageRequest & { total: number; totalPages: number };
}

export function pageOf<Row>(data: Row[], total: number, { page, limit }: PageRequest): Page<Row> {
  return { data, meta: { page, limit, total, totalPages: Math.ceil(total / limit) } };
}

export function pageSchema<Row>(row: z.ZodType<Row>, most = LIMIT.listRows): z.ZodType<Page<Row>> {
  return z.strictObject({
    data: z.array(row).max(most),
    meta: z.strictObject({
      page: z.int().min(1),
      limit: z.int().min(1).max(most),
      total: z.int().min(0),
      totalPages: z.int().min(0),
    }),
  });
}
