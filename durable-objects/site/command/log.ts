/**
 * The command log for REST (spec: Command-log page; [C-4.3]), and how a payload is stored in it and shown. A rejected
 * payload may be any text up to 256 KiB, and a partner may send many: a long one is stored as its beginning, its length
 * and a digest.
 */
import type { CommandLogPage } from '../../../protocol/command-log.ts';
import { isDeeperThan } from '../../../protocol/compact-json.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { JsonText, jsonArray, jsonObject } from '../../../protocol/json-text.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { Asker } from '../../ask-rpc.ts';
import { sha256Hex } from '../../secrets/hmac.ts';
import { organizationFor, partnersSeen, seesAll } from '../sight.ts';
import type { CommandRow, CommandRows } from './rows.ts';

/** How the source of a person's command begins, followed by the id of the user. */
const PERSON = 'user:';

/** `atMs`: only the commands that were recorded at this time or before. */
export function readCommands(
  commands: CommandRows,
  siteId: string,
  {
    page,
    pageSize,
    asker,
    atMs,
  }: { page: number; pageSize: number; asker: Asker; atMs?: number | undefined },
): CommandLogPage {
  const { rows, total } = commands.log.read(page, pageSize, partnersSeen(asker), atMs);
  return { items: logEntries(siteId, rows, asker).text, total };
}

/** Formats the rows of one page, which the asker may see: JSON of `CommandLogEntry[]`. */
export function logEntries(siteId: string, rows: readonly CommandRow[], asker: Asker): JsonText {
  const payloads = new PagePayloads();
  return jsonArray(rows.map((row) => logEntry(siteId, asShown(row, asker), payloads)));
}

/** Formats one row alone, as `asShown` returns it. */
export function logEntryOf(siteId: string, shown: CommandRow): JsonText {
  return logEntry(siteId, shown, new PagePayloads());
}

/** A row with what this asker reads of it: who sent it, and what it says about other commands [C-15.1]. */
export function asShown(row: CommandRow, asker: Asker): CommandRow {
  const isNameless = asker !== 'member' && row.key_id === '' && row.source.startsWith(PERSON);
  const source = isNameless ? organizationFor(asker) : row.source;
  if (!seesAll(asker)) return { ...row, source };
  return {
    ...row,
    source,
    reason: row.full_reason ?? row.reason,
    decision: row.full_decision ?? row.decision,
  };
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

/** The stored form of a rejected command's payload. The same text always gives the same stored form. */
export function rejectedPayload(compactText: string): string {
  return compactText.length <= LIMIT.rejectedPayloadCharacters ? compactText : cut(compactText);
}

/**
 * The payloads of one page. A payload is shown only with its beginning if it is nested too deeply, or if it and
 * the payloads before it exceed the page's maximum size.
 */
class PagePayloads {
  #chars = 0;

  read(text: string): JsonText {
    this.#chars += text.length;
    const isShown = this.#chars <= LIMIT.commandsPageCharacters && !isDeeperThan(text, LIMIT.envelopeDepth);
    return new JsonText(isShown ? text : cut(text));
  }
}

/** Length of a cut text: even escaped and in UTF-8 it stays within the limit for a rejected payload. */
const KEPT_CHARACTERS = 1_024;

function cut(text: string): string {
  const truncated = text.slice(0, KEPT_CHARACTERS);
  return JSON.stringify({ truncated, characters: text.length, sha256: sha256Hex(text) });
}
