/**
 * Pages of lists that may be longer than offsets reach [C-14.3]. The cursor of the next page is opaque text: base64url of
 * its JSON.
 */
import * as z from 'zod';
import { base64Url, bytesOf } from '../../durable-objects/secrets/base64.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { type Cursor, type FoundPage, type LongPage, type PageRequest, pageOf } from '../../protocol/page.ts';

const cursorParts = z.tuple([z.union([z.string(), z.number()]), z.string()]);

/** The answer with one page. `cursorOf`: returns the cursor of the page that begins after this row. */
export function longPageOf<Row, Shown>(
  found: FoundPage<Row>,
  request: PageRequest,
  toRecord: (row: Row) => Shown,
  cursorOf: (row: Row) => Cursor,
): LongPage<Shown> {
  const { data, meta } = pageOf(found, request, toRecord);
  const last = found.rows.length < request.limit ? undefined : found.rows.at(-1);
  // `totalPages` counts only pages that a request can reach with `page`.
  const totalPages = Math.min(meta.totalPages, Math.ceil(LIMIT.listTotal / request.limit));
  return { data, meta: { ...meta, totalPages, next: last ? formatCursor(cursorOf(last)) : null } };
}

function formatCursor({ value, id }: Cursor): string {
  return base64Url(new TextEncoder().encode(JSON.stringify([value, id])));
}

/** Returns undefined for a text that does not have the form of a cursor. */
export function parseCursor(text: string): Cursor | undefined {
  try {
    const [value, id] = cursorParts.parse(JSON.parse(new TextDecoder().decode(bytesOf(text))));
    return { value, id };
  } catch {
    return undefined;
  }
}
