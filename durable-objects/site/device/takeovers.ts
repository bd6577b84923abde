/**
 * Logins that take the place of a live session of the same device [C-3.6]: several within a few minutes mean that two
 * programs use its identity. One row per device, because each login writes it.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { AuditEntry } from '../../../registry/entries.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import type { DeviceDial } from '../../dial.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import { auditRow } from '../event/event-rows.ts';
import type { Outbox } from '../event/outbox.ts';

const MINUTES = LIMIT.takeoverWindowMs / 60_000;
const MOST_ADDRESSES = 5;

/** `address`: where the new login came from; `from`: where the session was whose place it took. */
interface Takeover {
  atMs: number;
  address: string;
  from: string;
}

interface Takeovers {
  /** Oldest first. */
  recent: Takeover[];
  reportedAtMs: number | null;
}

interface TakeoversHost {
  sql: Sql;
  outbox: Outbox;
  registry: PlantCopy;
}

export class SessionTakeovers {
  readonly #host: TakeoversHost;

  constructor(host: TakeoversHost) {
    this.#host = host;
  }

  /** A login took the place of a live session. `from`: where that session was. Several are audited, at most once an hour. */
  note(turn: Turn, { deviceId, address, organizationId }: DeviceDial, from: string): void {
    const before = this.#read(deviceId);
    const recent = [...within(before.recent, turn.now), { atMs: turn.now, address, from }].slice(
      -LIMIT.diagnosticsEntries,
    );
    const isDue =
      recent.length >= LIMIT.takeoversReported &&
      (before.reportedAtMs === null || turn.now - before.reportedAtMs >= LIMIT.takeoverAuditMs);
    const after: Takeovers = { recent, reportedAtMs: isDue ? turn.now : before.reportedAtMs };
    turn.replace('takeover', { device_id: deviceId, data: JSON.stringify(after) });
    const { outbox, registry } = this.#host;
    const ownerId = organizationId ?? registry.record?.organizationId;
    if (!isDue || ownerId === undefined) return;
    const entry: AuditEntry = {
      organizationId: ownerId,
      event: 'device.session_taken_over',
      actor: { type: 'SYSTEM', id: 'sessions', name: 'sessions' },
      target: { type: 'DEVICE', id: deviceId },
      address,
      outcome: 'FAILURE',
      details: { takeovers: recent.length, minutes: MINUTES, addresses: addressesOf(recent) },
    };
    outbox.emit(turn, auditRow(`${entry.event}|${deviceId}|${turn.now}`, entry, turn.now));
  }

  hints(deviceId: string, now: number): string[] {
    const recent = within(this.#read(deviceId).recent, now);
    if (recent.length < LIMIT.takeoversReported) return [];
    const from = addressesOf(recent).join(' and ');
    return [
      `Two programs use the identity of this device and take each other's place: in the last ${MINUTES} minutes ${recent.length} logins ended a session that was open, from ${from}. Stop one of them, or register a device of its own for it.`,
    ];
  }

  #read(deviceId: string): Takeovers {
    const row = this.#host.sql.one<{ data: string }>(
      'SELECT data FROM takeover WHERE device_id = ?',
      deviceId,
    );
    return row ? (JSON.parse(row.data) as Takeovers) : { recent: [], reportedAtMs: null };
  }
}

function within(recent: readonly Takeover[], now: number): Takeover[] {
  return recent.filter(({ atMs }) => atMs > now - LIMIT.takeoverWindowMs);
}

/** Newest first. */
function addressesOf(recent: readonly Takeover[]): string[] {
  const all = recent.toReversed().flatMap(({ address, from }) => [address, from].filter((one) => one !== ''));
  return [...new Set(all)].slice(0, MOST_ADDRESSES);
}
