/** The MQTT clients of this process: connects the MQTT engine to the door, the metrics and the log. */
import { type DeviceLinkDown, type DeviceLinkUp, deviceLinkDown } from '../protocol/link/device.ts';
import type { Door } from './door.ts';
import type { BridgeLog } from './log.ts';
import type { Metrics } from './metrics.ts';
import { MqttEngine } from './mqtt/engine.ts';
import type { Origin } from './mqtt/origins.ts';
import { reportRejected } from './refused.ts';

export function createDevices(door: Door, metrics: Metrics, log: BridgeLog): MqttEngine {
  const tally = metrics.tallies.mqtt;
  /** Start time of each session, epoch milliseconds. */
  const openedMs = new WeakMap<Origin, number>();
  return new MqttEngine(
    (credential, { connection, address }, isGone) =>
      door.device<DeviceLinkUp, DeviceLinkDown>(
        { ...credential, connection, address },
        deviceLinkDown,
        isGone,
      ),
    {
      opened: (origin) => {
        openedMs.set(origin, Date.now());
        metrics.opened('mqtt');
        log.write('connection opened', { ...known(origin), vhost: undefined });
      },
      closed: (origin, why, reason) => {
        metrics.closed('mqtt', reason);
        const seconds = Math.round((Date.now() - (openedMs.get(origin) ?? Date.now())) / 1_000);
        log.write('connection closed', { ...known(origin), vhost: undefined, seconds, reason, why });
      },
      refused: (origin, why, reason, code) => {
        reportRejected(metrics, log, { ...known(origin), reason, code, why });
      },
      published: () => {
        tally.published += 1;
      },
      settled: (result, count) => {
        tally[result] += count;
      },
      commanded: () => {
        tally.delivered += 1;
      },
    },
  );
}

function known({ connection, address, username }: Origin) {
  return { protocol: 'mqtt' as const, connection, address, username: username === '' ? undefined : username };
}
