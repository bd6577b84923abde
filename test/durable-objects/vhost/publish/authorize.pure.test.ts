/** Who may publish, read and declare what in a vhost, as a rule, and RabbitMQ's words where one may not [C-6.2]. */
import { describe, expect, it } from 'vitest';
import {
  authorizeDeclare,
  authorizeRead,
  consumerTagInUse,
  type Declaration,
  inExclusiveUse,
  tooManyConsumers,
} from '../../../../durable-objects/vhost/publish/authorize.ts';
import { authorizePublish } from '../../../../protocol/publish-right.ts';
import { QUEUE_NAMES } from '../../../../protocol/routing-keys.ts';
import { API_KEY_SCOPES, type ApiKeyScope } from '../../../../protocol/scopes.ts';

const NAMES = { slug: 'acme', vhost: 'partner-k1' };
const ALL = new Set(API_KEY_SCOPES);

function refused(code: number, text: string) {
  return { ok: false, refusal: { severity: 'channel', code, text } };
}

function topicRefused(routingKey: string) {
  return refused(
    403,
    `ACCESS_REFUSED - access to topic '${routingKey}' in exchange 'vcp' in vhost 'partner-k1' refused for user 'acme'`,
  );
}

describe('a publish', () => {
  const openedBy: Record<string, { family: string; scopes: readonly ApiKeyScope[] }> = {
    'acme.command.site-setpoint': { family: 'site-setpoint', scopes: ['vcp:write:setpoint'] },
    'acme.command.device': { family: 'device', scopes: ['vcp:write:device-command'] },
    'acme.command.device.BESS-1': { family: 'device', scopes: ['vcp:write:device-command'] },
    'acme.command.mode': { family: 'mode', scopes: ['vcp:write:mode'] },
    'acme.command.emergency': {
      family: 'emergency',
      scopes: [
        'vcp:write:setpoint',
        'vcp:write:device-command',
        'vcp:write:schedule',
        'vcp:write:mode',
        'vcp:write:config',
      ],
    },
  };

  it.each(Object.entries(openedBy))(
    'to %s is opened by its own scopes, and by no other of all [C-6.2]',
    (routingKey, { family, scopes }) => {
      for (const scope of API_KEY_SCOPES) {
        const answer = authorizePublish(NAMES, new Set([scope]), 'vcp', routingKey);
        const expected = scopes.includes(scope) ? { ok: true, value: family } : topicRefused(routingKey);
        expect([scope, answer]).toEqual([scope, expected]);
      }
      const others = new Set(API_KEY_SCOPES.filter((scope) => !scopes.includes(scope)));
      expect(authorizePublish(NAMES, others, 'vcp', routingKey)).toEqual(topicRefused(routingKey));
    },
  );

  it.each([
    'acme2.command.mode',
    'command.mode',
    'acme.command.mode.x',
    'acme.command.*',
    'acme.event.telemetry',
    'acme.command.reboot',
    '',
  ])('to %j is refused with every scope too [C-6.2]', (routingKey) => {
    expect(authorizePublish(NAMES, ALL, 'vcp', routingKey)).toEqual(topicRefused(routingKey));
  });

  it.each([
    ['', 'amq.default'],
    ['amq.topic', 'amq.topic'],
    ['VCP', 'VCP'],
    ['vcp ', 'vcp '],
    ["a'b", "a'b"],
  ])('to the exchange %j is refused, before its routing key is looked at [C-6.2]', (exchange, name) => {
    const expected = refused(
      403,
      `ACCESS_REFUSED - access to exchange '${name}' in vhost 'partner-k1' refused for user 'acme'`,
    );
    for (const routingKey of ['acme.command.mode', 'acme2.command.mode', '']) {
      expect(authorizePublish(NAMES, ALL, exchange, routingKey)).toEqual(expected);
    }
  });

  it('in the vhost of a legacy key names that one [C-5.3]', () => {
    const answer = authorizePublish({ slug: 'acme', vhost: '/' }, new Set(), 'vcp', 'acme.command.mode');
    expect(answer).toMatchObject({ refusal: { text: expect.stringContaining("in vhost '/' refused") } });
  });
});

const foreign = ['vcp.other.event.status', 'vcp.acme2.event.status', 'vcp.acme.event', 'vcp.', 'amq.gen-1'];
const nobodys = ['', 'event.status', 'VCP.acme.event.status', 'mine', 'vcp', 'xvcp.acme.event.status'];

