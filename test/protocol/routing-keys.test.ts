/**
 * The rights to publish: the first part of a routing key separates the tenants, so the tests list every known
 * way around it.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '#support/property.ts';
import {
  COMMAND_FAMILIES,
  commandFamily,
  commandRoutingKey,
  EVENT_KINDS,
  EVENT_QUEUES,
  eventRoutingKey,
  FAMILY_RULES,
  fullQueueName,
  isRoutingKey,
  mayPublish,
  QUEUE_NAMES,
  queueByFullName,
} from '../../protocol/routing-keys.ts';
import { API_KEY_SCOPES, type ApiKeyScope, VCP_WRITE_SCOPES } from '../../protocol/scopes.ts';

describe('commandFamily', () => {
  it.each([
    ['acme.command.site-setpoint', 'site-setpoint'],
    ['acme.command.device', 'device'],
    ['acme.command.device.BESS-1', 'device'],
    ['acme.command.device.command', 'device'],
    ['acme.command.emergency', 'emergency'],
    ['acme.command.mode', 'mode'],
    ['acme.schedule.set', 'schedule'],
    ['acme.schedule.cancel', 'schedule'],
    ['acme.schedule.other', 'schedule'],
    ['acme.config.set', 'config'],
    ['acme.config.other', 'config'],
  ])('reads the routing key %s as the family %s [C-6.2]', (routingKey, family) => {
    expect(commandFamily('acme', routingKey)).toEqual({ ok: true, value: family });
  });

  it.each([
    'acme2.command.mode',
    'acm.command.mode',
    'Acme.command.mode',
    'ACME.command.mode',
    ' acme.command.mode',
    'acme .command.mode',
    'acme-.command.mode',
    '*.command.mode',
    '#.command.mode',
    '#',
    '*',
    '.acme.command.mode',
    '.command.mode',
    'command.mode',
    'acme',
    '',
  ])('does not accept %j as a routing key of the slug acme [C-6.2]', (routingKey) => {
    expect(commandFamily('acme', routingKey)).toEqual({ ok: false, refusal: 'slug' });
  });

  it('does not accept a routing key of acme for the longer slugs acme2 and acme-cz [C-6.2]', () => {
    expect(commandFamily('acme2', 'acme.command.mode')).toEqual({ ok: false, refusal: 'slug' });
    expect(commandFamily('acme-cz', 'acme.command.mode')).toEqual({ ok: false, refusal: 'slug' });
  });

  it.each([
    'acme.',
    'acme.command',
    'acme.command.',
    'acme..mode',
    'acme.command..mode',
    'acme.command.mode.',
    'acme.command.mode.x',
    'acme.command.Mode',
    'acme.Command.mode',
    'acme.command.*',
    'acme.command.#',
    'acme.*.mode',
    'acme.#',
    'acme.command.device.',
    'acme.command.device.*',
    'acme.command.device.#',
    'acme.command.device.a.b',
    'acme.command.device..a',
    'acme.command.reboot',
    'acme.command.constructor',
    'acme.command.config',
    'acme.config',
    'acme.config.',
    'acme.config.*',
    'acme.config.#',
    'acme.config.set.x',
    'acme.command.__proto__',
    'acme.event.telemetry',
    'acme.event.command.ack',
  ])('finds no command family for the routing key %s [C-6.2]', (routingKey) => {
    expect(commandFamily('acme', routingKey)).toEqual({ ok: false, refusal: 'unknown' });
  });

  it('accepts a routing key only when it begins with the slug and a dot [C-6.2]', () => {
    const slug = fc.stringMatching(/^[a-z0-9-]{1,6}$/);
    const word = fc.constantFrom(
      'acme',
      'command',
      'schedule',
      'config',
      'set',
      'device',
      'mode',
      '*',
      '#',
      '',
    );
    const routingKey = fc.array(fc.oneof(slug, word), { maxLength: 5 }).map((words) => words.join('.'));
    forAll(slug, routingKey, (owner, key) => {
      const family = commandFamily(owner, key);
      const area = family.ok && ['schedule', 'config'].includes(family.value) ? '' : 'command.';
      if (family.ok) expect(key.startsWith(`${owner}.${area}${family.value}`)).toBe(true);
      else expect(family.refusal).toBe(key.startsWith(`${owner}.`) ? 'unknown' : 'slug');
    });
  });
});

describe('isRoutingKey', () => {
  const words = (count: number) => Array.from({ length: count }, () => 'a').join('.');

  it.each([
    'acme',
    'acme.command.device',
    'acme.command.device.BESS_1-a',
    '-._.0',
    words(16),
    'a'.repeat(127),
    `${'a'.repeat(63)}.${'b'.repeat(63)}`,
  ])('accepts %s [C-15.2]', (text) => {
    expect(isRoutingKey(text)).toBe(true);
  });

  it.each([
    '',
    '.',
    'acme.',
    '.acme',
    'acme..command',
    words(17),
    'a'.repeat(128),
    `${'a'.repeat(63)}.${'b'.repeat(64)}`,
    'acme.*',
    'acme.#',
    'acme.command.device.a b',
    'acme.command.device\n',
    '\nacme.command.device',
    'acme.command.device.\0',
    'acme.command.device.č',
    'acme.command.device.\u202e',
    'acme.command.device.\ufffd',
    "acme.command.device.'",
    'acme.command.device."',
    'acme.command.device.`id`',
    'acme.command.device.$(id)',
    'acme.command.device.\\',
    'acme.command.device.a:b',
    'acme.command.device.a/b',
    'acme.command.device.a|b',
    'ａcme.command',
  ])('refuses %j [C-15.2]', (text) => {
    expect(isRoutingKey(text)).toBe(false);
  });

  it('accepts every routing key of ours, whatever the slug [C-15.2]', () => {
    forAll(fc.stringMatching(/^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/), (slug) => {
      for (const family of COMMAND_FAMILIES) expect(isRoutingKey(commandRoutingKey(slug, family))).toBe(true);
      for (const kind of EVENT_KINDS) expect(isRoutingKey(eventRoutingKey(slug, kind))).toBe(true);
    });
  });
});

describe('publish rights', () => {
  it.each([
    ['site-setpoint', 'vcp:write:setpoint'],
    ['device', 'vcp:write:device-command'],
    ['mode', 'vcp:write:mode'],
    ['schedule', 'vcp:write:schedule'],
    ['config', 'vcp:write:config'],
  ] as const)(
    'the family %s requires the scope %s and no other [spec: Partner message-broker operations]',
    (family, scope) => {
      expect(mayPublish(family, new Set([scope]))).toBe(true);
      const others = API_KEY_SCOPES.filter((other) => other !== scope);
      expect(mayPublish(family, new Set(others))).toBe(false);
    },
  );

  it.each(VCP_WRITE_SCOPES)('the family emergency is allowed by %s alone [C-6.2]', (scope) => {
    expect(mayPublish('emergency', new Set([scope]))).toBe(true);
  });

  it('the family emergency is forbidden to a key that has every scope except the vcp:write ones [C-6.2]', () => {
    const others = API_KEY_SCOPES.filter((scope) => !scope.startsWith('vcp:write:'));
    expect(mayPublish('emergency', new Set(others))).toBe(false);
  });

  it.each(COMMAND_FAMILIES)('the family %s is forbidden to a key without any scope [C-6.2]', (family) => {
    expect(mayPublish(family, new Set<ApiKeyScope>())).toBe(false);
  });

  it('only device commands, modes and schedules require a signature whatever the settings are [C-7.2]', () => {
    const signed = COMMAND_FAMILIES.filter((family) => FAMILY_RULES[family].signed);
    expect(signed).toEqual(['device', 'mode', 'schedule']);
  });

  it('each family has the command type that the log and the events show [C-7.5]', () => {
    expect(COMMAND_FAMILIES.map((family) => FAMILY_RULES[family].commandType)).toEqual([
      'SITE_SETPOINT',
      'DEVICE_COMMAND',
      'EMERGENCY',
      'MODE_CHANGE',
      'SCHEDULE',
      'CONFIG',
    ]);
  });
});

describe('events and queues', () => {
  it.each([
    ['telemetry', 'acme.event.telemetry', 'vcp.acme.event.telemetry'],
    ['alarm', 'acme.event.alarm', 'vcp.acme.event.alarm'],
    ['ack', 'acme.event.command.ack', 'vcp.acme.event.status'],
    ['execution', 'acme.event.execution', 'vcp.acme.event.execution'],
  ] as const)('the event %s has the routing key %s and the queue %s [C-8.1]', (kind, routingKey, queue) => {
    expect(eventRoutingKey('acme', kind)).toBe(routingKey);
    expect(fullQueueName('acme', EVENT_QUEUES[kind])).toBe(queue);
  });

  it('no event can be published as a command [C-6.2]', () => {
    for (const kind of EVENT_KINDS)
      expect(commandFamily('acme', eventRoutingKey('acme', kind)).ok).toBe(false);
  });

  it('each queue is found by its full name [C-6.1]', () => {
    for (const queue of QUEUE_NAMES)
      expect(queueByFullName('acme', fullQueueName('acme', queue))).toBe(queue);
    expect(queueByFullName('acme', 'vcp.acme.dead-letter')).toBe('dead-letter');
  });

  it.each([
    'vcp.acme2.event.alarm',
    'vcp.acme.command',
    'vcp.acme.event.Alarm',
    'vcp.acme.event.*',
    'vcp.acme.event',
    'event.alarm',
    '',
  ])('acme has no queue %j [C-6.2]', (name) => {
    expect(queueByFullName('acme', name)).toBeUndefined();
  });
});
