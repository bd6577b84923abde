/** The command log for REST (spec: Command-log page; [C-4.3]). */
import type { CommandLogPage } from '../../../protocol/command-log.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { JsonText, jsonArray, jsonObject } from '../../../protocol/json-text.ts';
import type { CommandRow, CommandRows } from './rows.ts';
import { PagePayloads } from './stored-payload.ts';

export function readCommands(
  commands: CommandRows,
  siteId: string,
  page: number,
  pageSize: number,
): CommandLogPage {
  return { items: logEntries(siteId, commands.page(page, pageSize)).text, total: commands.total() };
}

/** Formats the rows of one page: JSON of `CommandLogEntry[]`. */
export function logEntries(siteId: string, rows: readonly CommandRow[]): JsonText {
  const payloads = new PagePayloads();
  return jsonArray(rows.map((row) => logEntry(siteId, row, payloads)));
}

/** Formats one row as a `CommandLogEntry`; undefined fields are omitted. */
function logEntry(siteId: string, row: CommandRow, payloads: PagePayloads): JsonText {
  return jsonObject({
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
    keyPrefix: row.key_prefix === '' ? null : row.key_prefix,
    createdAt: formatInstant(row.created_at_ms),
    decision: row.decision === null ? undefined : new JsonText(row.decision),
    priority: row.priority ?? undefined,
    rejectionCode: row.rejection_code ?? undefined,
    message: row.message ?? undefined,
    results: row.results === null ? undefined : new JsonText(row.results),
    validFrom: instantOf(row.valid_from_ms),
    validUntil: instantOf(row.valid_until_ms),
    actualValueKw: row.actual_value_kw ?? undefined,
    targetValueKw: row.target_value_kw ?? undefined,
    deviationKw: row.deviation_kw ?? undefined,
    reason: row.reason ?? undefined,
    ackedAt: instantOf(row.acked_at_ms),
    dispatchedAt: instantOf(row.dispatched_at_ms),
    startedAt: instantOf(row.started_at_ms),
    finishedAt: instantOf(row.finished_at_ms),
  });
}

function instantOf(epochMs: number | null): string | undefined {
  return epochMs === null ? undefined : formatInstant(epochMs);
}
