/**
 * A device's link: whether a dial is accepted, whether a message comes from the device's current session, and
 * what a batch of frames changes (rule 3): each message is judged without a write, then everything valid is
 * written in one turn, and only then messages are answered as stored, dropped ones, too.
 */
import { LIMIT } from '../../../protocol/limits.ts';
import { parseFrames } from '../../../protocol/link/batch.ts';
import { type DeviceLinkUp, deviceLinkUp, usualPublish } from '../../../protocol/link/device.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { PlantCopy } from '../../../registry/plant-copy.ts';
import { type DeviceDial, notFoundResponse, refusalResponse, stateRefusal } from '../../dial.ts';
import type { OwnCounts } from '../../metrics/counts.ts';
import type { Clock } from '../../object/clock.ts';
import { sendFrames } from '../../object/sockets.ts';
import type { Turn, Turns } from '../../object/turn.ts';
import type { Alerts } from '../alert/alerts.ts';
import type { Devices } from '../device/devices.ts';
import type { Diagnostics } from '../device/diagnostics.ts';
import { type DeviceRow, tokensNotBeforeMs } from '../device/rows.ts';
import { type DeviceSecrets, isSameKey } from '../device/secrets.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import type { SessionTakeovers } from '../device/takeovers.ts';
import type { Dispatches } from '../dispatch/dispatches.ts';
import type { Lifecycle } from '../lifecycle/lifecycle.ts';
import type { Suspension } from '../lifecycle/suspension.ts';
import type { Presence } from '../presence/presence.ts';
import type { TelemetryFeed } from '../telemetry/feed.ts';
import type { Journal } from '../telemetry/journal.ts';
import { explainSize, explainTopic } from './explain.ts';
import { BatchFindings, type Dropped } from './messages.ts';
import { DeviceRates } from './rates.ts';
import type { DeviceTokens } from './tokens.ts';

const ENDED_TOKEN = 'token ended by a suspension, a new secret or endOthers: issue a new one';

export interface DeviceLinkHost {
  clock: Pick<Clock, 'now'>;
  turns: Turns;
  registry: PlantCopy;
  devices: Devices;
  secrets: DeviceSecrets;
  sessions: DeviceSessions;
  diagnostics: Diagnostics;
  journal: Journal;
  feed: TelemetryFeed;
  alerts: Alerts;
  presence: Presence;
  dispatches: Dispatches;
  lifecycle: Lifecycle;
  suspension: Suspension;
  tokens: DeviceTokens;
  counts: OwnCounts;
  takeovers: SessionTakeovers;
}

/** What the frames of a batch are: `waiting` are the sequences of messages for which the rate has no room. */
interface Judged {
  findings: BatchFindings;
  waiting: number[];
}

export class DeviceLink {
  readonly #host: DeviceLinkHost;
  readonly #rates = new DeviceRates();

  constructor(host: DeviceLinkHost) {
    this.#host = host;
  }

  /** The upgrade of an authenticated device. */
  accept(dial: DeviceDial): Response {
    const { devices, sessions, presence, diagnostics, turns, registry } = this.#host;
    if (sessions.isReplay(dial)) return notFoundResponse();
    if (registry.record?.isSuspended) return stateRefusal('The organization is suspended');
    const device = devices.find(dial.deviceId);
    if (!device) return refusalResponse('SERVICE_UNAVAILABLE', 'The device is still moving here: try again');
    if (device.status !== 'ACTIVE') return stateRefusal('The device is not active');
    if (dial.issuedAtMs !== null && dial.issuedAtMs < tokensNotBeforeMs(device, this.#host.clock.now())) {
      // This login does not count toward suspension: a thief of an ended token must not be able to suspend
      // the device with it.
      const refused = { address: dial.address, reason: ENDED_TOKEN, counts: false, organizationId: '' };
      this.#host.suspension.noteRefusedLogin(device.id, refused);
      return refusalResponse('UNAUTHORIZED', ENDED_TOKEN);
    }
    const socket = turns.run((turn) => {
      const { socket: opened, displaced } = sessions.accept(turn, dial);
      const accepted = { address: dial.address, outcome: 'ACCEPTED' as const, reason: null };
      diagnostics.addConnect(turn, device.id, accepted);
      if (displaced !== undefined) this.#host.takeovers.note(turn, dial, displaced);
      presence.update(turn);
      return opened;
    });
    return new Response(null, { status: 101, webSocket: socket });
  }

  /** Ignores messages of older sessions; cuts a session whose credential has ended or whose frames are invalid. */
  receive(socket: WebSocket, message: string | ArrayBuffer): void {
    const { devices, sessions, presence, turns, clock } = this.#host;
    const attachment = sessions.current(socket);
    const device = attachment && devices.find(attachment.deviceId);
    if (!device) return;
    const now = clock.now();
    const cut = (code: number, reason: string) =>
      turns.run((turn) => {
        sessions.cut(turn, device.id, code, reason, now);
        presence.update(turn);
      });
    const hasExpired = (device.session_expires_at_ms ?? Number.POSITIVE_INFINITY) <= now;
    if (device.status !== 'ACTIVE' || hasExpired) {
      cut(
        device.status === 'ACTIVE' ? CLOSE_CODES.expired : CLOSE_CODES.revoked,
        'the credential has expired or the device is not ACTIVE',
      );
      return;
    }
    const frames = parseFrames(deviceLinkUp, message, usualPublish);
    if (!frames.ok) cut(CLOSE_CODES.protocolError, frames.refusal);
    else this.#receive(socket, device, frames.value, now);
  }

  /** A batch of a valid session. Its answers are sent before anything else that follows from it. */
  #receive(socket: WebSocket, device: DeviceRow, frames: readonly DeviceLinkUp[], now: number): void {
    const judged = this.#judge(device, frames, now);
    const session = this.#noteSession(device.id, frames, now);
    this.#write(socket, device, judged, session.isBack, now);
    this.#updatePresence(device.id, judged.findings, session.quietSinceMs, now);
  }

