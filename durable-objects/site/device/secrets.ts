/**
 * Device secrets by version, decrypted on first use and kept until a secret of the site changes: the keys that
 * a device may sign with, in the two forms that it may use [C-3.7]. After a rotation the previous secret stays
 * valid for a grace period; the agenda then deletes it.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { Sql } from '../../object/sql.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import { hexBytes } from '../../secrets/hmac.ts';
import { countOfVersions, type SecretBox } from '../../secrets/secret-box.ts';
import type { DeviceRow } from './rows.ts';

type SecretForm = 'text' | 'bytes';

type SecretRow = {
  device_id: string;
  version: number;
  sealed: string;
  form: SecretForm | null;
  valid_until_ms: number | null;
};

/** A key that a device may sign with. */
export interface SigningKey {
  version: number;
  form: SecretForm;
  key: string | Uint8Array;
}

interface OpenedSecret {
  /** 64 hex characters. */
  text: string;
  /** The 32 bytes that the hex text encodes. */
  bytes: Uint8Array;
}

export class DeviceSecrets implements DueSource {
  readonly name = 'secrets';
  readonly #box: SecretBox;
  readonly #sql: Sql;
  readonly #opened = new Map<string, OpenedSecret>();
  #secrets: readonly SecretRow[] = [];
  /** Whether an older data key sealed at least one of the secrets. */
  #mustSealAgain = false;

  constructor(sql: Sql, box: SecretBox) {
    this.#sql = sql;
    this.#box = box;
    this.#use(this.#read());
  }

  /** The secrets of one device, newest first. */
  of(deviceId: string): SecretRow[] {
    return this.#secrets.filter((secret) => secret.device_id === deviceId);
  }

  /**
   * The keys that a device may sign with at `now`, the last used one first. Throws if a secret cannot be
   * decrypted.
   */
  *keys(device: Pick<DeviceRow, 'id' | 'last_key_version'>, now: number): Generator<SigningKey> {
    for (const secret of this.#good(device, now)) {
      const opened = this.#open(secret);
      const { version } = secret;
      const form = secret.form ?? 'text';
      const other = form === 'text' ? 'bytes' : 'text';
      yield { version, form, key: opened[form] };
      yield { version, form: other, key: opened[other] };
    }
  }

  /**
   * The key for signing commands to the device: the one that the device last used if still valid, else the
   * newest.
   */
  commandKey(
    device: Pick<DeviceRow, 'id' | 'last_key_version'>,
    now: number,
  ): string | Uint8Array | undefined {
    return this.commandKeyOf(device, now)?.key;
  }

  /** The same, with its version and form. */
  commandKeyOf(device: Pick<DeviceRow, 'id' | 'last_key_version'>, now: number): SigningKey | undefined {
    const [first] = this.keys(device, now);
    return first;
  }

  /**
   * Replaces all secrets of the device. Returns false, and changes nothing, if one has the same or a newer
   * version.
   */
  replace(turn: Turn, deviceId: string, hmacSecret: string, version: number): boolean {
    const known = this.of(deviceId);
    if (known.some((secret) => secret.version >= version)) return false;
    for (const { version: old } of known) remove(turn, deviceId, old);
    this.#add(turn, { deviceId, hmacSecret, version });
    return true;
  }

  /**
   * Adds a secret. The previous one is valid until `graceUntilMs`. Any older one is deleted now, except the one that the
   * device used last: its grace goes on, because the device may never have received the one in between [C-3.3].
   * `endOthers`: all older secrets are deleted now. Returns until when the secret that the device used last is valid.
   */
  rotate(
    turn: Turn,
    { id: deviceId, last_key_version: lastUsed }: Pick<DeviceRow, 'id' | 'last_key_version'>,
    hmacSecret: string,
    endOthers = false,
  ): { version: number; graceUntilMs: number; lastUsedUntilMs: number } {
    const [newest, ...older] = this.of(deviceId);
    const graceUntilMs = turn.now + LIMIT.secretGraceMs;
    const kept = older.find(({ version }) => version === lastUsed);
    for (const secret of older) if (secret !== kept || endOthers) remove(turn, deviceId, secret.version);
    if (newest && endOthers) remove(turn, deviceId, newest.version);
    else if (newest) set(turn, newest, 'valid_until_ms', graceUntilMs);
    const version = Math.max(turn.now, (newest?.version ?? 0) + 1);
    this.#add(turn, { deviceId, hmacSecret, version });
    return { version, graceUntilMs, lastUsedUntilMs: kept?.valid_until_ms ?? graceUntilMs };
  }

