/**
 * A page of roll-ups: the buckets of one width over a long time. Its metrics are distributed over parts by
 * name. Buckets are added part by part, with one part in memory at a time; a part that grows too large is
 * split.
 */
import { compareUtf8 } from '../../../protocol/utf8.ts';
import type { Turn } from '../../object/turn.ts';
import { SITE_BOUNDS } from '../bounds.ts';
import { type Bucket, mergeBuckets } from './bucket.ts';
import { countOf, metricsOf, packBuckets, unpackBuckets } from './part.ts';
import { nextNumber, type PartHead, type PartRows } from './part-rows.ts';

export interface Page {
  startMs: number;
  endMs: number;
  /** Width of one bucket. */
  widthMs: number;
}

/**
 * Returns by how many bytes the page grew. Signals above `signalsPerPage` are dropped; the log shows how
 * many.
 */
export function mergePage(
  turn: Turn,
  rows: PartRows,
  { startMs, endMs, widthMs }: Page,
  added: ReadonlyMap<string, readonly Bucket[]>,
): number {
  if (added.size === 0) return 0;
  const parts = rows.page(startMs);
  const buckets = withinPage(parts, added);
  if (parts.length === 0) return rows.add(turn, startMs, endMs, packBuckets(buckets, widthMs));
  let grown = 0;
  // Parts are numbered in order of creation, not of their metrics: a split takes the next free number.
  let number = nextNumber(parts);
  for (const head of parts) {
    const own = [...buckets].filter(([metric]) => isWithin(head, metric));
    if (own.length === 0) continue;
    const part = rows.whole(head);
    const merged = new Map(metricsOf(part).map((metric) => [metric, unpackBuckets(part, metric, widthMs)]));
    for (const [metric, more] of own)
      merged.set(metric, mergeBuckets(merged.get(metric) ?? [], more, widthMs));
    const [first, ...rest] = packBuckets(merged, widthMs);
    if (!first) continue;
    first.fromMetric = part.fromMetric;
    (rest.at(-1) ?? first).untilMetric = part.untilMetric;
    grown += rows.put(turn, part.id, endMs, first) - part.size;
    grown += rows.add(turn, startMs, endMs, rest, number);
    number += rest.length;
  }
  return grown;
}

function isWithin({ fromMetric, untilMetric }: PartHead, metric: string): boolean {
  return (
    compareUtf8(fromMetric, metric) <= 0 && (untilMetric === null || compareUtf8(metric, untilMetric) < 0)
  );
}

function withinPage(
  parts: readonly PartHead[],
  added: ReadonlyMap<string, readonly Bucket[]>,
): Map<string, Bucket[]> {
  const known = parts.reduce((sum, part) => sum + metricsOf(part).length, 0);
  let room = SITE_BOUNDS.signalsPerPage - known;
  const isKnown = (metric: string) => parts.some(({ directory }) => countOf(directory, metric) > 0);
  const kept = [...added].filter(([metric]) => isKnown(metric) || room-- > 0);
  if (kept.length < added.size) {
    console.warn('roll-up page is full, dropping new signals', { signalsLeftOut: added.size - kept.length });
  }
  return new Map(kept.map(([metric, buckets]) => [metric, [...buckets]]));
}
