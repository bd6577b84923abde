/** What REST reads of a site: the command log and the configuration snapshot (spec: Resources; [C-4.3]). */
import type { SiteConfig } from '../../protocol/config.ts';
import { formatInstant } from '../../protocol/ids.ts';
import type { CommandRow } from './schema.ts';
import type { SiteState } from './state.ts';

export interface CommandPage {
  items: Record<string, unknown>[];
  total: number;
}

export interface ConfigSnapshot extends Pick<SiteConfig, 'constraints' | 'fallback'> {
  siteId: string;
  operatingMode: string;
  modeOverride: Record<string, unknown> | null;
  activeSchedule: null;
  pendingCommands: Record<string, unknown>[];
}

const MAX_PENDING_COMMANDS = 100;

export function readConfig(state: SiteState, siteId: string, now: number): ConfigSnapshot {
  const override = state.activeOverride(now);
  return {
    siteId,
    constraints: state.config.constraints,
    fallback: state.config.fallback,
    operatingMode: state.config.operatingMode,
    modeOverride: override && { ...override },
    activeSchedule: null,
    pendingCommands: state.storage.openCommands(MAX_PENDING_COMMANDS).map((row) => logEntry(siteId, row)),
  };
}

export function readCommands(state: SiteState, siteId: string, page: number, pageSize: number): CommandPage {
  return {
    items: state.storage.commandPage(page, pageSize).map((row) => logEntry(siteId, row)),
    total: state.storage.commandTotal(),
  };
}

/** A command-log row; optional fields are left out while they have no value. */
function logEntry(siteId: string, row: CommandRow): Record<string, unknown> {
  const entry: Record<string, unknown> = {
    id: row.id,
    messageId: row.message_id,
    correlationId: row.correlation_id,
    siteId,
    commandType: row.command_type,
    routingKey: row.routing_key,
    status: row.status,
    target: row.target,
    payload: JSON.parse(row.payload),
    source: row.source,
    keyPrefix: row.key_prefix,
    createdAt: formatInstant(row.created_at_ms),
  };
  const optional: Record<string, unknown> = {
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
  for (const [name, value] of Object.entries(optional)) if (value !== null) entry[name] = value;
  return entry;
}

function instantOf(epochMs: number | null): string | null {
  return epochMs === null ? null : formatInstant(epochMs);
}
