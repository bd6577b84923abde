/**
 * Device secrets in their versions, opened once a wake: the keys that a device may sign with, in the two forms that it
 * may use [C-3.7]. A rotation leaves the one of before good for a while; the agenda takes it away then.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { Turn } from '../../object/turn.ts';
import { hexBytes } from '../../secrets/hmac.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';
import type { DeviceRow } from './rows.ts';
import type { SecretForm, SecretRow, SecretRows } from './secret-rows.ts';

/** One way in which a device may sign. */
export interface SigningKey {
  version: number;
  form: SecretForm;
  key: string | Uint8Array;
}

interface OpenedSecret {
  /** 64 hex characters. */
  text: string;
  /** The 32 bytes that they spell. */
  bytes: Uint8Array;
}

export class DeviceSecrets implements DueSource {
  readonly name = 'secrets';
  readonly #box: SecretBox;
  readonly #rows: SecretRows;
  readonly #opened = new Map<string, OpenedSecret>();
  #secrets: readonly SecretRow[];

  constructor(rows: SecretRows, box: SecretBox) {
    this.#rows = rows;
    this.#box = box;
    this.#secrets = rows.all();
  }

  /** Of one device, the newest first. */
  of(deviceId: string): SecretRow[] {
    return this.#secrets.filter((secret) => secret.device_id === deviceId);
  }

  /** What a device may sign with at that moment, what it signed with last first. Throws when one cannot be opened. */
  *keys(device: Pick<DeviceRow, 'id' | 'proved_version'>, now: number): Generator<SigningKey> {
    for (const secret of this.#good(device, now)) {
      const opened = this.#open(secret);
      const { version } = secret;
      const form = secret.form ?? 'text';
      const other = form === 'text' ? 'bytes' : 'text';
      yield { version, form, key: opened[form] };
      yield { version, form: other, key: opened[other] };
    }
  }

  /** The key that commands to the device are signed with: what it last proved while that is good, else the newest. */
  commandKey(device: Pick<DeviceRow, 'id' | 'proved_version'>, now: number): string | Uint8Array | undefined {
    const [first] = this.keys(device, now);
    return first?.key;
  }

  /** A secret of that version, as the only one. Nothing, where one as new as it is there. */
  replace(turn: Turn, deviceId: string, hmacSecret: string, version: number): boolean {
    const known = this.of(deviceId);
    if (known.some((secret) => secret.version >= version)) return false;
    for (const secret of known) this.#rows.remove(turn, deviceId, secret.version);
    this.#add(turn, { deviceId, hmacSecret, version });
    return true;
  }

  /** A new secret beside the newest, which is good until then; an older one ends now [C-3.3]. */
  rotate(turn: Turn, deviceId: string, hmacSecret: string): { version: number; graceUntilMs: number } {
    const [newest, ...older] = this.of(deviceId);
    const graceUntilMs = turn.now + LIMIT.secretGraceMs;
    for (const secret of older) this.#rows.remove(turn, deviceId, secret.version);
    if (newest) this.#rows.setEnd(turn, deviceId, newest.version, graceUntilMs);
    const version = Math.max(turn.now, (newest?.version ?? 0) + 1);
    this.#add(turn, { deviceId, hmacSecret, version });
    return { version, graceUntilMs };
  }

  setForm(turn: Turn, deviceId: string, { version, form }: Pick<SigningKey, 'version' | 'form'>): void {
    const known = this.of(deviceId).find((secret) => secret.version === version);
    if (!known || known.form === form) return;
    this.#rows.setForm(turn, deviceId, version, form);
    this.changed(turn);
  }

  /** Nothing of them is left. */
  destroy(turn: Turn, deviceId: string): void {
    for (const { version } of this.of(deviceId)) this.#rows.remove(turn, deviceId, version);
    this.changed(turn);
  }

  /** For the rest of the turn they are as they were just written. */
  changed(turn: Turn): void {
    const before = this.#secrets;
    turn.undo(() => {
      this.#secrets = before;
      this.#opened.clear();
    });
    this.#secrets = this.#rows.all();
    this.#opened.clear();
  }

  dueMs(): number | undefined {
    return earliest(this.#secrets.map((secret) => secret.valid_until_ms));
  }

  run(turn: Turn): void {
    for (const { device_id: deviceId, version, valid_until_ms: untilMs } of this.#secrets) {
      if (untilMs !== null && untilMs <= turn.now) this.#rows.remove(turn, deviceId, version);
    }
    this.changed(turn);
  }

  #good({ id, proved_version }: Pick<DeviceRow, 'id' | 'proved_version'>, now: number): SecretRow[] {
    const good = this.of(id).filter(({ valid_until_ms: untilMs }) => untilMs === null || now < untilMs);
    const isProved = ({ version }: SecretRow) => version === proved_version;
    return [...good.filter(isProved), ...good.filter((secret) => !isProved(secret))];
  }

  #add(
    turn: Turn,
    { deviceId, hmacSecret, version }: { deviceId: string; hmacSecret: string; version: number },
  ): void {
    this.#rows.insert(turn, {
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

function purpose(deviceId: string): string {
  return `device:${deviceId}`;
}
