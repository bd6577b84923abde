/**
 * Rate limits of a device: messages per second and bytes per minute, each with a burst [C-3.8]. Checked before
 * anything is stored. Messages over the rate are held in the bridge, which does not read from the device while
 * it holds any. A message whose `ts` is more than five minutes old when it is sent again is dropped.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { Wait } from '../../../protocol/link/frame.ts';
import { TokenBucket } from '../../object/token-bucket.ts';

/** The bridge waits at least this time before it sends held messages again, because each retry costs a frame. */
const MIN_PACE_MS = 250;
/** After this time the bridge tries again in any case. */
const MAX_PACE_MS = 10_000;
const MINUTE_MS = 60_000;

interface Device {
  messages: TokenBucket;
  bytes: TokenBucket;
  /** Bytes that the first held message needs in addition to those that are available. */
  missingBytes: number;
}

export class DeviceRates {
  readonly #devices = new Map<string, Device>();

  /** Whether a message of this size is within the rate now; if so, counts it. */
  take(deviceId: string, bytes: number, perSecond: number, now: number): boolean {
    const minuteBytes = this.#minuteBytes(perSecond);
    const burst = Math.max(LIMIT.deviceMessagesBurst, perSecond);
    let device = this.#devices.get(deviceId);
    if (!device) {
      const buckets = { messages: new TokenBucket(burst), bytes: new TokenBucket(minuteBytes) };
      device = { ...buckets, missingBytes: 0 };
      this.#devices.set(deviceId, device);
    }
    // A message larger than the limit of a whole minute would never be accepted.
    const counted = Math.min(bytes, minuteBytes);
    const perSecondBytes = (minuteBytes * 1_000) / MINUTE_MS;
    device.missingBytes = counted - device.bytes.fill(perSecondBytes, minuteBytes, now);
    if (device.missingBytes > 0 || !device.messages.take(1, perSecond, burst, now)) return false;
    return device.bytes.take(counted, perSecondBytes, minuteBytes, now);
  }

  /** Asks the bridge to hold these messages, to wait `ms`, and then to send `count` of them. */
  wait(deviceId: string, seqs: number[], perSecond: number): Wait {
    const missing = Math.max(0, this.#devices.get(deviceId)?.missingBytes ?? 0);
    const untilMs = Math.ceil((missing * MINUTE_MS) / this.#minuteBytes(perSecond));
    const ms = Math.min(MAX_PACE_MS, Math.max(MIN_PACE_MS, untilMs));
    const count = missing > 0 ? 1 : Math.max(1, Math.ceil((perSecond * ms) / 1_000));
    return { kind: 'wait', seqs, ms, count };
  }

  #minuteBytes(perSecond: number): number {
    return (LIMIT.deviceMinuteBytes * perSecond) / LIMIT.deviceMessagesPerSecond;
  }
}
