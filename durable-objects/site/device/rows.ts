/** What a site stores of a device: the row of the device itself, and the columns of all tables, for a move. */
import type { DeviceReportedStatus, DeviceType } from '../../../protocol/enums.ts';
import type { Sql, SqlRow } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { DevicePack } from '../../rpc.ts';

export type DeviceRow = {
  id: string;
  type: DeviceType;
  status: 'ACTIVE' | 'SUSPENDED' | 'DECOMMISSIONED';
  /** The version of the secret that the device last signed with. */
  last_key_version: number | null;
  status_at_ms: number;
  suspend_reason: string | null;
  /** The object that the device is moving to. */
  leaving: string | null;
  reported_status: DeviceReportedStatus | null;
  epoch: number;
  connection_id: string | null;
  bridge_id: string | null;
  bridge_boot: string | null;
  connected_at_ms: number | null;
  disconnected_at_ms: number | null;
  session_expires_at_ms: number | null;
  /** When the session's token was issued; null for a certificate. */
  session_issued_at_ms: number | null;
  /** The version of the secret that verified the last message of the session; null before the first one. */
  session_key_version: number | null;
  /** Tokens that were issued earlier are refused [C-14.5]. */
  tokens_not_before_ms: number;
  /**
   * The value that replaces `tokens_not_before_ms` at `next_tokens_from_ms`, the end of the grace period
   * after a rotation of the secret.
   */
  next_tokens_not_before_ms: number | null;
  next_tokens_from_ms: number | null;
};

/** Tokens of the device that were issued before this time are refused at `now`. */
export function tokensNotBeforeMs(device: DeviceRow, now: number): number {
  const {
    tokens_not_before_ms: present,
    next_tokens_not_before_ms: next,
    next_tokens_from_ms: from,
  } = device;
  return next !== null && from !== null && from <= now ? next : present;
}

/** Session columns are not included: the session ends with the move, and epochs belong to one object. */
const COLUMNS = {
  device:
    'id, type, status, reported_status, last_key_version, status_at_ms, suspend_reason, connected_at_ms, disconnected_at_ms, tokens_not_before_ms, next_tokens_not_before_ms, next_tokens_from_ms',
  device_secret: 'device_id, version, sealed, form, valid_until_ms',
  dropped_message: 'device_id, reason, count, last_at_ms',
  recent_drop: 'device_id, slot, sequence, at_ms, topic, reason, detail, expected',
  recent_connect: 'device_id, slot, sequence, at_ms, address, outcome, reason',
  takeover: 'device_id, data',
  failed_login: 'device_id, slot, sequence, at_ms, address',
  rest_command: 'cmd_id, device_id, action, status, reason, idempotency_key, digest, created_at_ms',
};

/** Per table, the values of each row in column order. */
type TableRows = NonNullable<DevicePack['tables']>;

/** A device's rows in all tables: a move transfers them, a deletion removes them. */
export class DeviceTables {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  read(deviceId: string): TableRows {
    const rows = Object.entries(COLUMNS).map(([name, columns]) => {
      const order = name === 'rest_command' ? ' ORDER BY sequence' : '';
      const query = `SELECT ${columns} FROM ${name} WHERE ${idOf(name)} = ?${order}` as const;
      return [name, this.#sql.all<SqlRow>(query, deviceId).map((row) => Object.values(row))];
    });
    return Object.fromEntries(rows);
  }

  /** Columns that the sending object did not know get their defaults: new columns are last. */
  write(turn: Turn, tables: TableRows): void {
    for (const [name, columns] of Object.entries(COLUMNS)) {
      for (const values of tables[name] ?? []) {
        const known = columns.split(', ').slice(0, values.length).join(', ');
        const marks = values.map(() => '?').join(', ');
        turn.write(`INSERT INTO ${name} (${known}) VALUES (${marks})`, ...values);
      }
    }
  }

  remove(turn: Turn, deviceId: string): void {
    for (const name of Object.keys(COLUMNS))
      turn.write(`DELETE FROM ${name} WHERE ${idOf(name)} = ?`, deviceId);
  }
}

function idOf(table: string): 'id' | 'device_id' {
  return table === 'device' ? 'id' : 'device_id';
}
