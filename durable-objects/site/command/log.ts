/** The command log as REST reads it (spec: Command-log page; [C-4.3]). */
import type { CommandLogEntry, CommandLogPage } from '../../../protocol/command-log.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import type { SiteParts } from '../parts.ts';
import { PagePayloads } from './kept-payload.ts';
import type { CommandRow } from './rows.ts';

export function readCommands(
  site: SiteParts,
  siteId: string,
  page: number,
  pageSize: number,
): CommandLogPage {
  const payloads = new PagePayloads();
  return {
    items: site.commands.page(page, pageSize).map((row) => logEntry(siteId, row, payloads)),
    total: site.commands.total(),
  };
}

/** One row; fields without a value are left out. */
export function logEntry(siteId: string, row: CommandRow, payloads: PagePayloads): CommandLogEntry {
  const entry = {
    id: row.id,
    messageId: row.message_id,
    correlationId: row.correlation_id,
    siteId,
    commandType: row.command_type,
    routingKey: row.routing_key,
    status: row.status,
    target: row.target,
    payload: payloads.read(row.payload),
    source: row.source,
    keyPrefix: row.key_prefix,
    createdAt: formatInstant(row.created_at_ms),
  };
  const optional = {
    priority: row.priority,
    rejectionCode: row.rejection_code,
    message: row.message,
    results: row.results && JSON.parse(row.results),
    validFrom: instantOf(row.valid_from_ms),
    validUntil: instantOf(row.valid_until_ms),
    actualValueKw: row.actual_value_kw,
    targetValueKw: row.target_value_kw,
    deviationKw: row.deviation_kw,
    reason: row.reason,
    ackedAt: instantOf(row.acked_at_ms),
    dispatchedAt: instantOf(row.dispatched_at_ms),
    startedAt: instantOf(row.started_at_ms),
    finishedAt: instantOf(row.finished_at_ms),
  };
  // Columns hold what we wrote, in the words that the entry's schema lists.
  return { ...entry, ...withoutNulls(optional) } as CommandLogEntry;
}

function instantOf(epochMs: number | null): string | null {
  return epochMs === null ? null : formatInstant(epochMs);
}

function withoutNulls(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}
