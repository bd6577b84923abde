/**
 * One batch of a device's frames (rule 3): each message is judged without a write, then all that is good is written
 * in one turn, and only what stands is answered.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import type { DeviceLinkDown, DeviceLinkUp } from '../../../protocol/link/device.ts';
import type { Turn } from '../../object/turn.ts';
import { applyAck, sendOpen } from '../dispatch/execution.ts';
import type { SiteParts } from '../parts.ts';
import { explainTopic } from './explain.ts';
import { BatchFindings, type Dropped } from './messages.ts';
import type { DeviceRow } from './rows.ts';
import { noteTokenAck } from './token-refresh.ts';

type PublishFrame = Extract<DeviceLinkUp, { kind: 'publish' }>;

/** Returns the answers; they go out before anything else that follows. */
export function receiveFrames(
  site: SiteParts,
  device: DeviceRow,
  frames: readonly DeviceLinkUp[],
  now: number,
  answer: (frames: readonly DeviceLinkDown[]) => void,
): void {
  const { sessions, journal, feed } = site;
  const wasLive = sessions.isLive(device.id, now);
  sessions.noteFrame(device.id, now);

  // 1. judge each frame; nothing is written yet
  const findings = new BatchFindings({
    device,
    keys: (at) => site.secrets.keys(device, at),
    replay: journal.replay,
  });
  const waiting: number[] = [];
  const perSecond = site.deviceMessagesPerSecond;
  const quietSinceMs = sessions.quietSinceMs(device.id);
  for (const frame of frames) {
    if (frame.kind === 'subscribed') sessions.setSubscribed(device.id, frame.commands);
    else if (frame.kind === 'quiet') sessions.setQuiet(device.id, frame.quiet, now);
    // The agenda looks again when the batch is done: that is all there is to it.
    else if (frame.kind === 'lull') continue;
    else if (frame.kind === 'strayed')
      findings.drop(frame.topic, { reason: 'TOPIC', ...explainTopic(frame, device.id) });
    else if (waiting.length === 0 && mayCome(site, device.id, frame, now)) findings.take(frame, now);
    else if (sessions.linkOf(device.id) >= 2) waiting.push(frame.seq);
    else findings.refuse(frame.seq, 'over its rate');
  }
  // It listens now and did not before, or it was given up for silent: what waited for it goes out.
  const isBack = !wasLive && sessions.isLive(device.id, now);

  // 2. write once; the answers leave first
  const isEventDue = findings.hasData && feed.isDue(now);
  const alerts = findings.hasData ? site.alerts.judge(findings.entries, now) : undefined;
  site.turns.run((turn) => {
    turn.send(() => {
      const answers = findings.answers();
      if (waiting.length > 0) answers.push(site.rates.wait(device.id, waiting, perSecond));
      if (answers.length > 0) answer(answers);
      if (findings.hasData) {
        if (isEventDue) feed.emit(now);
        site.registry.refreshInBackground();
      }
    });
    journal.append(turn, findings.entries, isEventDue ? now : journal.eventAtMs, alerts?.text);
    alerts?.tell(turn);
    noteDropped(turn, site, device.id, findings.dropped);
    if (findings.proved) site.devices.setProved(turn, device, findings.proved);
    if (findings.reportedStatus) site.devices.setReportedStatus(turn, device.id, findings.reportedStatus);
    for (const { seq, ack } of findings.acks) {
      const of = { deviceId: device.id, cmdId: ack.cmdId, status: ack.status };
      if (noteTokenAck(site, of)) continue;
      if (!turn.step(() => applyAck(turn, site, of))) findings.refuseAck(seq);
    }
    if (isBack) sendOpen(turn, site, device.id);
  });

  // 3. what the new values say of who is there
  const { presence } = site;
  const isQuietOther = sessions.quietSinceMs(device.id) !== quietSinceMs;
  if (findings.entries.length === 0 && !isQuietOther) return;
  if (isQuietOther || !findings.hasData || presence.isStale(now))
    site.turns.run((turn) => presence.update(turn));
}

/** Counted all, by reason; of the last so many it is told why. */
function noteDropped(turn: Turn, site: SiteParts, deviceId: string, dropped: readonly Dropped[]): void {
  for (const [reason, of] of Map.groupBy(dropped, (one) => one.reason)) {
    site.diagnostics.countDropped(turn, deviceId, reason, of.length);
    site.counts.add(turn, `device_dropped/${reason}`, of.length);
  }
  for (const { topic, reason, detail, expected = null } of dropped.slice(-LIMIT.diagnosticsEntries)) {
    site.diagnostics.addDrop(turn, deviceId, { topic, reason, detail, expected });
  }
}

/** Judged before anything is looked at or stored: the device's rate, and room for its nonce. */
function mayCome(site: SiteParts, deviceId: string, frame: PublishFrame, now: number): boolean {
  const { topic, payload } = frame;
  // An ack has no nonce, and grows too old if it waits for those of others.
  if (topic !== 'ack' && site.journal.replay.isFull(now)) return false;
  return site.rates.take(deviceId, payload.length, site.deviceMessagesPerSecond, now);
}
