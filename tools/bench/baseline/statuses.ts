/** The statuses that devices report, and the alarm that begins with ERROR and ends with any other status. */
import { randomUUID } from 'node:crypto';
import type { DeviceMessage } from '../../../protocol/device-message.ts';
import { Batches } from './batches.ts';
import { type PartnerKey, signedEvent } from './checks.ts';
import type { Outbox } from './outbox.ts';
import type { Database, NewStatus } from './statements.ts';

interface Reported {
  status: NewStatus;
  done: () => void;
}

/** The alarm of a device in ERROR. */
interface OpenAlarm {
  alarmId: string;
  raisedAt: string;
}

export class Statuses {
  readonly #key: PartnerKey;
  readonly #open = new Map<string, OpenAlarm>();
  readonly #batches: Batches<Reported>;

  constructor(database: Database, outbox: Outbox, key: PartnerKey) {
    this.#key = key;
    this.#batches = new Batches(async (reported) => {
      await database.storeStatuses(reported.map(({ status }) => status));
      for (const { status, done } of reported) {
        for (const one of status.outgoing) outbox.send(one);
        done();
      }
    });
  }

  receive(
    siteId: string,
    deviceId: string,
    { status, ts }: Extract<DeviceMessage, { topic: 'status' }>,
    done: () => void,
  ): void {
    const reportedAt = new Date(ts).toISOString();
    const alarm = this.#alarmOf(deviceId, status === 'ERROR', reportedAt);
    const outgoing = [];
    if (alarm) {
      const event = signedEvent(this.#key, 'alarm', { siteId }, alarm, Date.now());
      outgoing.push({ id: event.messageId, address: event.routingKey, body: event.body });
    }
    this.#batches.add({ status: { id: randomUUID(), deviceId, status, reportedAt, outgoing }, done });
  }

  /** The alarm that begins or ends with this status. */
  #alarmOf(deviceId: string, isError: boolean, at: string): object | undefined {
    const open = this.#open.get(deviceId);
    if (isError === (open !== undefined)) return undefined;
    const about = { type: 'DEVICE_FAULT', severity: 'CRITICAL', deviceId } as const;
    if (open) {
      this.#open.delete(deviceId);
      const message = 'The device reports no fault any more';
      return { ...about, ...open, status: 'CLEARED', message, clearedAt: at };
    }
    const raised = { alarmId: randomUUID(), raisedAt: at };
    this.#open.set(deviceId, raised);
    return { ...about, ...raised, status: 'RAISED', message: 'The device reports a fault' };
  }
}
