/** Nothing of a device is left: its row, its credentials, its history. */
import type { Turn } from '../../object/turn.ts';
import type { SiteParts } from '../parts.ts';

export function removeDevice(turn: Turn, site: SiteParts, deviceId: string): void {
  site.carriedTables.remove(turn, deviceId);
  site.devices.changed(turn);
  site.secrets.changed(turn);
}
