/**
 * Whether a key may publish: judged on the bridge, in the order of the client's frames, and again in the key's Vhost
 * [C-6.2]. RabbitMQ's codes and texts. Pure.
 */
import { ok, type Result, refuse } from './result.ts';
import { type CommandFamily, commandFamily, EXCHANGE, mayPublish } from './routing-keys.ts';
import type { ApiKeyScope } from './scopes.ts';

/** An AMQP reply: what closes, with which code and whole text. */
export interface AmqpRefusal {
  severity: 'channel' | 'connection';
  code: number;
  text: string;
}

/** A key's names: its organization's slug, which is its AMQP user, and its vhost. */
export interface VhostNames {
  slug: string;
  vhost: string;
}

export function channelRefusal(code: number, text: string): AmqpRefusal {
  return { severity: 'channel', code, text };
}

export function authorizePublish(
  names: VhostNames,
  scopes: ReadonlySet<ApiKeyScope>,
  exchange: string,
  routingKey: string,
): Result<CommandFamily, AmqpRefusal> {
  const where = `in vhost '${names.vhost}' refused for user '${names.slug}'`;
  if (exchange !== EXCHANGE) {
    const name = exchange === '' ? 'amq.default' : exchange;
    return refuse(channelRefusal(403, `ACCESS_REFUSED - access to exchange '${name}' ${where}`));
  }
  const family = commandFamily(names.slug, routingKey);
  if (family.ok && mayPublish(family.value, scopes)) return ok(family.value);
  return refuse(
    channelRefusal(
      403,
      `ACCESS_REFUSED - access to topic '${routingKey}' in exchange '${EXCHANGE}' ${where}`,
    ),
  );
}
