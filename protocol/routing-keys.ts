/** Routing keys with the scopes they need, and queue names (spec: Partner message-broker operations, Events). */
import { ok, type Result, refuse } from './result.ts';
import { type ApiKeyScope, VCP_WRITE_SCOPES } from './scopes.ts';

export const EXCHANGE = 'vcp';

/**
 * The command types [C-7.5]. For each: its family, the scope to publish it, and whether it must be signed. The
 * compiler requires a payload, a kind and an owner for each.
 */
const FAMILIES = {
  SITE_SETPOINT: { family: 'site-setpoint', scope: 'vcp:write:setpoint', signed: false },
  DEVICE_COMMAND: { family: 'device', scope: 'vcp:write:device-command', signed: true },
  EMERGENCY: { family: 'emergency', scope: null, signed: false },
  MODE_CHANGE: { family: 'mode', scope: 'vcp:write:mode', signed: true },
  SCHEDULE: { family: 'schedule', scope: 'vcp:write:schedule', signed: true },
  CONFIG: { family: 'config', scope: 'vcp:write:config', signed: false },
} as const satisfies Record<string, Omit<FamilyRule, 'commandType'> & { family: string }>;

export type CommandType = keyof typeof FAMILIES;
export const COMMAND_TYPES = Object.keys(FAMILIES) as [CommandType, ...CommandType[]];

/** The word after `{slug}.command.` in a routing key; for schedules and configuration the word after `{slug}.`. */
export type CommandFamily = (typeof FAMILIES)[CommandType]['family'];

interface FamilyRule {
  commandType: CommandType;
  /** The scope needed to publish; null = any vcp:write:* scope. */
  scope: ApiKeyScope | null;
  /** Whether a signature is required even if the organization's settings do not require it [C-7.2]. */
  signed: boolean;
}

export const FAMILY_RULES = Object.fromEntries(
  COMMAND_TYPES.map((commandType) => {
    const { family, scope, signed } = FAMILIES[commandType];
    return [family, { commandType, scope, signed }];
  }),
) as Readonly<Record<CommandFamily, FamilyRule>>;

export const COMMAND_FAMILIES = Object.keys(FAMILY_RULES) as readonly CommandFamily[];

/** Families that are published as `{slug}.{family}.{verb}` instead of `{slug}.command.{family}`. */
const AREAS: readonly CommandFamily[] = ['schedule', 'config'];

/**
 * The command family of a routing key, or why it has none: `slug` if its first word is not exactly the slug
 * (`acme` never owns `acme2.…` [C-6.2]), else `unknown`. `{slug}.command.device.*` belongs to the device
 * family. Any verb of `{slug}.schedule.*` and `{slug}.config.*` is accepted here; the payload parser rejects
 * unknown ones [C-7.9].
 */
export function commandFamily(slug: string, routingKey: string): Result<CommandFamily, 'slug' | 'unknown'> {
  const words = routingKey.split('.');
  if (words[0] !== slug || words.length < 2) return refuse('slug');
  const [, area, name = '', ...rest] = words;
  const own = AREAS.find((known) => known === area);
  if (own) return isPlainWord(name) && rest.length === 0 ? ok(own) : refuse('unknown');
  if (area !== 'command') return refuse('unknown');
  if (name === 'device')
    return rest.length <= 1 && rest.every(isPlainWord) ? ok('device') : refuse('unknown');
  const family = COMMAND_FAMILIES.find((known) => known === name && !AREAS.includes(known));
  return family && rest.length === 0 ? ok(family) : refuse('unknown');
}

/** Words of letters, digits, `_` and `-` [C-15.2]. */
const ROUTING_KEY = /^(?=.{1,127}$)[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+){0,15}$/;
export const ROUTING_KEY_RULE = 'must be 1-16 words of A-Z a-z 0-9 _ -, joined by dots, at most 127 bytes';

export function isRoutingKey(text: string): boolean {
  return ROUTING_KEY.test(text);
}

/** The routing key of a family's command: `{slug}.{family}.set` for schedule and config. */
export function commandRoutingKey(slug: string, family: CommandFamily): string {
  return AREAS.includes(family) ? `${slug}.${family}.set` : `${slug}.command.${family}`;
}

/** Whether the routing key is that of an emergency, which overtakes held publishes [C-6.5]. */
export function isEmergencyKey(routingKey: string): boolean {
  return /^[^.]+\.command\.emergency$/.test(routingKey);
}

function isPlainWord(word: string): boolean {
  return word !== '' && word !== '*' && word !== '#';
}

export function mayPublish(family: CommandFamily, scopes: ReadonlySet<ApiKeyScope>): boolean {
  const { scope } = FAMILY_RULES[family];
  return scope === null ? VCP_WRITE_SCOPES.some((write) => scopes.has(write)) : scopes.has(scope);
}

/** The kinds of events. Each kind has a routing key and a queue [C-8.1]. */
export const EVENT_KINDS = ['telemetry', 'alarm', 'ack', 'execution'] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

const EVENT_KEYS: Record<EventKind, string> = {
  telemetry: 'event.telemetry',
  alarm: 'event.alarm',
  ack: 'event.command.ack',
  execution: 'event.execution',
};

export function eventRoutingKey(slug: string, kind: EventKind): string {
  return `${slug}.${EVENT_KEYS[kind]}`;
}

/** The kind of an event by its routing key, whatever its slug; undefined: it is the key of no event. */
export function eventKind(routingKey: string): EventKind | undefined {
  const key = routingKey.slice(routingKey.indexOf('.') + 1);
  return EVENT_KINDS.find((kind) => EVENT_KEYS[kind] === key);
}

/** The queues of every vhost, by the end of their names. */
export const QUEUE_NAMES = [
  'event.telemetry',
  'event.alarm',
  'event.status',
  'event.execution',
  'dead-letter',
] as const;
export type QueueName = (typeof QUEUE_NAMES)[number];

/**
 * The queue of each event kind. Each kind is listed, because a wildcard binding would miss one: `*` matches
 * only one word, so `event.*` does not match `event.command.ack` [C-6.1].
 */
export const EVENT_QUEUES: Record<EventKind, QueueName> = {
  telemetry: 'event.telemetry',
  alarm: 'event.alarm',
  ack: 'event.status',
  execution: 'event.execution',
};

export function fullQueueName(slug: string, queue: QueueName): string {
  return `vcp.${slug}.${queue}`;
}

/** The queue with this full name in the organization's vhosts; undefined for any other name. */
export function queueByFullName(slug: string, name: string): QueueName | undefined {
  return QUEUE_NAMES.find((queue) => fullQueueName(slug, queue) === name);
}
