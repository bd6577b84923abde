/** The alarm of a sub-device: it begins when the gateway's signal `{externalId}/fault` is not 0, and ends when it is 0. */
import { randomUUID } from 'node:crypto';
import { Batches } from './batches.ts';
import { type PartnerKey, type Plant, signedEvent } from './checks.ts';
import type { Outbox } from './outbox.ts';
import type { Database, NewAlarm } from './statements.ts';

const SIGNAL = '/fault';

interface OpenAlarm {
  alarmId: string;
  raisedAt: string;
}

export class Faults {
  readonly #key: PartnerKey;
  /** By plant and external id. */
  readonly #open = new Map<string, OpenAlarm>();
  readonly #batches: Batches<NewAlarm>;

  constructor(database: Database, outbox: Outbox, key: PartnerKey) {
    this.#key = key;
    this.#batches = new Batches(async (alarms) => {
      await database.storeAlarms(alarms);
      for (const alarm of alarms) for (const one of alarm.outgoing) outbox.send(one);
    });
  }

  /** Most readings have no such signal. */
  check(plant: Plant, data: Readonly<Record<string, number>>, dataText: string): void {
    if (!dataText.includes(SIGNAL)) return;
    for (const deviceId of plant.subDevices.keys()) {
      const signal = data[`${deviceId}${SIGNAL}`];
      if (signal !== undefined) this.#note(plant.id, deviceId, signal !== 0);
    }
  }

  #note(siteId: string, deviceId: string, isInFault: boolean): void {
    const place = `${siteId} ${deviceId}`;
    const open = this.#open.get(place);
    if (isInFault === (open !== undefined)) return;
    const now = Date.now();
    const at = new Date(now).toISOString();
    const { alarmId, raisedAt } = open ?? { alarmId: randomUUID(), raisedAt: at };
    if (open) this.#open.delete(place);
    else this.#open.set(place, { alarmId, raisedAt });
    const alarm = {
      ...{ alarmId, type: 'DEVICE_FAULT', severity: 'CRITICAL', deviceId, raisedAt },
      ...(open
        ? { status: 'CLEARED', message: `${deviceId} reports no fault any more`, clearedAt: at }
        : { status: 'RAISED', message: `${deviceId} reports a fault` }),
    };
    const { messageId, routingKey, body } = signedEvent(this.#key, 'alarm', { siteId }, alarm, now);
    const outgoing = [{ id: messageId, address: routingKey, body }];
    this.#batches.add({ id: messageId, siteId, deviceId, status: alarm.status, at, outgoing });
  }
}
