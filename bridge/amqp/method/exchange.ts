/** The methods of class exchange: only our own exchange exists, and it is not the client's to change [C-6.1]. */
import { EXCHANGE } from '../../../protocol/routing-keys.ts';
import { channelError } from '../wire/amqp-error.ts';
import { METHOD } from '../wire/codec.ts';
import { accessRefused, type MethodHandler } from './method.ts';

const OURS = { type: 'topic', durable: true, autoDelete: false, internal: false } as const;
const ARGUMENT_NAMES = {
  type: 'type',
  durable: 'durable',
  autoDelete: 'auto_delete',
  internal: 'internal',
} as const;

export const declareExchange: MethodHandler = (channel, fields, method) => {
  const name = String(fields.exchange);
  const { vhost } = channel.host;
  if (name !== EXCHANGE) {
    if (fields.passive !== true) throw accessRefused(channel, 'exchange', name, method);
    throw channelError(404, `no exchange '${name}' in vhost '${vhost}'`, method);
  }
  for (const key of Object.keys(OURS) as (keyof typeof OURS)[]) {
    if (fields.passive === true || fields[key] === OURS[key]) continue;
    const what = `inequivalent arg '${ARGUMENT_NAMES[key]}' for exchange '${name}' in vhost '${vhost}': received '${fields[key]}' but current is '${OURS[key]}'`;
    throw channelError(406, what, method);
  }
  if (fields.nowait !== true) channel.reply(METHOD.exchangeDeclareOk, {});
};

export const refuseExchange: MethodHandler = (channel, fields, method) => {
  throw accessRefused(channel, 'exchange', String(fields.exchange ?? fields.destination), method);
};
