/**
 * What a device may send: messages a second, bytes a minute, each with a burst [C-3.8]. It is judged before anything
 * is stored; what is over it waits in the bridge, which reads the device no further; one that waits for more than five minutes is too old.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { Wait } from '../../../protocol/link/frame.ts';
import { TokenBucket } from '../../object/token-bucket.ts';

/** How often waiting messages come again: sooner than this it is not worth a frame, and nobody waits longer unseen. */
const MIN_PACE_MS = 250;
const MAX_PACE_MS = 10_000;
const MINUTE_MS = 60_000;

interface Device {
  messages: TokenBucket;
  bytes: TokenBucket;
  /** What the message that was turned away first lacks. */
  missingBytes: number;
}

export class DeviceRates {
  readonly #devices = new Map<string, Device>();

  /** Whether a message of so many bytes may be taken now. */
  take(deviceId: string, bytes: number, perSecond: number, now: number): boolean {
    const minuteBytes = this.#minuteBytes(perSecond);
    const burst = Math.max(LIMIT.deviceMessagesBurst, perSecond);
    let device = this.#devices.get(deviceId);
    if (!device) {
      const buckets = { messages: new TokenBucket(burst), bytes: new TokenBucket(minuteBytes) };
      device = { ...buckets, missingBytes: 0 };
      this.#devices.set(deviceId, device);
    }
    // A message that is larger than a whole minute's would never go.
    const counted = Math.min(bytes, minuteBytes);
    const perSecondBytes = (minuteBytes * 1_000) / MINUTE_MS;
    device.missingBytes = counted - device.bytes.fill(perSecondBytes, minuteBytes, now);
    if (device.missingBytes > 0 || !device.messages.take(1, perSecond, burst, now)) return false;
    return device.bytes.take(counted, perSecondBytes, minuteBytes, now);
  }

  /** What the bridge is told of those that wait: when the first of them may go, and how many then. */
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
