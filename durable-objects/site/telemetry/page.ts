/**
 * A page of roll-ups: the buckets of one width over a long time, its metrics spread over parts by their names. Buckets are
 * added part by part, one in memory at a time; a part that has grown too large is split.
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
  /** Of its buckets. */
  widthMs: number;
}

/** Returns by how many bytes the page grew. Signals beyond so many are left out, and counted in the log. */
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
  // Parts are numbered as they come: a split takes the next number.
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
    console.warn('a page of roll-ups is full', { signalsLeftOut: added.size - kept.length });
  }
  return new Map(kept.map(([metric, buckets]) => [metric, [...buckets]]));
}
