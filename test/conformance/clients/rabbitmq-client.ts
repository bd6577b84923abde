/** A partner on rabbitmq-client, which connects, consumes and reconnects by itself. */
import { EventEmitter, on, once } from 'node:events';
import { Connection } from 'rabbitmq-client';
import { broker, done, say, signedCommand } from './client.ts';

const wrong = new Connection({ url: broker.wrongUrl, tls: { ca: broker.ca } });
const refused = new Promise<{ code: string }>((resolve) => wrong.once('error', resolve));
say('refused', (await refused).code);
wrong.unsafeDestroy();

const rabbit = new Connection({
  url: broker.url,
  tls: { ca: broker.ca },
  noDelay: true,
  retryLow: 100,
  retryHigh: 200,
});
const events = new EventEmitter();
const connections = on(events, 'connected');
let isConnected = false;
rabbit.on('connection', () => {
  isConnected = true;
  events.emit('connected');
});
rabbit.on('error', (error) => {
  if (isConnected) say('lost', error.code);
  isConnected = false;
});
const consuming = { queue: broker.statusQueue, queueOptions: { passive: true }, qos: { prefetchCount: 10 } };
const consumer = rabbit.createConsumer(consuming, ({ body }) => {
  // The client has already parsed the JSON.
  events.emit(body.correlationId, body.payload.status);
});
consumer.on('error', (error) => isConnected && say('consumer', error.message));
const publisher = rabbit.createPublisher({ confirm: true });

for (const life of [1, 2, 3]) {
  await connections.next();
  say('connected');
  const { id, body } = signedCommand();
  const acknowledged = once(events, id);
  await publisher.send(
    { exchange: 'vcp', routingKey: broker.routingKey, contentType: 'application/json' },
    Buffer.from(body),
  );
  say('confirmed', id);
  say('acked', id, ...(await acknowledged));

  if (life === 1) {
    await publisher.send({ exchange: 'vcp', routingKey: broker.routingKey }, Buffer.from('no envelope'));
    const message = await rabbit.basicGet({ queue: broker.deadLetterQueue, noAck: true });
    say('got', message?.body);
    const foreign = { exchange: 'vcp', routingKey: 'other.command.device' };
    const other = rabbit.createPublisher({ confirm: true });
    await other.send(foreign, Buffer.from(body)).catch((error) => say('denied', error.code));
  }
}
await consumer.close();
await publisher.close();
await rabbit.close();
done();
