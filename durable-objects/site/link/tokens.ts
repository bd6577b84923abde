/**
 * New tokens for devices [C-3.12]. The Site sends a connected device a new token at 80 % of its token's life,
 * and up to two others while it acknowledges none. Each is signed when it is sent, so no token is stored.
 * A device without a valid token requests one; it signs the request with its secret. A token does not prove
 * that its holder knows the secret, so the Site sends a new token only in a session in which a message's
 * signature was verified, and the token expires no later than the secret that verified the message [C-14.5].
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import type { TokenRenewal } from '../../../protocol/device-record.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { renewalSigningString } from '../../../protocol/signing.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import type { Clock } from '../../object/clock.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import { signDeviceToken } from '../../secrets/device-tokens.ts';
import { verifyHmac } from '../../secrets/hmac.ts';
import type { Devices } from '../device/devices.ts';
import type { Diagnostics } from '../device/diagnostics.ts';
import type { DeviceRow } from '../device/rows.ts';
import type { DeviceSecrets } from '../device/secrets.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import type { DeviceAck } from '../dispatch/dispatches.ts';
import type { CommandSender } from '../dispatch/sender.ts';
import { statusRow } from '../event/event-rows.ts';
import type { Outbox } from '../event/outbox.ts';
import type { Journal } from '../telemetry/journal.ts';
import type { MovedNonces } from '../telemetry/replay.ts';
import { type Explanation, explainNonce, explainTimestamp } from './explain.ts';

const REFRESH_AT = 0.8;
/** Maximum number of new tokens that are sent in a session, spread over the rest of the old token's life. */
const TRIES = 3;
/** The topic that the diagnostics show for a token request, which has none. */
const WHERE = 'mqtt-token/renew';
/**
 * A request with a wrong signature is not stored if the newest drop in the diagnostics is another one, younger
 * than this, because anybody can send such requests.
 */
const UNVERIFIED_MS = 60_000;

export interface DeviceTokensHost {
  clock: Pick<Clock, 'now'>;
  turns: Turns;
  devices: Devices;
  secrets: DeviceSecrets;
  sessions: DeviceSessions;
  diagnostics: Diagnostics;
  journal: Journal;
  movedNonces: MovedNonces;
  sender: CommandSender;
  outbox: Outbox;
  tokenKeys: string;
  /** Keeps the object awake while a token is signed. */
  keepAlive(work: Promise<void>): void;
}

export class DeviceTokens implements DueSource {
  readonly name = 'tokens';
  readonly #host: DeviceTokensHost;

  constructor(host: DeviceTokensHost) {
    this.#host = host;
  }

  dueMs(): number | undefined {
    const now = this.#host.clock.now();
    return earliest(this.#host.devices.all().map((device) => this.#dueMs(device, now)));
  }

  run(turn: Turn): void {
    for (const device of this.#host.devices.all()) {
      const dueMs = this.#dueMs(device, turn.now);
      if (dueMs !== undefined && dueMs <= turn.now) this.#refresh(turn, device);
    }
  }

  /** Returns whether the ack answers a new token. After FAILED the device is sent another one, if a try is left. */
  noteAck({ deviceId, cmdId, status }: DeviceAck): boolean {
    const { sessions } = this.#host;
    const refresh = sessions.refreshOf(deviceId);
    if (refresh?.cmdId !== cmdId) return false;
    const taken = status !== 'FAILED';
    if (refresh.taken !== taken) sessions.setRefresh(deviceId, { ...refresh, taken });
    return true;
  }

  /**
   * When the next token for a device is due; undefined if a token is due but the device is not subscribed and
   * must subscribe first.
   */
  #dueMs(device: DeviceRow, now: number): number | undefined {
    const dueMs = this.#refreshAtMs(device);
    if (dueMs === undefined || dueMs > now) return dueMs;
    return this.#host.sessions.isLive(device.id, now) ? dueMs : undefined;
  }

