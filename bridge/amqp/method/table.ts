/** The methods that a client may send on an open channel, with their handlers. */
import { type MethodHandler, secondOpen } from '../channel.ts';
import { connectionError } from '../wire/amqp-error.ts';
import { METHOD } from '../wire/codec.ts';
import { cancel, consume, get, qos, recover, settle } from './basic.ts';
import { declareExchange, refuseExchange } from './exchange.ts';
import { bindQueue, declareQueue, deleteQueue, purgeQueue } from './queue.ts';

const refuseTx: MethodHandler = (_channel, _fields, method) => {
  throw connectionError(540, 'transactions are not supported, use publisher confirms', method);
};

export const METHOD_HANDLERS: Readonly<Record<number, MethodHandler>> = {
  [METHOD.channelOpen]: (_channel, _fields, method) => {
    throw secondOpen(method);
  },
  [METHOD.channelClose]: (channel) => channel.close(),
  [METHOD.channelFlow]: (channel, fields, method) => {
    if (fields.active !== true) throw connectionError(540, 'active=false', method);
    channel.reply(METHOD.channelFlowOk, { active: true });
  },
  [METHOD.accessRequest]: (channel) => channel.reply(METHOD.accessRequestOk, { ticket: 1 }),
  [METHOD.exchangeDeclare]: declareExchange,
  [METHOD.exchangeDelete]: refuseExchange,
  [METHOD.exchangeBind]: refuseExchange,
  [METHOD.exchangeUnbind]: refuseExchange,
  [METHOD.queueDeclare]: declareQueue,
  [METHOD.queueBind]: bindQueue,
  [METHOD.queueUnbind]: bindQueue,
  [METHOD.queuePurge]: purgeQueue,
  [METHOD.queueDelete]: deleteQueue,
  [METHOD.basicQos]: qos,
  [METHOD.basicConsume]: consume,
  [METHOD.basicCancel]: cancel,
  [METHOD.basicGet]: get,
  [METHOD.basicAck]: settle,
  [METHOD.basicNack]: settle,
  [METHOD.basicReject]: settle,
  [METHOD.basicRecover]: recover,
  [METHOD.basicRecoverAsync]: recover,
  [METHOD.confirmSelect]: (channel, fields) => {
    channel.select();
    if (fields.nowait !== true) channel.reply(METHOD.confirmSelectOk, {});
  },
  [METHOD.txSelect]: refuseTx,
  [METHOD.txCommit]: refuseTx,
  [METHOD.txRollback]: refuseTx,
};
