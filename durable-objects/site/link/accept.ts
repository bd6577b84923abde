/** A device's link: whether a dial is accepted, and whether a message comes from the device's current session. */
import { parseFrames } from '../../../protocol/link/batch.ts';
import { type DeviceLinkDown, type DeviceLinkUp, deviceLinkUp } from '../../../protocol/link/device.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import { LINK_VERSION, LINK_VERSION_HEADER } from '../../../protocol/link/proof.ts';
import type { Clock } from '../../object/clock.ts';
import { sendFrames } from '../../object/sockets.ts';
import type { Turns } from '../../object/turn.ts';
import { type DeviceDial, notFoundResponse, refusalResponse } from '../../rpc.ts';
import type { Devices } from '../device/devices.ts';
import type { DiagnosticsRows } from '../device/diagnostics-rows.ts';
import type { DeviceRow } from '../device/rows.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import type { Presence } from '../presence/presence.ts';

export interface DeviceLinkHost {
  clock: Pick<Clock, 'now'>;
  turns: Turns;
  devices: Devices;
  sessions: DeviceSessions;
  presence: Presence;
  diagnostics: DiagnosticsRows;
  /** Handles a batch; `answer` sends the answers. */
  receive(
    device: DeviceRow,
    frames: readonly DeviceLinkUp[],
    now: number,
    answer: (frames: readonly DeviceLinkDown[]) => void,
  ): void;
}

export class DeviceLink {
  readonly #host: DeviceLinkHost;

  constructor(host: DeviceLinkHost) {
    this.#host = host;
  }

  /** The upgrade of an authenticated device. */
  accept(dial: DeviceDial): Response {
    const { devices, sessions, presence, diagnostics, turns } = this.#host;
    if (sessions.isReplay(dial)) return notFoundResponse();
    const device = devices.find(dial.deviceId);
    if (!device) return refusalResponse('SERVICE_UNAVAILABLE', 'The device is still moving here: try again');
    if (device.status !== 'ACTIVE') return refusalResponse('UNAUTHORIZED', 'The device is not active');
    const socket = turns.run((turn) => {
      const opened = sessions.accept(turn, dial);
      const accepted = { address: dial.address, outcome: 'ACCEPTED' as const, reason: null };
      diagnostics.addConnect(turn, device.id, accepted);
      presence.update(turn);
      return opened;
    });
    const headers = { [LINK_VERSION_HEADER]: String(LINK_VERSION) };
    return new Response(null, { status: 101, webSocket: socket, headers });
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
      cut(device.status === 'ACTIVE' ? CLOSE_CODES.expired : CLOSE_CODES.revoked, 'credential ended');
      return;
    }
    const frames = parseFrames(deviceLinkUp, message);
    if (!frames.ok) cut(CLOSE_CODES.protocolError, frames.refusal);
    else this.#host.receive(device, frames.value, now, (answers) => sendFrames(socket, answers));
  }
}
