/** A device that has no token left asks for one, by its secret alone [C-3.12]. */
import type { TokenRenewal } from '../../../protocol/device-record.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { renewalSigningString } from '../../../protocol/signing.ts';
import { verifyHmac } from '../../secrets/hmac.ts';
import type { SiteParts } from '../parts.ts';
import { type Explanation, explainNonce, explainTimestamp } from './explain.ts';

/** In the place of a topic. */
const WHERE = 'mqtt-token/renew';
/** Anybody may send one: of those that nobody proved so many are kept for who looks. */
const UNPROVED_MS = 60_000;

/** Whether the request holds; it does once. Why one does not is kept for who looks. */
export function proveRenewal(site: SiteParts, deviceId: string, renewal: TokenRenewal): boolean {
  const { devices, secrets, journal, clock, turns, carriedNonces } = site;
  const device = devices.find(deviceId);
  if (device?.status !== 'ACTIVE') return false;
  const now = clock.now();
  const { ts, nonce, sig } = renewal;
  const signed = renewalSigningString(deviceId, ts, nonce);
  const proved = [...secrets.keys(device, now)].find(({ key }) => verifyHmac(key, signed, sig));
  const drop = (reason: string, { detail, expected }: Explanation) =>
    turns.run((turn) => {
      site.diagnostics.countDropped(turn, deviceId, reason, 1);
      const dropped = { topic: WHERE, reason, detail, expected: expected ?? null };
      site.diagnostics.addDrop(turn, deviceId, dropped);
      return false;
    });
  if (!proved) {
    const [last] = site.diagnostics.drops(deviceId);
    const isKept = last?.topic === WHERE && last.reason === 'SIGNATURE' && now - last.at_ms < UNPROVED_MS;
    if (isKept) return false;
    const detail = 'sig is not the HMAC-SHA256 of what should have been signed';
    return drop('SIGNATURE', { detail, expected: signed });
  }
  if (Math.abs(now - ts) > LIMIT.timestampToleranceMs) return drop('TIMESTAMP', explainTimestamp(ts, now));
  const use = { deviceId, nonce, digest: sig.slice(0, 16), ts, receivedMs: now };
  // A re-send is none here: it would be another token.
  if (journal.replay.judge(use) !== 'new' || journal.replay.isFull(now))
    return drop('NONCE', explainNonce(nonce));
  turns.run((turn) => {
    carriedNonces.add(turn, [use]);
    devices.setProved(turn, device, proved);
    turn.remember(() => journal.replay.remember(use));
  });
  return true;
}
