/**
 * One batch of a device's frames (rule 3): each message is judged without a write, then everything valid is written in
 * one turn, and only what is stored is answered.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { DeviceLinkDown, DeviceLinkUp } from '../../../protocol/link/device.ts';
import type { OwnCounts } from '../../figures/counts.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { PlantCopy } from '../../registry/plant-copy.ts';
import type { Alerts } from '../alert/alerts.ts';
import type { Devices } from '../device/devices.ts';
import type { DiagnosticsRows } from '../device/diagnostics-rows.ts';
import type { DeviceRow } from '../device/rows.ts';
import type { DeviceSecrets } from '../device/secrets.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { Serving } from '../lifecycle/serving.ts';
import type { Presence } from '../presence/presence.ts';
import type { TelemetryFeed } from '../telemetry/feed.ts';
import type { Journal } from '../telemetry/journal.ts';
import { explainTopic } from './explain.ts';
import { BatchFindings, type Dropped } from './messages.ts';
import { DeviceRates } from './rates.ts';
import type { TokenRefresh } from './token-refresh.ts';

type PublishFrame = Extract<DeviceLinkUp, { kind: 'publish' }>;

export interface ReceiverHost {
  turns: Turns;
  registry: PlantCopy;
  devices: Devices;
  secrets: DeviceSecrets;
  sessions: DeviceSessions;
  diagnostics: DiagnosticsRows;
  journal: Journal;
  feed: TelemetryFeed;
  alerts: Alerts;
  presence: Presence;
  dispatches: Dispatches;
  serving: Serving;
  tokens: TokenRefresh;
  counts: OwnCounts;
}

export class DeviceReceiver {
  readonly #host: ReceiverHost;
  readonly #rates = new DeviceRates();

  constructor(host: ReceiverHost) {
    this.#host = host;
  }

  /** `answer` is called once, before anything else that follows from the batch is sent. */
  receive(
    device: DeviceRow,
    frames: readonly DeviceLinkUp[],
    now: number,
    answer: (frames: readonly DeviceLinkDown[]) => void,
  ): void {
    const { turns, registry, devices, secrets, sessions, journal, feed, presence } = this.#host;
    const wasLive = sessions.isLive(device.id, now);
    sessions.noteFrame(device.id, now);

    // 1. judge each frame; nothing is written yet
    const findings = new BatchFindings({
      device,
      keys: (at) => secrets.keys(device, at),
      replay: journal.replay,
    });
    const waiting: number[] = [];
    const quietSinceMs = sessions.quietSinceMs(device.id);
    for (const frame of frames) {
      if (frame.kind === 'subscribed') sessions.setSubscribed(device.id, frame.commands);
      else if (frame.kind === 'quiet') sessions.setQuiet(device.id, frame.quiet, now);
      // A lull only wakes the site: the agenda runs after the batch.
      else if (frame.kind === 'lull') continue;
      else if (frame.kind === 'strayed')
        findings.drop(frame.topic, { reason: 'TOPIC', ...explainTopic(frame, device.id) });
      else if (waiting.length === 0 && this.#isWithinRate(device.id, frame, now)) findings.take(frame, now);
      else waiting.push(frame.seq);
    }
    // The device subscribes now, or it was taken for gone: it gets what waited for it.
    const isBack = !wasLive && sessions.isLive(device.id, now);

    // 2. write once; the answers are sent first
    const isEventDue = findings.hasData && feed.isDue(now);
    const alerts = findings.hasData ? this.#host.alerts.judge(findings.entries, now) : undefined;
    turns.run((turn) => {
      turn.send(() => {
        const answers = findings.answers();
        if (waiting.length > 0) answers.push(this.#rates.wait(device.id, waiting, this.#messagesPerSecond));
        if (answers.length > 0) answer(answers);
        if (findings.hasData) {
          if (isEventDue) feed.emit(now);
          registry.refreshInBackground();
        }
      });
      journal.append(turn, findings.entries, isEventDue ? now : journal.eventAtMs, alerts?.text);
      alerts?.report(turn);
      this.#noteDropped(turn, device.id, findings.dropped);
      if (findings.verifiedBy) devices.setLastKey(turn, device, findings.verifiedBy);
      if (findings.reportedStatus) devices.setReportedStatus(turn, device.id, findings.reportedStatus);
      this.#applyAcks(turn, device.id, findings);
      if (isBack) this.#host.serving.subscribed(turn, device.id);
    });

    // 3. what the new values mean for presence
    const isQuietOther = sessions.quietSinceMs(device.id) !== quietSinceMs;
    if (findings.entries.length === 0 && !isQuietOther) return;
    if (isQuietOther || !findings.hasData || presence.isStale(now))
      turns.run((turn) => presence.update(turn));
  }

  #applyAcks(turn: Turn, deviceId: string, findings: BatchFindings): void {
    for (const { seq, ack } of findings.acks) {
      const of = { deviceId, cmdId: ack.cmdId, status: ack.status };
      if (this.#host.tokens.noteAck(of)) continue;
      if (!turn.step(() => this.#host.dispatches.applyAck(turn, of))) findings.refuseAck(seq);
    }
  }

  /** Counts every dropped message by reason; stores the explanation of the last ones. */
  #noteDropped(turn: Turn, deviceId: string, dropped: readonly Dropped[]): void {
    const { diagnostics, counts } = this.#host;
    for (const [reason, of] of Map.groupBy(dropped, (one) => one.reason)) {
      diagnostics.countDropped(turn, deviceId, reason, of.length);
      counts.add(turn, `device_dropped/${reason}`, of.length);
    }
    for (const { topic, reason, detail, expected = null } of dropped.slice(-LIMIT.diagnosticsEntries)) {
      diagnostics.addDrop(turn, deviceId, { topic, reason, detail, expected });
    }
  }

  /** The device's rate and the room for its nonce; checked before anything is read or stored. */
  #isWithinRate(deviceId: string, { topic, payload }: PublishFrame, now: number): boolean {
    // An ack has no nonce, and expires if it waits for the nonces of other messages.
    if (topic !== 'ack' && this.#host.journal.replay.isFull(now)) return false;
    return this.#rates.take(deviceId, payload.length, this.#messagesPerSecond, now);
  }

  /** The organization's setting. */
  get #messagesPerSecond(): number {
    return this.#host.registry.record?.settings.deviceRatePerSecond ?? LIMIT.deviceMessagesPerSecond;
  }
}