describe('a read', () => {
  it.each(QUEUE_NAMES)("of %s is of the key's own organization alone [C-6.2]", (queue) => {
    expect(authorizeRead(NAMES, `vcp.acme.${queue}`)).toEqual({ ok: true, value: queue });
    const other = authorizeRead({ ...NAMES, slug: 'other' }, `vcp.acme.${queue}`);
    expect(other).toMatchObject({ ok: false, refusal: { code: 403 } });
  });

  it.each([...foreign, 'vcp.acme.command', 'vcp.acme.schedule', 'vcp.acme.config'])(
    'of %j is refused, whether it exists or not [C-6.2]',
    (queue) => {
      expect(authorizeRead(NAMES, queue)).toEqual(
        refused(
          403,
          `ACCESS_REFUSED - access to queue '${queue}' in vhost 'partner-k1' refused for user 'acme'`,
        ),
      );
    },
  );

  it.each(nobodys)('of %j finds nothing [C-6.3]', (queue) => {
    expect(authorizeRead(NAMES, queue)).toEqual(
      refused(404, `NOT_FOUND - no queue '${queue}' in vhost 'partner-k1'`),
    );
  });
});

describe('a declaration', () => {
  const declare = (queue: string, changes: Partial<Declaration> = {}) =>
    authorizeDeclare(NAMES, {
      queue,
      passive: false,
      durable: true,
      exclusive: false,
      autoDelete: false,
      argumentNames: [],
      ...changes,
    });

  it.each(QUEUE_NAMES)('of %s, equal or passive, is of what is there [C-6.2]', (queue) => {
    for (const passive of [true, false]) {
      expect(declare(`vcp.acme.${queue}`, { passive })).toEqual({ ok: true, value: queue });
    }
  });

  it.each(['command', 'schedule', 'config'])(
    'of %s is of a queue that the platform reads [C-6.1]',
    (name) => {
      for (const passive of [true, false]) {
        expect(declare(`vcp.acme.${name}`, { passive })).toEqual({ ok: true, value: null });
      }
      expect(declare(`vcp.acme2.${name}`)).toMatchObject({ ok: false, refusal: { code: 403 } });
      expect(declare(`vcp.acme.${name}`, { durable: false })).toMatchObject({
        ok: false,
        refusal: { code: 406 },
      });
    },
  );

  it.each(foreign)('of %j is refused, passively too [C-6.2]', (queue) => {
    for (const passive of [true, false]) {
      expect(declare(queue, { passive, durable: false })).toMatchObject({
        ok: false,
        refusal: { code: 403 },
      });
    }
  });

  it.each(nobodys)('of %j, passively, finds nothing [C-6.3]', (queue) => {
    expect(declare(queue, { passive: true })).toMatchObject({ ok: false, refusal: { code: 404 } });
  });

  const argumentNames = ['x-message-ttl', 'x-max-length'];

  it.each<[string, Partial<Declaration>, string]>([
    ['durable first', { durable: false, autoDelete: true, argumentNames }, "'durable'"],
    ['then auto_delete', { autoDelete: true, argumentNames }, "'auto_delete'"],
    ['then its first argument', { argumentNames }, "'x-message-ttl'"],
  ])('that differs in several ways is told of one: %s [C-6.3]', (_what, changes, named) => {
    const answer = declare('vcp.acme.event.status', changes);
    const text = answer.ok ? '' : answer.refusal.text;
    const where = "for queue 'vcp.acme.event.status' in vhost 'partner-k1': received ";
    expect(answer).toMatchObject({ ok: false, refusal: { severity: 'channel', code: 406 } });
    expect(text).toContain(`PRECONDITION_FAILED - inequivalent arg ${named} ${where}`);
    expect(declare('vcp.acme.event.status', { ...changes, passive: true })).toMatchObject({ ok: true });
  });
});

describe('what consumers are refused with', () => {
  it('closes the connection where a tag is used again, or one is too many [C-6.3]', () => {
    expect(consumerTagInUse('ct')).toEqual({
      severity: 'connection',
      code: 530,
      text: "NOT_ALLOWED - attempt to reuse consumer tag 'ct'",
    });
    expect(tooManyConsumers()).toEqual({
      severity: 'connection',
      code: 530,
      text: 'NOT_ALLOWED - reached maximum (256) of consumers per connection',
    });
  });

  it('closes the channel where a queue is in exclusive use [C-6.3]', () => {
    expect(inExclusiveUse(NAMES, 'event.status')).toEqual({
      severity: 'channel',
      code: 403,
      text: "ACCESS_REFUSED - queue 'vcp.acme.event.status' in vhost 'partner-k1' in exclusive use",
    });
  });
});