  #refreshAtMs(device: DeviceRow): number | undefined {
    const { id, session_issued_at_ms: issuedAtMs, session_expires_at_ms: expiresAtMs } = device;
    if (issuedAtMs === null || expiresAtMs === null || device.session_key_version === null) return undefined;
    const secretEndsAtMs = this.#host.secrets.expiryMs(id, device.session_key_version);
    if (secretEndsAtMs !== undefined && secretEndsAtMs <= expiresAtMs) return undefined;
    const { tries = 0, taken = false } = this.#host.sessions.refreshOf(id) ?? {};
    if (taken || tries >= TRIES) return undefined;
    const lifeMs = expiresAtMs - issuedAtMs;
    return issuedAtMs + REFRESH_AT * lifeMs + (tries * (1 - REFRESH_AT) * lifeMs) / TRIES;
  }

  #refresh(turn: Turn, device: DeviceRow): void {
    const { sessions, secrets, outbox, tokenKeys, keepAlive } = this.#host;
    const { session_issued_at_ms: issuedAtMs, session_expires_at_ms: expiresAtMs } = device;
    const secretEndsAtMs = secrets.expiryMs(device.id, device.session_key_version ?? 0);
    const lifeMs = (expiresAtMs ?? 0) - (issuedAtMs ?? 0);
    const lifetimeSeconds = Math.min(Math.round(lifeMs / 1_000), secondsUntil(secretEndsAtMs, turn.now));
    const cmdId = crypto.randomUUID();
    const tries = (sessions.refreshOf(device.id)?.tries ?? 0) + 1;
    const columns = { tokenExpiresAtMs: (Math.floor(turn.now / 1_000) + lifetimeSeconds) * 1_000 };
    outbox.emit(turn, statusRow('device', device.id, columns, turn.now));
    turn.remember(() => sessions.setRefresh(device.id, { tries, cmdId }));
    const signed = () => signDeviceToken(tokenKeys, device.id, lifetimeSeconds, turn.now);
    turn.send(() => keepAlive(this.#send(device, cmdId, signed())));
  }

  /** Signs a token and sends it. After a failure the next try sends another one, if a try is left. */
  async #send(
    { id, epoch }: DeviceRow,
    cmdId: string,
    signed: ReturnType<typeof signDeviceToken>,
  ): Promise<void> {
    const { devices, sender } = this.#host;
    try {
      const { token, expiresAtMs } = await signed;
      const payloadText = signableJson({ token, expiresAt: formatInstant(expiresAtMs) });
      const device = devices.find(id);
      // The device has reconnected, or may no longer connect.
      if (device?.status !== 'ACTIVE' || device.epoch !== epoch) return;
      sender.send(id, { cmdId, action: 'TOKEN_REFRESH', payloadText });
    } catch (error) {
      console.error('new token not sent to a device, another try follows if one is left', {
        deviceId: id,
        reason: reasonOf(error),
      });
    }
  }

  /**
   * Returns how long a new token may be valid, in seconds; undefined if the request is not valid. A valid
   * request is accepted once. Rejected requests of ACTIVE devices appear in the diagnostics, except as
   * UNVERIFIED_MS says.
   */
  verifyRenewal(deviceId: string, renewal: TokenRenewal): number | 'full' | undefined {
    const { devices, secrets, journal, clock, turns, movedNonces, diagnostics } = this.#host;
    const device = devices.find(deviceId);
    if (device?.status !== 'ACTIVE') return undefined;
    const now = clock.now();
    const { ts, nonce, sig } = renewal;
    const signed = renewalSigningString(deviceId, ts, nonce);
    const key = [...secrets.keys(device, now)].find((one) => verifyHmac(one.key, signed, sig));
    const drop = (reason: string, { detail, expected }: Explanation) =>
      turns.run((turn) => {
        diagnostics.countDropped(turn, deviceId, reason, 1);
        diagnostics.addDrop(turn, deviceId, { topic: WHERE, reason, detail, expected: expected ?? null });
        return undefined;
      });
    if (!key) {
      const [last] = diagnostics.drops(deviceId);
      const isRecent =
        last?.topic === WHERE && last.reason === 'SIGNATURE' && now - last.at_ms < UNVERIFIED_MS;
      if (isRecent) return undefined;
      const detail = 'sig is not the HMAC-SHA256 of what should have been signed';
      return drop('SIGNATURE', { detail, expected: signed });
    }
    if (Math.abs(now - ts) > LIMIT.timestampToleranceMs) return drop('TIMESTAMP', explainTimestamp(ts, now));
    const use = { deviceId, nonce, digest: sig.slice(0, 16), ts, receivedMs: now };
    // Unlike a repeated message, a repeated request is rejected, because it would get a second token.
    if (journal.replay.judge(use) !== 'new') return drop('NONCE', explainNonce(nonce));
    // Only the holder of a good secret learns it.
    if (journal.replay.isFull(now)) return 'full';
    turns.run((turn) => {
      movedNonces.add(turn, [use]);
      devices.setLastKey(turn, device, key);
      turn.remember(() => journal.replay.remember(use));
    });
    return Math.min(LIMIT.mqttTokenSeconds, secondsUntil(secrets.expiryMs(deviceId, key.version), now));
  }
}

/** Whole seconds; without a time there is no limit. */
function secondsUntil(timeMs: number | undefined, now: number): number {
  return timeMs === undefined ? Number.POSITIVE_INFINITY : Math.floor((timeMs - now) / 1_000);
}
