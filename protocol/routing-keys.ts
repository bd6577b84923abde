/** Routing keys, queues and what a partner needs to publish each (spec: Partner message-broker operations, Events). */
import { COMMAND_TYPES, type CommandType } from './enums.ts';
import { ok, type Result, refuse } from './result.ts';
import { type ApiKeyScope, VCP_WRITE_SCOPES } from './scopes.ts';

export const EXCHANGE = 'vcp';

/** What each command kind is published under, by whom, and whether it must be signed. */
const FAMILIES = {
  SITE_SETPOINT: { family: 'site-setpoint', scope: 'vcp:write:setpoint', signed: false },
  DEVICE_COMMAND: { family: 'device', scope: 'vcp:write:device-command', signed: true },
  EMERGENCY: { family: 'emergency', scope: null, signed: false },
  MODE_CHANGE: { family: 'mode', scope: 'vcp:write:mode', signed: true },
  SCHEDULE: { family: 'schedule', scope: 'vcp:write:schedule', signed: true },
  CONFIG: { family: 'config', scope: 'vcp:write:config', signed: false },
} as const satisfies Record<CommandType, Omit<FamilyRule, 'commandType'> & { family: string }>;

/** The command families of this interface, by the word behind `{slug}.command.`; areas of their own by that behind the slug. */
export type CommandFamily = (typeof FAMILIES)[CommandType]['family'];

interface FamilyRule {
  commandType: CommandType;
  /** The publish right; null = any vcp:write:* scope. */
  scope: ApiKeyScope | null;
  /** Whether a signature is required whatever the organization's settings say [C-7.2]. */
  signed: boolean;
}

export const FAMILY_RULES = Object.fromEntries(
  COMMAND_TYPES.map((commandType) => {
    const { family, scope, signed } = FAMILIES[commandType];
    return [family, { commandType, scope, signed }];
  }),
) as Readonly<Record<CommandFamily, FamilyRule>>;

export const COMMAND_FAMILIES = Object.keys(FAMILY_RULES) as readonly CommandFamily[];

/** Families that are no `{slug}.command.…`: a word of theirs comes behind. */
const AREAS: readonly CommandFamily[] = ['schedule', 'config'];

/**
 * The command family that a routing key names for an organization, or why there is none. The first word is the
 * slug itself: `acme` never owns `acme2.…` [C-6.2]. `{slug}.command.device.*` is the device family, `{slug}.schedule.*`
 * and `{slug}.config.*` are theirs, whatever the last word: which of them mean something is its payload's to say [C-7.9].
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

/** The key that a command of a family is published under, where it has a word of its own `set`. */
export function commandRoutingKey(slug: string, family: CommandFamily): string {
  return AREAS.includes(family) ? `${slug}.${family}.set` : `${slug}.command.${family}`;
}

/** Whether a publish is an emergency by its name: it waits for nothing [C-6.5]. */
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

/** What an event is about; the key behind the slug and the queue that it lands in [C-8.1]. */
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

/** The queues of a vhost that a partner may read, by the last words of their names. */
export const QUEUE_NAMES = [
  'event.telemetry',
  'event.alarm',
  'event.status',
  'event.execution',
  'dead-letter',
] as const;
export type QueueName = (typeof QUEUE_NAMES)[number];

/** Explicit bindings: `*` is one word, so `event.*` would not match `event.command.ack` [C-6.1]. */
export const EVENT_QUEUES: Record<EventKind, QueueName> = {
  telemetry: 'event.telemetry',
  alarm: 'event.alarm',
  ack: 'event.status',
  execution: 'event.execution',
};

export function fullQueueName(slug: string, queue: QueueName): string {
  return `vcp.${slug}.${queue}`;
}

/** The queue that a full name means in an organization's vhost; undefined for any other name. */
export function queueByFullName(slug: string, name: string): QueueName | undefined {
  return QUEUE_NAMES.find((queue) => fullQueueName(slug, queue) === name);
}
