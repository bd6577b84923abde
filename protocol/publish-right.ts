/**
 * Checks whether an API key may publish [C-6.2]. The bridge checks in the order of the client's frames, and the
 * key's Vhost checks again. Codes and beginnings of texts are those of RabbitMQ. Pure.
 */
import { ok, type Result, refuse } from './result.ts';
import { type CommandFamily, commandFamily, EXCHANGE, FAMILY_RULES, mayPublish } from './routing-keys.ts';
import type { ApiKeyScope } from './scopes.ts';

/** An AMQP close: what is closed (`severity`), with which code and complete reply text. */
export interface AmqpRefusal {
  severity: 'channel' | 'connection';
  code: number;
  text: string;
}

/** The organization's slug, which is the AMQP user name, and the name of the key's vhost. */
export interface VhostNames {
  slug: string;
  vhost: string;
}

export function channelRefusal(code: number, text: string): AmqpRefusal {
  return { severity: 'channel', code, text };
}

const KEY_FAULTS = {
  slug: 'a routing key begins with the user name and a dot',
  unknown: 'no command has this routing key',
} as const;

/** Codes and beginnings of texts are RabbitMQ's; the end of a text says whether the routing key or the scope is wrong. */
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
  const why = family.ok
    ? `the API key lacks the scope ${missingScope(family.value)}`
    : KEY_FAULTS[family.refusal];
  return refuse(
    channelRefusal(
      403,
      `ACCESS_REFUSED - access to topic '${routingKey}' in exchange '${EXCHANGE}' ${where}: ${why}`,
    ),
  );
}

function missingScope(family: CommandFamily): string {
  return FAMILY_RULES[family].scope ?? 'vcp:write:* (any of them)';
}