  /** Judges each frame; nothing is written yet. */
  #judge(device: DeviceRow, frames: readonly DeviceLinkUp[], now: number): Judged {
    const { secrets, journal } = this.#host;
    const findings = new BatchFindings({
      device,
      keys: (at) => secrets.keys(device, at),
      replay: journal.replay,
    });
    const waiting: number[] = [];
    for (const frame of frames) {
      // The session notes the first two; the bridge sends the third only to wake the site, whose agenda runs afterwards.
      if (frame.kind === 'subscribed' || frame.kind === 'quiet' || frame.kind === 'no-publish') continue;
      if (frame.kind === 'foreign-topic')
        findings.drop(frame.topic, { reason: 'TOPIC', ...explainTopic(frame, device.id) });
      else if (frame.kind === 'oversized') findings.drop('', { reason: 'SIZE', ...explainSize(frame.bytes) });
      else if (waiting.length > 0 || !this.#isWithinRate(device.id, frame, now)) waiting.push(frame.seq);
      else if (frame.kind === 'not-utf8') findings.dropEncoding(frame);
      else findings.take(frame, now);
    }
    return { findings, waiting };
  }

  /**
   * Notes what the batch says of its session. `isBack`: the device has just subscribed, or it sends again after it seemed
   * to be offline. `quietSinceMs`: since when it was quiet before the batch.
   */
  #noteSession(deviceId: string, frames: readonly DeviceLinkUp[], now: number) {
    const { sessions } = this.#host;
    const wasLive = sessions.isLive(deviceId, now);
    sessions.noteFrame(deviceId, now);
    const quietSinceMs = sessions.quietSinceMs(deviceId);
    for (const frame of frames) {
      if (frame.kind === 'subscribed') sessions.setSubscribed(deviceId, frame.commands);
      else if (frame.kind === 'quiet') sessions.setQuiet(deviceId, frame.quiet, now);
    }
    return { isBack: !wasLive && sessions.isLive(deviceId, now), quietSinceMs };
  }

  /** Writes what is valid, once. A device that is back gets the dispatches that waited for it. */
  #write(
    socket: WebSocket,
    device: DeviceRow,
    { findings, waiting }: Judged,
    isBack: boolean,
    now: number,
  ): void {
    const { turns, registry, devices, secrets, journal, feed } = this.#host;
    const isEventDue = findings.hasData && feed.isDue(now);
    const alerts = findings.hasData ? this.#host.alerts.judge(findings.entries, now) : undefined;
    turns.run((turn) => {
      turn.send(() => {
        const answers = findings.answers();
        if (waiting.length > 0) answers.push(this.#rates.wait(device.id, waiting, this.#messagesPerSecond));
        if (answers.length > 0) sendFrames(socket, answers);
        if (findings.hasData) {
          if (isEventDue) feed.emit(now);
          registry.keepUp();
        }
      });
      journal.append(turn, findings.entries, isEventDue ? now : journal.eventAtMs, alerts?.text);
      alerts?.report(turn);
      this.#noteDropped(turn, device.id, findings.dropped);
      const signedWith = findings.verifiedBy && secrets.commandKeyOf(device, now);
      if (findings.verifiedBy) devices.setSessionKey(turn, device, findings.verifiedBy);
      if (findings.reportedStatus) devices.setReportedStatus(turn, device.id, findings.reportedStatus);
      this.#applyAcks(turn, device.id, findings);
      if (isBack) this.#host.lifecycle.subscribed(turn, device.id);
      // The device cannot verify what it was sent: it signs with another key, which its first message proves. Once a
      // session, so that a device with two valid keys cannot have everything sent again with each message.
      else if (
        device.session_key_version === null &&
        signedWith &&
        !isSameKey(signedWith, findings.verifiedBy)
      )
        this.#host.dispatches.resume(turn, device.id, true);
    });
  }

  /** Computes the presence from the new values. */
  #updatePresence(
    deviceId: string,
    findings: BatchFindings,
    quietSinceMs: number | undefined,
    now: number,
  ): void {
    const { turns, sessions, presence } = this.#host;
    const isQuietOther = sessions.quietSinceMs(deviceId) !== quietSinceMs;
    if (findings.entries.length === 0 && !isQuietOther) return;
    if (isQuietOther || !findings.hasData || presence.isStale(now))
      turns.run((turn) => presence.update(turn));
    // The last check was less than a second ago: the next one raises or clears the alarm of the fault.
    else if (presence.hasOtherFaults) turns.run((turn) => turn.send(() => presence.noteChange()));
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

  /**
   * Whether the device's rate limit and the table of nonces have room for this message. Checked before
   * anything is read or stored.
   */
  #isWithinRate(
    deviceId: string,
    frame: Extract<DeviceLinkUp, { kind: 'publish' | 'not-utf8' }>,
    now: number,
  ): boolean {
    // An ack has no nonce, so a full table of nonces does not hold it up; after a wait it could be too old.
    const size = frame.kind === 'publish' ? frame.payload.length : frame.bytes;
    if (frame.topic !== 'ack' && this.#host.journal.replay.isFull(now)) return false;
    return this.#rates.take(deviceId, size, this.#messagesPerSecond, now);
  }

  /** The rate limit from the organization's settings, or the default. */
  get #messagesPerSecond(): number {
    return this.#host.registry.record?.settings.deviceRatePerSecond ?? LIMIT.deviceMessagesPerSecond;
  }
}
