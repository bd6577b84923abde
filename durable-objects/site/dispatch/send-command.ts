/** A command on its way to its device: signed with the device's secret, in the form that it last proved [C-3.7]. */
import { commandMessage } from '../../../protocol/device.ts';
import { commandSigningString } from '../../../protocol/signing.ts';
import type { Turn } from '../../object/turn.ts';
import { hmacHex } from '../../secrets/hmac.ts';
import type { SiteParts } from '../parts.ts';
import type { DispatchRow } from './rows.ts';

/** Once the turn stands; with a fresh `ts` at every dispatch [C-3.9]. */
export function sendCommand(turn: Turn, site: SiteParts, row: DispatchRow): void {
  turn.send(() => {
    const device = site.devices.find(row.device_id);
    if (!device) return;
    const { cmd_id: cmdId, action, payload: payloadText } = row;
    const ts = site.clock.now();
    const signingString = commandSigningString(device.id, cmdId, ts, action, payloadText);
    const sig = hmacHex(site.secrets.commandKey(device), signingString);
    const payload = commandMessage({ cmdId, ts, action, payloadText, sig });
    site.sessions.send(device.id, [{ kind: 'command', payload }]);
  });
}
