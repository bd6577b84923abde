/** A partner on a session of @cloudamqp/amqp-client, which connects, consumes and reconnects by itself. */
import { EventEmitter, on, once } from 'node:events';
import { AMQPSession } from '@cloudamqp/amqp-client';
import { broker, done, readStatus, say, signedCommand } from './client.ts';

const options = {
  tlsOptions: { ca: broker.ca },
  reconnectInterval: 100,
  maxReconnectInterval: 200,
  logger: null,
};
await AMQPSession.connect(broker.wrongUrl, options).catch((error: Error) => say('refused', error.message));

const events = new EventEmitter();
const connections = on(events, 'connected');
const session = await AMQPSession.connect(broker.url, {
  ...options,
  onconnect: () => events.emit('connected'),
  ondisconnect: (error) => say('lost', error?.message),
});
const exchange = await session.topicExchange('vcp', { passive: true });
const queue = await session.queue(broker.statusQueue, { passive: true });
await queue.subscribe((message) => {
  const { correlationId, status } = readStatus(message.bodyString() ?? '');
  events.emit(correlationId, status);
});

for (const life of [1, 2, 3]) {
  await connections.next();
  say('connected');
  const { id, body } = signedCommand();
  const acknowledged = once(events, id);
  await exchange.publish(body, { routingKey: broker.routingKey, contentType: 'application/json' as never });
  say('confirmed', id);
  say('acked', id, ...(await acknowledged));

  if (life === 1) {
    await exchange.publish('no envelope', { routingKey: broker.routingKey });
    const deadLetters = await session.queue(broker.deadLetterQueue, { passive: true });
    say('got', (await deadLetters.get({ noAck: true }))?.bodyString());
    const foreign = exchange.publish(body, { routingKey: 'other.command.device' });
    await foreign.catch((error: Error) => say('denied', error.message));
  }
}
await session.stop();
done();
