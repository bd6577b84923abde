/** A device's link: who is let in, and what of a message is still the device's own. */
import { parseFrames } from '../../../protocol/link/batch.ts';
import { deviceLinkUp } from '../../../protocol/link/device.ts';
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import { LINK_VERSION, LINK_VERSION_HEADER } from '../../../protocol/link/proof.ts';
import { sendFrames } from '../../object/sockets.ts';
import { type DeviceDial, notFoundResponse, refusalResponse } from '../../rpc.ts';
import type { SiteParts } from '../parts.ts';
import { receiveFrames } from './receive.ts';

/** The upgrade of an authenticated device. */
export function acceptDial(site: SiteParts, dial: DeviceDial): Response {
  const { devices, sessions, presence, diagnostics, turns } = site;
  if (sessions.isReplay(dial)) return notFoundResponse();
  const device = devices.find(dial.deviceId);
  if (!device) return refusalResponse('SERVICE_UNAVAILABLE', 'The device is not here yet');
  if (device.status !== 'ACTIVE') return refusalResponse('UNAUTHORIZED', 'The device is not active');
  const socket = turns.run((turn) => {
    const opened = sessions.accept(turn, dial);
    const accepted = { address: dial.address ?? '', outcome: 'ACCEPTED' as const, reason: null };
    diagnostics.addConnect(turn, device.id, accepted);
    presence.update(turn);
    return opened;
  });
  const headers = { [LINK_VERSION_HEADER]: String(LINK_VERSION) };
  return new Response(null, { status: 101, webSocket: socket, headers });
}

export function receiveMessage(site: SiteParts, socket: WebSocket, message: string | ArrayBuffer): void {
  const { devices, sessions, presence, turns, clock } = site;
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
  else receiveFrames(site, device, frames.value, now, (answers) => sendFrames(socket, answers));
}
