/**
 * The steps of a device's move from one object to another. Each may be repeated; from the release until all data is taken
 * no object accepts the device, and the device connects again later.
 */
import { CLOSE_CODES } from '../../../protocol/link/live.ts';
import type { Clock } from '../../object/clock.ts';
import type { Turns } from '../../object/turn.ts';
import type { DevicePack, NoncePlace } from '../../rpc.ts';
import type { Devices } from '../device/devices.ts';
import type { DeviceTables } from '../device/rows.ts';
import type { DeviceSecrets } from '../device/secrets.ts';
import type { DeviceSessions } from '../device/sessions.ts';
import type { Presence } from '../presence/presence.ts';
import type { Journal } from '../telemetry/journal.ts';
import { type MovedNonces, partOf } from '../telemetry/replay.ts';
import type { Lifecycle } from './lifecycle.ts';

export interface MoveHost {
  clock: Pick<Clock, 'now'>;
  turns: Turns;
  devices: Devices;
  secrets: DeviceSecrets;
  sessions: DeviceSessions;
  tables: DeviceTables;
  journal: Journal;
  movedNonces: MovedNonces;
  presence: Presence;
  lifecycle: Pick<Lifecycle, 'leave' | 'remove'>;
}

export class Move {
  readonly #host: MoveHost;

  constructor(host: MoveHost) {
    this.#host = host;
  }

  /**
   * Ends the session of a device that moves to the object `to`, and returns the device's data; undefined if
   * the device is not here.
   */
  release(deviceId: string, to: string, from?: NoncePlace): DevicePack | undefined {
    const { devices, sessions, presence, turns, journal, tables, clock } = this.#host;
    if (devices.find(deviceId)) {
      turns.run((turn) => {
        sessions.cut(turn, deviceId, CLOSE_CODES.takenOver, 'moved', turn.now);
        devices.setLeaving(turn, deviceId, to);
        presence.update(turn);
      });
    }
    if (!devices.isLeaving(deviceId)) return undefined;
    this.#host.lifecycle.leave(deviceId, 'MOVED');
    const part = partOf(journal.noncesOf(deviceId, clock.now()), from);
    return { tables: from ? null : tables.read(deviceId), ...part };
  }

  /**
   * Stores the data of a device that moves here from another object. Does nothing if the device is already
   * here.
   */
  take(deviceId: string, pack: DevicePack): void {
    const { devices, turns, tables, movedNonces, journal, secrets, presence } = this.#host;
    if (devices.find(deviceId)) return;
    turns.attempt((turn) => {
      movedNonces.addMoved(turn, pack.nonces);
      if (!pack.tables) return;
      // The device moved away and returns before its old data was deleted here.
      if (devices.isLeaving(deviceId)) tables.remove(turn, deviceId);
      tables.write(turn, pack.tables);
      turn.remember(() => journal.forgetReplay());
      devices.changed(turn);
      secrets.changed(turn);
      presence.update(turn);
    });
  }

  /**
   * Deletes the rows of a device that has moved to another object. Does nothing for a device that belongs to
   * this object.
   */
  drop(deviceId: string): void {
    const { devices, turns } = this.#host;
    if (devices.isLeaving(deviceId)) turns.run((turn) => this.#host.lifecycle.remove(turn, deviceId));
  }
}
