/** Sends the rows of the outbox, and deletes those of events when RabbitMQ has confirmed them. */
import { setTimeout as pause } from 'node:timers/promises';
import type { ConfirmChannel } from 'amqplib';
import { EXCHANGE } from '../../../protocol/routing-keys.ts';
import { Batches } from './batches.ts';
import type { DeviceBroker } from './device-broker.ts';
import type { Database, Outgoing } from './statements.ts';

const DEVICE_TOPIC = 'cpi/';
/** No event waits for a deletion, so it gathers. After a crash such an event is sent again. */
const DELETE_AFTER_MS = 50;

export class Outbox {
  readonly #channel: ConfirmChannel;
  readonly #devices: DeviceBroker;
  readonly #confirmed: Batches<string>;

  constructor(database: Database, channel: ConfirmChannel, devices: DeviceBroker) {
    this.#channel = channel;
    this.#devices = devices;
    this.#confirmed = new Batches(
      async (ids) => {
        await database.deleteOutgoing(ids);
        await pause(DELETE_AFTER_MS);
      },
      { most: 10_000 },
    );
  }

  send({ id, address, body }: Outgoing): void {
    if (address.startsWith(DEVICE_TOPIC)) {
      // Its row is deleted when the device acknowledges the command.
      this.#devices.publish(address, body);
      return;
    }
    const options = { persistent: true, contentType: 'application/json', messageId: id };
    this.#channel.publish(EXCHANGE, address, Buffer.from(body), options, (error) => {
      if (error) throw new Error(`RabbitMQ rejected the event ${id}`, { cause: error });
      this.#confirmed.add(id);
    });
  }
}
