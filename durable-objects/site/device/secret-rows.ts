/** The device secrets: the newest of each device and, during its grace period, the previous one. */
import type { Sql } from '../../object/sql.ts';
import type { Turn } from '../../object/turn.ts';

export type SecretForm = 'text' | 'bytes';

export type SecretRow = {
  device_id: string;
  version: number;
  sealed: string;
  form: SecretForm | null;
  valid_until_ms: number | null;
};

export class SecretRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  all(): SecretRow[] {
    return this.#sql.all<SecretRow>('SELECT * FROM device_secret ORDER BY device_id, version DESC');
  }

  insert(turn: Turn, { device_id, version, sealed, form, valid_until_ms }: SecretRow): void {
    turn.write(
      'INSERT INTO device_secret (device_id, version, sealed, form, valid_until_ms) VALUES (?, ?, ?, ?, ?)',
      device_id,
      version,
      sealed,
      form,
      valid_until_ms,
    );
  }

  setForm(turn: Turn, deviceId: string, version: number, form: SecretForm): void {
    turn.write(
      'UPDATE device_secret SET form = ? WHERE device_id = ? AND version = ?',
      form,
      deviceId,
      version,
    );
  }

  setEnd(turn: Turn, deviceId: string, version: number, validUntilMs: number): void {
    turn.write(
      'UPDATE device_secret SET valid_until_ms = ? WHERE device_id = ? AND version = ?',
      validUntilMs,
      deviceId,
      version,
    );
  }

  remove(turn: Turn, deviceId: string, version: number): void {
    turn.write('DELETE FROM device_secret WHERE device_id = ? AND version = ?', deviceId, version);
  }
}
