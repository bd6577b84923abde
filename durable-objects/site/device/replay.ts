/**
 * Nonces seen, per device, each until max(received, ts) + 300 s: a message may be dated five minutes ahead, so five
 * minutes from its receipt alone would leave a hole [C-3.8]. Memory only; the journal's blocks rebuild it.
 */
import { LIMIT } from '../../../protocol/limits.ts';

/** Blocks older than this hold no nonce that still counts. */
export const REPLAY_HORIZON_MS = LIMIT.nonceWindowMs + LIMIT.timestampToleranceMs;
const PURGE_INTERVAL_MS = 30_000;

interface SeenNonce {
  untilMs: number;
  digest: string;
}

export interface NonceUse {
  deviceId: string;
  nonce: string;
  digest: string;
  ts: number;
  receivedMs: number;
}

export class ReplayGuard {
  readonly #devices = new Map<string, Map<string, SeenNonce>>();
  #purgeAtMs = 0;

  /** `repeat`: identical bytes again, a re-send; `replay`: the nonce with anything else. */
  judge(use: NonceUse): 'new' | 'repeat' | 'replay' {
    const seen = this.#devices.get(use.deviceId)?.get(use.nonce);
    if (!seen || seen.untilMs < use.receivedMs) return 'new';
    return seen.digest === use.digest ? 'repeat' : 'replay';
  }

  remember(use: NonceUse): void {
    this.#purge(use.receivedMs);
    let nonces = this.#devices.get(use.deviceId);
    if (!nonces) {
      nonces = new Map();
      this.#devices.set(use.deviceId, nonces);
    }
    nonces.set(use.nonce, {
      untilMs: Math.max(use.receivedMs, use.ts) + LIMIT.nonceWindowMs,
      digest: use.digest,
    });
  }

  #purge(now: number): void {
    if (now < this.#purgeAtMs) return;
    this.#purgeAtMs = now + PURGE_INTERVAL_MS;
    for (const [deviceId, nonces] of this.#devices) {
      for (const [nonce, seen] of nonces) if (seen.untilMs < now) nonces.delete(nonce);
      if (nonces.size === 0) this.#devices.delete(deviceId);
    }
  }
}
