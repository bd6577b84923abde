/** A device's rows in all tables: a move transfers them, a deletion removes them. */
import type { Sql, SqlRow } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';
import type { DevicePack } from '../../rpc.ts';

/** Session columns are not included: the session ends with the move, and epochs belong to one object. */
const TABLES = {
  device: {
    id: 'id',
    columns: [
      'id',
      'type',
      'status',
      'reported_status',
      'last_key_version',
      'status_at_ms',
      'suspend_reason',
      'connected_at_ms',
      'disconnected_at_ms',
    ],
  },
  device_secret: {
    id: 'device_id',
    columns: ['device_id', 'version', 'sealed', 'form', 'valid_until_ms'],
  },
  dropped_message: { id: 'device_id', columns: ['device_id', 'reason', 'count', 'last_at_ms'] },
  recent_drop: {
    id: 'device_id',
    columns: ['device_id', 'slot', 'sequence', 'at_ms', 'topic', 'reason', 'detail', 'expected'],
  },
  recent_connect: {
    id: 'device_id',
    columns: ['device_id', 'slot', 'sequence', 'at_ms', 'address', 'outcome', 'reason'],
  },
  failed_login: { id: 'device_id', columns: ['device_id', 'slot', 'sequence', 'at_ms', 'address'] },
  rest_command: {
    id: 'device_id',
    columns: [
      'cmd_id',
      'device_id',
      'action',
      'status',
      'reason',
      'idempotency_key',
      'digest',
      'created_at_ms',
    ],
  },
} as const;

/** Per table, the values of each row in column order. */
type TableRows = DevicePack['tables'];

const NAMES = Object.keys(TABLES) as (keyof typeof TABLES)[];

export class DeviceTables {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  read(deviceId: string): TableRows {
    const rows = NAMES.map((name) => {
      const { id, columns } = TABLES[name];
      const found = this.#sql.all<SqlRow>(
        `SELECT ${columns.join(', ')} FROM ${name} WHERE ${id} = ?${name === 'rest_command' ? ' ORDER BY sequence' : ''}`,
        deviceId,
      );
      return [name, found.map((row) => columns.map((column) => row[column] as string | number | null))];
    });
    return Object.fromEntries(rows);
  }

  /** Columns that the sending object did not know get their defaults: new columns are last. */
  write(turn: Turn, tables: TableRows): void {
    for (const name of NAMES) {
      const { columns } = TABLES[name];
      for (const values of tables[name] ?? []) {
        const known = columns.slice(0, values.length);
        const marks = known.map(() => '?').join(', ');
        turn.write(`INSERT INTO ${name} (${known.join(', ')}) VALUES (${marks})`, ...values);
      }
    }
  }

  remove(turn: Turn, deviceId: string): void {
    for (const name of NAMES) turn.write(`DELETE FROM ${name} WHERE ${TABLES[name].id} = ?`, deviceId);
  }
}
