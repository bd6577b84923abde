/**
 * A device changes objects: the one that it leaves hands over its credentials, its history and the nonces that still
 * count, and keeps nothing. Each step may be done again; in between it is in neither, and comes back later.
 */
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { DevicePack } from '../../rpc.ts';
import type { SiteParts } from '../parts.ts';
import { leaveToOthers } from './lifecycle.ts';
import { removeDevice } from './remove.ts';

/** Its session is cut and it is let in no more: it goes to the object `to`. Undefined where it is not here. */
export function releaseDevice(site: SiteParts, deviceId: string, to: string): DevicePack | undefined {
  const { devices, sessions, presence, turns } = site;
  if (devices.find(deviceId)) {
    turns.run((turn) => {
      sessions.cut(turn, deviceId, CLOSE_CODES.takenOver, 'moved', turn.now);
      devices.setLeaving(turn, deviceId, to);
      presence.update(turn);
    });
  }
  if (!devices.isLeaving(deviceId)) return undefined;
  leaveToOthers(site, deviceId, 'MOVED');
  const nonces = [...site.journal.noncesOf(deviceId)];
  return { tables: site.carriedTables.read(deviceId), nonces };
}

/** Takes over what another object had of it. Again: nothing. */
export function takeDevice(site: SiteParts, deviceId: string, { tables, nonces }: DevicePack): void {
  const { devices, turns } = site;
  if (devices.find(deviceId)) return;
  turns.attempt((turn) => {
    // One that left and comes back before its leaving was over.
    if (devices.isLeaving(deviceId)) site.carriedTables.remove(turn, deviceId);
    site.carriedTables.write(turn, tables);
    site.carriedNonces.add(turn, nonces);
    turn.remember(() => site.journal.forgetReplay());
    devices.changed(turn);
    site.secrets.changed(turn);
    site.presence.update(turn);
  });
}

/** What it left behind; nothing of one that is here. */
export function dropDevice(site: SiteParts, deviceId: string): void {
  if (!site.devices.isLeaving(deviceId)) return;
  site.turns.run((turn) => removeDevice(turn, site, deviceId));
}
