/** A partner on amqplib, which leaves reconnecting to its user. */
import { connect } from 'amqplib';
import { broker, done, readStatus, resumed, say, signedCommand } from './client.ts';

const tls = { ca: [broker.ca], noDelay: true };
await connect(broker.wrongUrl, tls).catch((error: Error) => say('refused', error.message));

for (const life of [1, 2, 3]) {
  await resumed();
  const connection = await connect(broker.url, tls);
  const lost = new Promise((resolve) => connection.once('close', resolve));
  connection.on('error', () => {}); // amqplib reports the error again at close.
  say('connected');

  const channel = await connection.createConfirmChannel();
  const { id, body } = signedCommand();
  channel.publish('vcp', broker.routingKey, Buffer.from(body), { contentType: 'application/json' });
  await channel.waitForConfirms();
  say('confirmed', id);

  const status = await new Promise((resolve, reject) => {
    const take = channel.consume(broker.statusQueue, (message) => {
      if (!message) return;
      channel.ack(message);
      const event = readStatus(message.content.toString());
      if (event.correlationId === id) resolve(event.status);
    });
    take.catch(reject);
  });
  say('acked', id, status);

  if (life === 1) {
    channel.publish('vcp', broker.routingKey, Buffer.from('no envelope'));
    await channel.waitForConfirms();
    const message = await channel.get(broker.deadLetterQueue, { noAck: true });
    say('got', message === false ? message : String(message.content));

    const other = await connection.createConfirmChannel();
    const denied = new Promise<Error>((resolve) => other.once('error', resolve));
    other.publish('vcp', 'other.command.device', Buffer.from(body));
    say('denied', (await denied).message);
  }
  if (life < 3) say('lost', await lost);
  else await connection.close();
}
done();
