/** Presence as it is kept: worked out anew when something changed or time alone does it, written only when it differs. */
import type { Effects } from './effects.ts';
import { registryRow } from './events.ts';
import { presenceAt } from './presence.ts';
import type { SiteState } from './state.ts';

export class PresenceKeeper {
  readonly #state: SiteState;
  #checkedAtMs = 0;
  #dueMs: number | undefined;

  constructor(state: SiteState) {
    this.#state = state;
  }

  /** When it was last worked out. */
  get checkedAtMs(): number {
    return this.#checkedAtMs;
  }

  /** When time alone changes it next. */
  get dueMs(): number | undefined {
    return this.#dueMs;
  }

  /** Inside the caller's transaction. What lists need of a change goes to the registry's lane. */
  update(effects: Effects, now: number): void {
    const state = this.#state;
    const { sessions } = state;
    const devices = sessions.devices();
    const { presence, nextChangeMs } = presenceAt(
      {
        previous: state.presence,
        connected: devices.some((device) => device.connection_id),
        lastSessionEndMs: latest(devices.map((device) => device.disconnected_at_ms)),
        subDevices: state.subDevices().map((asset) => ({
          id: asset.externalId,
          lastSampleAtMs: state.journal.snapshot.lastSampleAtMs(asset.externalId),
          inError: state.inFault(asset),
        })),
        devices: devices.map((device) => ({
          id: device.id,
          connected: device.connection_id !== null,
          everConnected: device.connected_at_ms !== null,
          reported: device.reported_status,
        })),
      },
      now,
    );
    this.#checkedAtMs = now;
    this.#dueMs = nextChangeMs;
    if (JSON.stringify(presence) === JSON.stringify(state.presence)) return;
    if (state.registry?.plantId && presence.plant !== state.presence.plant) {
      effects.emit(registryRow('plant', state.registry.plantId, { status: presence.plant }, now));
    }
    for (const asset of state.subDevices()) {
      const status = presence.subDevices[asset.externalId];
      if (status && status !== state.presence.subDevices[asset.externalId]) {
        effects.emit(registryRow('sub-device', asset.id, { status }, now));
      }
    }
    for (const [id, status] of Object.entries(presence.devices)) {
      if (status === state.presence.devices[id]) continue;
      effects.emit(registryRow('device', id, { connectionStatus: status, lastSeenAtMs: now }, now));
    }
    state.storage.setFact('presence', presence);
    state.presence = presence;
  }
}

function latest(values: readonly (number | null)[]): number | undefined {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? undefined : Math.max(...known);
}
