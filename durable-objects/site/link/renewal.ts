/** A device without a valid token requests one, signed with its secret [C-3.12]. */
import type { TokenRenewal } from '../../../protocol/device-record.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { renewalSigningString } from '../../../protocol/signing.ts';
import type { Clock } from '../../object/clock.ts';
import type { Turns } from '../../object/turn.ts';
import { verifyHmac } from '../../secrets/hmac.ts';
import type { Devices } from '../device/devices.ts';
import type { DiagnosticsRows } from '../device/diagnostics-rows.ts';
import type { DeviceSecrets } from '../device/secrets.ts';
import type { Journal } from '../telemetry/journal.ts';
import type { MovedNonces } from '../telemetry/moved-nonces.ts';
import { type Explanation, explainNonce, explainTimestamp } from './explain.ts';

/** Stands for the topic in the diagnostics. */
const WHERE = 'mqtt-token/renew';
/** Anybody can send requests with a wrong signature: one per this time is stored in the diagnostics. */
const UNVERIFIED_MS = 60_000;

export interface RenewalHost {
  clock: Pick<Clock, 'now'>;
  turns: Turns;
  devices: Devices;
  secrets: DeviceSecrets;
  diagnostics: DiagnosticsRows;
  journal: Journal;
  movedNonces: MovedNonces;
}

/** Whether the request is valid; a valid request is accepted once. Rejected requests appear in the diagnostics. */
export function verifyRenewal(host: RenewalHost, deviceId: string, renewal: TokenRenewal): boolean {
  const { devices, secrets, journal, clock, turns, movedNonces, diagnostics } = host;
  const device = devices.find(deviceId);
  if (device?.status !== 'ACTIVE') return false;
  const now = clock.now();
  const { ts, nonce, sig } = renewal;
  const signed = renewalSigningString(deviceId, ts, nonce);
  const key = [...secrets.keys(device, now)].find((one) => verifyHmac(one.key, signed, sig));
  const drop = (reason: string, { detail, expected }: Explanation) =>
    turns.run((turn) => {
      diagnostics.countDropped(turn, deviceId, reason, 1);
      diagnostics.addDrop(turn, deviceId, { topic: WHERE, reason, detail, expected: expected ?? null });
      return false;
    });
  if (!key) {
    const [last] = diagnostics.drops(deviceId);
    const isRecent = last?.topic === WHERE && last.reason === 'SIGNATURE' && now - last.at_ms < UNVERIFIED_MS;
    if (isRecent) return false;
    const detail = 'sig is not the HMAC-SHA256 of what should have been signed';
    return drop('SIGNATURE', { detail, expected: signed });
  }
  if (Math.abs(now - ts) > LIMIT.timestampToleranceMs) return drop('TIMESTAMP', explainTimestamp(ts, now));
  const use = { deviceId, nonce, digest: sig.slice(0, 16), ts, receivedMs: now };
  // A repeated request is rejected, too: it would get another token.
  if (journal.replay.judge(use) !== 'new' || journal.replay.isFull(now))
    return drop('NONCE', explainNonce(nonce));
  turns.run((turn) => {
    movedNonces.add(turn, [use]);
    devices.setLastKey(turn, device, key);
    turn.remember(() => journal.replay.remember(use));
  });
  return true;
}
