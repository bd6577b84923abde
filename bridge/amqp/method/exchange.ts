/** The methods of class exchange: only the exchange `vcp` exists, and clients cannot change it [C-6.1]. */
import { EXCHANGE } from '../../../protocol/routing-keys.ts';
import type { MethodHandler } from '../channel.ts';
import { channelError, connectionError } from '../wire/amqp-error.ts';
import { type Fields, METHOD } from '../wire/codec.ts';
import { behindStrings, readArguments } from '../wire/table.ts';
import { accessRefused, checkNotDefault } from './method.ts';

const OURS = { type: 'topic', durable: true, autoDelete: false, internal: false } as const;
const ARGUMENT_NAMES = {
  type: 'type',
  durable: 'durable',
  autoDelete: 'auto_delete',
  internal: 'internal',
} as const;
const ALTERNATE = 'alternate-exchange';
const TYPES = ['direct', 'fanout', 'topic', 'headers'];

export const declareExchange: MethodHandler = (channel, fields, method, args) => {
  const name = String(fields.exchange);
  const { vhost } = channel.host;
  const isPassive = fields.passive === true;
  if (!isPassive) checkType(String(fields.type), method);
  checkNotDefault(name, method);
  if (name !== EXCHANGE) {
    if (!isPassive) throw accessRefused(channel, 'exchange', name, method);
    throw channelError(404, `no exchange '${name}' in vhost '${vhost}'`, method);
  }
  const difference = isPassive ? undefined : firstDifference(fields, args);
  if (difference) {
    const { argument, text } = difference;
    const what = `inequivalent arg '${argument}' for exchange '${name}' in vhost '${vhost}': ${text}`;
    throw channelError(406, what, method);
  }
  if (fields.nowait !== true) channel.reply(METHOD.exchangeDeclareOk, {});
};

export const refuseExchange: MethodHandler = (channel, fields, method) => {
  const name = String(fields.exchange ?? fields.destination);
  checkNotDefault(name, method);
  throw accessRefused(channel, 'exchange', name, method);
};

function checkType(type: string, method: number): void {
  if (type === '') throw connectionError(503, "invalid exchange type ''", method);
  if (!TYPES.includes(type)) throw connectionError(503, `unknown exchange type '${type}'`, method);
}

/** RabbitMQ compares only one argument of an exchange, `alternate-exchange`; ours has none. */
function firstDifference(fields: Fields, args: Buffer): { argument: string; text: string } | undefined {
  for (const key of Object.keys(OURS) as (keyof typeof OURS)[]) {
    if (fields[key] === OURS[key]) continue;
    return {
      argument: ARGUMENT_NAMES[key],
      text: `received '${fields[key]}' but current is '${OURS[key]}'`,
    };
  }
  const alternate = readArguments(args, behindStrings(args, 2) + 1).find(({ name }) => name === ALTERNATE);
  if (!alternate) return undefined;
  const text = `received the value '${alternate.value}' of type '${alternate.type}' but current is none`;
  return { argument: ALTERNATE, text };
}
