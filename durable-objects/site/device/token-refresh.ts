/**
 * Newer tokens for devices that are connected [C-3.12]: pushed at 80 % of a token's life, again where the device does not
 * say that it took it, and signed anew each time: none is kept here.
 */
import { signableJson } from '../../../protocol/compact-json.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { type DueSource, earliest } from '../../object/agenda.ts';
import { reasonOf } from '../../object/reason.ts';
import type { Turn } from '../../object/turn.ts';
import { signDeviceToken } from '../../secrets/device-tokens.ts';
import type { DeviceAck } from '../dispatch/execution.ts';
import { sendSigned } from '../dispatch/send-command.ts';
import { statusRow } from '../event/registry-rows.ts';
import type { SiteParts } from '../parts.ts';
import type { DeviceRow } from './rows.ts';

const REFRESH_AT = 0.8;
/** Over what is left of the old one's life. */
const TRIES = 3;

/** `keepAlive`: for as long as signing takes. */
export interface TokenSource {
  tokenKeys: string;
  keepAlive(work: Promise<void>): void;
}

export function tokenAgenda(site: SiteParts, source: TokenSource): DueSource {
  return {
    name: 'tokens',
    dueMs: () => {
      const now = site.clock.now();
      return earliest(site.devices.all().map((device) => waitOf(site, device, now)));
    },
    run: (turn) => {
      for (const device of site.devices.all()) {
        const dueMs = waitOf(site, device, turn.now);
        if (dueMs !== undefined && dueMs <= turn.now) push(turn, site, source, device);
      }
    },
  };
}

/** True: that was the word of a device about its token. One that could not take it is sent another. */
export function noteTokenAck({ sessions }: SiteParts, { deviceId, cmdId, status }: DeviceAck): boolean {
  const refresh = sessions.refreshOf(deviceId);
  if (refresh?.cmdId !== cmdId) return false;
  const taken = status !== 'FAILED';
  if (refresh.taken !== taken) sessions.setRefresh(deviceId, { ...refresh, taken });
  return true;
}

/** One that is due and does not listen is looked at when it does. */
function waitOf(site: SiteParts, device: DeviceRow, now: number): number | undefined {
  const dueMs = dueOf(site, device);
  if (dueMs === undefined || dueMs > now) return dueMs;
  return site.sessions.isLive(device.id, now) ? dueMs : undefined;
}

function dueOf(
  { sessions }: SiteParts,
  { id, session_issued_at_ms: issuedAtMs, session_expires_at_ms: expiresAtMs }: DeviceRow,
): number | undefined {
  if (issuedAtMs === null || expiresAtMs === null) return undefined;
  const { tries = 0, taken = false } = sessions.refreshOf(id) ?? {};
  if (taken || tries >= TRIES) return undefined;
  const lifeMs = expiresAtMs - issuedAtMs;
  return issuedAtMs + REFRESH_AT * lifeMs + (tries * (1 - REFRESH_AT) * lifeMs) / TRIES;
}

function push(turn: Turn, site: SiteParts, source: TokenSource, device: DeviceRow): void {
  const { session_issued_at_ms: issuedAtMs, session_expires_at_ms: expiresAtMs } = device;
  const lifetimeSeconds = Math.round(((expiresAtMs ?? 0) - (issuedAtMs ?? 0)) / 1_000);
  const cmdId = crypto.randomUUID();
  const tries = (site.sessions.refreshOf(device.id)?.tries ?? 0) + 1;
  const columns = { tokenExpiresAtMs: (Math.floor(turn.now / 1_000) + lifetimeSeconds) * 1_000 };
  site.outbox.emit(turn, statusRow('device', device.id, columns, turn.now));
  turn.remember(() => site.sessions.setRefresh(device.id, { tries, cmdId }));
  const signed = () => signDeviceToken(source.tokenKeys, device.id, lifetimeSeconds, turn.now);
  turn.send(() => source.keepAlive(sendToken(site, device, cmdId, signed())));
}

/** One that fails is tried again with the next. */
async function sendToken(
  site: SiteParts,
  { id, epoch }: DeviceRow,
  cmdId: string,
  signed: ReturnType<typeof signDeviceToken>,
): Promise<void> {
  try {
    const { token, expiresAtMs } = await signed;
    const payloadText = signableJson({ token, expiresAt: formatInstant(expiresAtMs) });
    const device = site.devices.find(id);
    // It came anew meanwhile, with another token, or may come no more.
    if (device?.status !== 'ACTIVE' || device.epoch !== epoch) return;
    sendSigned(site, device, { cmdId, action: 'TOKEN_REFRESH', payloadText });
  } catch (error) {
    console.error('token not refreshed', { deviceId: id, reason: reasonOf(error) });
  }
}
