/**
 * Commands of the baseline: from the partner's publish to the acknowledgement event and the MQTT command, and from the
 * device's acknowledgement to the execution events. Each of both is one transaction, shared by all that wait for it.
 */
import { randomUUID } from 'node:crypto';
import type { ConfirmChannel, ConsumeMessage } from 'amqplib';
import type { DeviceMessage } from '../../../protocol/device-message.ts';
import type { EventKind } from '../../../protocol/routing-keys.ts';
import { deviceTopic } from '../../../protocol/topics.ts';
import { Batches } from './batches.ts';
import { checkPublish, judge, type PartnerKey, type Plant, signedCommand, signedEvent } from './checks.ts';
import type { Outbox } from './outbox.ts';
import type { Database, EndedCommand, NewCommand, OpenCommand, Outgoing } from './statements.ts';

interface Stored {
  message: ConsumeMessage;
  command: NewCommand;
}

interface Ended {
  command: EndedCommand;
  done: () => void;
}

export class Commands {
  readonly #database: Database;
  readonly #channel: ConfirmChannel;
  readonly #outbox: Outbox;
  readonly #key: PartnerKey;
  readonly #plants: ReadonlyMap<string, Plant>;
  readonly #open: Map<string, OpenCommand>;
  readonly #arriving: Batches<Stored>;
  readonly #ending: Batches<Ended>;

  constructor(
    database: Database,
    channel: ConfirmChannel,
    outbox: Outbox,
    key: PartnerKey,
    plants: ReadonlyMap<string, Plant>,
    open: readonly OpenCommand[],
  ) {
    this.#database = database;
    this.#channel = channel;
    this.#outbox = outbox;
    this.#key = key;
    this.#plants = plants;
    this.#open = new Map(open.map((command) => [command.id, command]));
    this.#arriving = new Batches((items) => this.#store(items));
    this.#ending = new Batches((items) => this.#end(items));
  }

  receive(message: ConsumeMessage): void {
    const { routingKey } = message.fields;
    const checked = checkPublish(this.#key, routingKey, message.content.toString('utf8'));
    if (!checked.ok) {
      this.#channel.nack(message, false, false);
      return;
    }
    const { envelope, items } = checked.value;
    const { siteId, correlationId, messageId, source, payloadText } = envelope;
    const plant = this.#plants.get(siteId);
    const acknowledgement = judge(checked.value, plant);
    const isAccepted = acknowledgement.status === 'ACCEPTED';
    const now = Date.now();
    const id = randomUUID();
    const outgoing = [this.#event('ack', { siteId, correlationId }, acknowledgement, now)];
    if (plant && isAccepted) {
      const { gateway } = plant;
      const body = signedCommand(gateway, id, items, now);
      outgoing.push({ id, address: deviceTopic(gateway.id, 'commands'), body });
    }
    this.#arriving.add({
      message,
      command: {
        ...{ id, messageId, correlationId: correlationId ?? null, siteId, routingKey, source },
        status: isAccepted ? 'PENDING' : 'REJECTED',
        message: acknowledgement.message ?? null,
        payloadText,
        createdAt: new Date(now).toISOString(),
        outgoing,
      },
    });
  }

  /** Calls `done` when the message has been dealt with. */
  acknowledged(message: Extract<DeviceMessage, { topic: 'ack' }>, done: () => void): void {
    const { cmdId, status, ts } = message;
    const open = this.#open.get(cmdId);
    if (!open) {
      done();
      return;
    }
    this.#open.delete(cmdId);
    const about = { siteId: open.siteId, correlationId: open.correlationId ?? undefined };
    const event = (status: string) => {
      const payload = { commandType: 'DEVICE_COMMAND', status };
      return this.#event('execution', about, payload, Date.now());
    };
    const ended = status === 'COMPLETED' ? 'COMPLETED' : 'FAILED';
    const outgoing = [event('EXECUTING'), event(ended)];
    const command = { id: cmdId, status: ended, endedAt: new Date(ts).toISOString(), outgoing };
    this.#ending.add({ command, done });
  }

  #event(
    kind: EventKind,
    about: { siteId: string; correlationId?: string | undefined },
    payload: object,
    now: number,
  ): Outgoing {
    const { messageId, routingKey, body } = signedEvent(this.#key, kind, about, payload, now);
    return { id: messageId, address: routingKey, body };
  }

  async #store(stored: readonly Stored[]): Promise<void> {
    // A messageId that is twice in a batch counts once.
    const unique = new Map(stored.map(({ command }) => [command.messageId, command]));
    const fresh = await this.#database.storeCommands([...unique.values()]);
    for (const command of unique.values()) {
      if (!fresh.has(command.messageId)) continue;
      const { id, siteId, correlationId, status } = command;
      if (status === 'PENDING') this.#open.set(id, { id, siteId, correlationId });
      for (const one of command.outgoing) this.#outbox.send(one);
    }
    // Batches are in the order of arrival, so one acknowledgement is enough for all of one.
    const last = stored.at(-1);
    if (last) this.#channel.ack(last.message, true);
  }

  async #end(ended: readonly Ended[]): Promise<void> {
    await this.#database.endCommands(ended.map(({ command }) => command));
    for (const { command, done } of ended) {
      for (const one of command.outgoing) this.#outbox.send(one);
      done();
    }
  }
}
