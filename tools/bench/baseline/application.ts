/**
 * The baseline's application, one process: consumes the partners' commands from RabbitMQ and the devices' messages from
 * mosquitto, stores them in PostgreSQL, and answers REST reads.
 */
import { connect } from 'amqplib';
import { Pool } from 'pg';
import type { DevicePublishTopic } from '../../../protocol/topics.ts';
import { checkDeviceMessage } from './checks.ts';
import { Commands } from './commands.ts';
import { DeviceBroker, type DeviceMessageText } from './device-broker.ts';
import { Faults } from './faults.ts';
import { Outbox } from './outbox.ts';
import { Readings } from './readings.ts';
import { listenRest } from './routes.ts';
import { COMMAND_QUEUE, type Settings } from './settings.ts';
import { Database } from './statements.ts';

const CONNECTIONS = 8;
/** Commands that are under way at most. */
const PREFETCH = 1_000;

const settings = JSON.parse(process.env.SITEWIRE_BASELINE ?? '') as Settings;
const database = new Database(new Pool({ ...settings.database, max: CONNECTIONS }));
const plants = await database.plants();
const gateways = new Map([...plants.values()].map((plant) => [plant.gateway.id, plant]));

const amqp = await connect(settings.rabbitMq, { noDelay: true });
const channel = await amqp.createConfirmChannel();
// Messages of devices arrive as soon as the connection is there; the parts that receive them need it to exist.
const early: DeviceMessageText[] = [];
let receive = (message: DeviceMessageText): void => {
  early.push(message);
};
const devices = await DeviceBroker.connect(settings.mqttPort, settings.mqttLogin, (message) =>
  receive(message),
);
const outbox = new Outbox(database, channel, devices);
const commands = new Commands(
  ...([database, channel, outbox] as const),
  ...([settings.key, plants, await database.openCommands()] as const),
);
const readings = new Readings(database, (stored) => process.send?.({ stored }));
const faults = new Faults(database, outbox, settings.key);

receive = ({ packetId, deviceId, topic, text }) => {
  const done = () => devices.acknowledge(packetId);
  const plant = gateways.get(deviceId);
  const checked = plant && checkDeviceMessage(plant.gateway, topic as DevicePublishTopic, text, Date.now());
  if (!plant || !checked?.ok) {
    readings.dropped += 1;
    done();
    return;
  }
  const message = checked.value;
  if (message.topic === 'telemetry') {
    readings.add(deviceId, message, done);
    faults.check(plant, message.data, message.dataText);
  } else if (message.topic === 'ack') commands.acknowledged(message, done);
  else done();
};
for (const message of early.splice(0)) receive(message);
for (const one of await database.outgoing()) outbox.send(one);

await channel.prefetch(PREFETCH);
await channel.consume(COMMAND_QUEUE, (message) => {
  if (message) commands.receive(message);
});
const port = await listenRest(database, settings.restPort, readings);
process.send?.({ port });
// The benchmark ends: so does its application.
process.on('disconnect', () => process.exit());
