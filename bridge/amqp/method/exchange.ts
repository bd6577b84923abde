/** The methods of class exchange: only our own exchange exists, and it is not the client's to change [C-6.1]. */
import { EXCHANGE } from '../../../protocol/routing-keys.ts';
import { channelError, connectionError } from '../wire/amqp-error.ts';
import { type Fields, METHOD } from '../wire/codec.ts';
import { accessRefused, type MethodHandler } from './method.ts';

const OURS = { type: 'topic', durable: true, autoDelete: false, internal: false } as const;
const ARGUMENT_NAMES = {
  type: 'type',
  durable: 'durable',
  autoDelete: 'auto_delete',
  internal: 'internal',
} as const;
const ALTERNATE = 'alternate-exchange';
const TYPES = ['direct', 'fanout', 'topic', 'headers'];

export const declareExchange: MethodHandler = (channel, fields, method) => {
  const name = String(fields.exchange);
  const { vhost } = channel.host;
  const isPassive = fields.passive === true;
  if (!isPassive) checkType(String(fields.type), method);
  checkNotDefault(name, method);
  if (name !== EXCHANGE) {
    if (!isPassive) throw accessRefused(channel, 'exchange', name, method);
    throw channelError(404, `no exchange '${name}' in vhost '${vhost}'`, method);
  }
  const difference = isPassive ? undefined : firstDifference(fields);
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

function checkNotDefault(name: string, method: number): void {
  if (name === '') throw channelError(403, 'operation not permitted on the default exchange', method);
}

/** Of its arguments RabbitMQ compares one, the exchange that takes what is not routed; ours has none. */
function firstDifference(fields: Fields): { argument: string; text: string } | undefined {
  for (const key of Object.keys(OURS) as (keyof typeof OURS)[]) {
    if (fields[key] === OURS[key]) continue;
    return {
      argument: ARGUMENT_NAMES[key],
      text: `received '${fields[key]}' but current is '${OURS[key]}'`,
    };
  }
  const table = (fields.arguments ?? {}) as Fields;
  if (!Object.hasOwn(table, ALTERNATE)) return undefined;
  const text = `received the value '${table[ALTERNATE]}' of type 'longstr' but current is none`;
  return { argument: ALTERNATE, text };
}