  /** When this secret expires; undefined if it has no expiry or is no longer stored. */
  expiryMs(deviceId: string, version: number): number | undefined {
    return this.of(deviceId).find((secret) => secret.version === version)?.valid_until_ms ?? undefined;
  }

  setForm(turn: Turn, deviceId: string, { version, form }: Pick<SigningKey, 'version' | 'form'>): void {
    const known = this.of(deviceId).find((secret) => secret.version === version);
    if (!known || known.form === form) return;
    set(turn, known, 'form', form);
    this.changed(turn);
  }

  /** Deletes all secrets of the device. */
  destroy(turn: Turn, deviceId: string): void {
    for (const { version } of this.of(deviceId)) remove(turn, deviceId, version);
    this.changed(turn);
  }

  /** Reads the rows again after a write; a rollback restores the previous ones. */
  changed(turn: Turn): void {
    const before = this.#secrets;
    turn.undo(() => this.#use(before));
    this.#use(this.#read());
  }

  #use(secrets: readonly SecretRow[]): void {
    this.#secrets = secrets;
    this.#mustSealAgain = secrets.some(({ sealed }) => this.#box.isOld(sealed));
    this.#opened.clear();
  }

  #read(): SecretRow[] {
    return this.#sql.all<SecretRow>('SELECT * FROM device_secret ORDER BY device_id, version DESC');
  }

  /**
   * When the next secret expires; now if a secret was sealed by an older data key and must be sealed again
   * [C-14.7].
   */
  dueMs(): number | undefined {
    if (this.#mustSealAgain) return 0;
    return earliest(this.#secrets.map((secret) => secret.valid_until_ms));
  }

  run(turn: Turn): void {
    for (const secret of this.#secrets) {
      const { device_id: deviceId, version, valid_until_ms: untilMs, sealed } = secret;
      if (untilMs !== null && untilMs <= turn.now) remove(turn, deviceId, version);
      else if (this.#box.isOld(sealed))
        set(turn, secret, 'sealed', this.#box.seal(purpose(deviceId), this.#open(secret).text));
    }
    this.changed(turn);
  }

  /** Seals again what an older data key sealed. Returns how many secrets each version of the data keys seals. */
  sealedAgain(turns: Turns): Record<string, number> {
    if (this.#mustSealAgain) turns.run((turn) => this.run(turn));
    return countOfVersions(this.#secrets.map(({ sealed }) => sealed));
  }

  #good({ id, last_key_version }: Pick<DeviceRow, 'id' | 'last_key_version'>, now: number): SecretRow[] {
    const good = this.of(id).filter(({ valid_until_ms: untilMs }) => untilMs === null || now < untilMs);
    const isProved = ({ version }: SecretRow) => version === last_key_version;
    return [...good.filter(isProved), ...good.filter((secret) => !isProved(secret))];
  }

  #add(
    turn: Turn,
    { deviceId, hmacSecret, version }: { deviceId: string; hmacSecret: string; version: number },
  ): void {
    turn.insert('device_secret', {
      device_id: deviceId,
      version,
      sealed: this.#box.seal(purpose(deviceId), hmacSecret),
      form: null,
      valid_until_ms: null,
    });
    this.changed(turn);
  }

  #open({ device_id: deviceId, version, sealed }: SecretRow): OpenedSecret {
    const name = `${deviceId}|${version}`;
    const known = this.#opened.get(name);
    if (known) return known;
    const text = this.#box.open(purpose(deviceId), sealed);
    const opened = { text, bytes: hexBytes(text) };
    this.#opened.set(name, opened);
    return opened;
  }
}

export function isSameKey(one: SigningKey, other: SigningKey | undefined): boolean {
  return one.version === other?.version && one.form === other.form;
}

function set(
  turn: Turn,
  { device_id: deviceId, version }: SecretRow,
  column: 'form' | 'valid_until_ms' | 'sealed',
  value: string | number,
): void {
  turn.write(
    `UPDATE device_secret SET ${column} = ? WHERE device_id = ? AND version = ?`,
    value,
    deviceId,
    version,
  );
}

function remove(turn: Turn, deviceId: string, version: number): void {
  turn.write('DELETE FROM device_secret WHERE device_id = ? AND version = ?', deviceId, version);
}

function purpose(deviceId: string): string {
  return `device:${deviceId}`;
}
