/**
 * Validates the messages of a device, each separately and without writes. A message that fails a check is
 * dropped, counted by reason and still answered `stored`: the device gets no error (spec: Broker and device
 * errors).
 */

import { type DeviceMessage, parseDeviceMessage } from '../../../protocol/device-message.ts';
import type { DeviceDropReason, DeviceReportedStatus } from '../../../protocol/enums.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import type { DeviceLinkDown, DeviceLinkUp } from '../../../protocol/link/device.ts';
import { ok, type Result, refuse } from '../../../protocol/result.ts';
import { stackOf } from '../../object/reason.ts';
import { verifyHmac } from '../../secrets/hmac.ts';
import type { DeviceRow } from '../device/rows.ts';
import type { SigningKey } from '../device/secrets.ts';
import type { JournalEntry } from '../telemetry/entry.ts';
import type { ReplayGuard } from '../telemetry/replay.ts';
import {
  type Explanation,
  explainEncoding,
  explainMalformed,
  explainNonce,
  explainSignature,
  explainTimestamp,
} from './explain.ts';

/**
 * Twice the maximum of the MQTT listener. Bounded because a journal row must hold a block and one message.
 */
const MAX_PAYLOAD_CHARS = 256 * 1024;

/** A message that was dropped, and why. */
export type Dropped = Explanation & { topic: string; reason: DeviceDropReason };

export type PublishFrame = Extract<DeviceLinkUp, { kind: 'publish' }>;
type AckMessage = Extract<DeviceMessage, { topic: 'ack' }>;

/** The effect of one valid message. */
export type Finding =
  | { kind: 'entry'; entry: JournalEntry; data?: Record<string, number>; status?: DeviceReportedStatus }
  | { kind: 'ack'; ack: AckMessage }
  | { kind: 'repeat' };

/** The sender of a batch, its keys and the nonces seen so far. */
export interface Sender {
  device: DeviceRow;
  /** Throws if a secret cannot be decrypted; each message is then refused separately. */
  keys: (now: number) => Iterable<SigningKey>;
  replay: ReplayGuard;
}

/** The results of a batch, before anything is written. */
export class BatchFindings {
  readonly entries: Extract<Finding, { kind: 'entry' }>[] = [];
  readonly acks: { seq: number; ack: AckMessage }[] = [];
  readonly dropped: Dropped[] = [];
  readonly stored: number[] = [];
  readonly refused: { seq: number; reason: string }[] = [];
  /** The key that verified the last valid signature, even if its message was dropped for its time or nonce. */
  verifiedBy: SigningKey | undefined;
  readonly #sender: Sender;
  readonly #nonces = new Map<string, string>();

  constructor(sender: Sender) {
    this.#sender = sender;
  }

  /** Whether any entry has telemetry values. */
  get hasData(): boolean {
    return this.entries.some((finding) => finding.data);
  }

  /** The last status that the device reported. */
  get reportedStatus(): DeviceReportedStatus | undefined {
    return this.entries.findLast((finding) => finding.status)?.status;
  }

  /** Checks one frame. If the check throws, only this frame is refused; the others are kept (rule 3). */
  take(frame: PublishFrame, now: number): void {
    if (frame.payload.length > MAX_PAYLOAD_CHARS) {
      this.refused.push({
        seq: frame.seq,
        reason: `the payload is longer than ${MAX_PAYLOAD_CHARS} characters`,
      });
      return;
    }
    try {
      const judged = this.#judge(frame, now);
      if (!judged.ok) this.drop(frame.topic, judged.refusal);
      else if (judged.value.kind === 'entry') {
        this.#nonces.set(judged.value.entry.nonce, judged.value.entry.digest);
        this.entries.push(judged.value);
      } else if (judged.value.kind === 'ack') this.acks.push({ seq: frame.seq, ack: judged.value.ack });
      this.stored.push(frame.seq);
    } catch (error) {
      console.error('device message not stored because of an internal error, the device gets no PUBACK', {
        deviceId: this.#sender.device.id,
        seq: frame.seq,
        stack: stackOf(error),
      });
      this.refused.push({
        seq: frame.seq,
        reason: 'the Site could not check the message because of an internal error',
      });
    }
  }

  /** Adds a dropped message for the diagnostics. */
  drop(topic: string, { reason, ...explanation }: Omit<Dropped, 'topic'>): void {
    this.dropped.push({ topic, reason, ...explanation });
  }

  /** Drops a message that is not UTF-8; the device must not send it again. */
  dropEncoding({ seq, topic, at }: { seq: number; topic: string; at: number }): void {
    this.drop(topic, { reason: 'ENCODING', ...explainEncoding(at) });
    this.stored.push(seq);
  }

  /** The answers to the bridge: stored and refused messages. */
  answers(): DeviceLinkDown[] {
    const refused = this.refused.map((refusal) => ({ kind: 'refused' as const, ...refusal }));
    return this.stored.length > 0 ? [{ kind: 'stored', seqs: this.stored }, ...refused] : refused;
  }

  /** Refuses an ack whose step failed. */
  refuseAck(seq: number): void {
    this.stored.splice(this.stored.indexOf(seq), 1);
    this.refused.push({ seq, reason: 'the Site could not apply the ack because of an internal error' });
  }

  #judge(frame: PublishFrame, now: number): Result<Finding, Omit<Dropped, 'topic'>> {
    const { device, replay } = this.#sender;
    const parsed = parseDeviceMessage(device.id, frame.topic, frame.payload);
    if (!parsed.ok)
      return refuse({ reason: 'MALFORMED', ...explainMalformed(parsed.refusal, frame.payload) });
    const message = parsed.value;
    if (!this.#verify(message, now)) {
      const matches = (text: string) =>
        [...this.#sender.keys(now)].some(({ key }) => verifyHmac(key, text, message.sig));
      return refuse({ reason: 'SIGNATURE', ...explainSignature(message, frame.payload, matches) });
    }
    if (Math.abs(now - message.ts) > LIMIT.timestampToleranceMs)
      return refuse({ reason: 'TIMESTAMP', ...explainTimestamp(message.ts, now) });
    if (message.topic === 'ack') return ok({ kind: 'ack', ack: message });

    const entry: JournalEntry = {
      receivedMs: now,
      deviceId: device.id,
      topic: message.topic,
      ts: message.ts,
      nonce: message.nonce,
      digest: message.sig.slice(0, 16),
      dataText: message.topic === 'telemetry' ? message.dataText : `"${message.status}"`,
    };
    const inBatch = this.#nonces.get(entry.nonce);
    const seen = inBatch === undefined ? replay.judge(entry) : inBatch === entry.digest ? 'repeat' : 'replay';
    if (seen === 'replay') return refuse({ reason: 'NONCE', ...explainNonce(message.nonce) });
    if (seen === 'repeat') return ok({ kind: 'repeat' });
    return message.topic === 'telemetry'
      ? ok({ kind: 'entry', entry, data: message.data })
      : ok({ kind: 'entry', entry, status: message.status });
  }

  /** Accepts any secret of the device that is valid now, used as its 64 hex characters or as the 32 bytes that they encode [C-3.7]. */
  #verify(message: DeviceMessage, now: number): boolean {
    for (const key of this.#sender.keys(now)) {
      if (!verifyHmac(key.key, message.signingString, message.sig)) continue;
      this.verifiedBy = key;
      return true;
    }
    return false;
  }
}
