/**
 * The rule on who may publish, read and declare in a vhost, with RabbitMQ's reply texts for refusals [C-6.2].
 */
import { describe, expect, it } from 'vitest';
import {
  consumerTagInUse,
  forbiddenQueue,
  inExclusiveUse,
  reservedName,
  tooManyConsumers,
  unknownQueue,
} from '../../../../durable-objects/vhost/publish/authorize.ts';
import { authorizePublish } from '../../../../protocol/publish-right.ts';
import { API_KEY_SCOPES, type ApiKeyScope } from '../../../../protocol/scopes.ts';

const NAMES = { slug: 'acme', vhost: 'partner-k1' };
const ALL = new Set(API_KEY_SCOPES);

function refused(code: number, text: string) {
  return { ok: false, refusal: { severity: 'channel', code, text } };
}

function topicRefused(routingKey: string, why: string) {
  const where = "in exchange 'vcp' in vhost 'partner-k1' refused for user 'acme'";
  return refused(403, `ACCESS_REFUSED - access to topic '${routingKey}' ${where}: ${why}`);
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
    'to %s is allowed by its own scopes and by no others [C-6.2]',
    (routingKey, { family, scopes }) => {
      const [scopeNeeded] = scopes.length > 1 ? ['vcp:write:* (any of them)'] : scopes;
      const why = `the API key lacks the scope ${scopeNeeded}`;
      for (const scope of API_KEY_SCOPES) {
        const answer = authorizePublish(NAMES, new Set([scope]), 'vcp', routingKey);
        const expected = scopes.includes(scope) ? { ok: true, value: family } : topicRefused(routingKey, why);
        expect([scope, answer]).toEqual([scope, expected]);
      }
      const others = new Set(API_KEY_SCOPES.filter((scope) => !scopes.includes(scope)));
      expect(authorizePublish(NAMES, others, 'vcp', routingKey)).toEqual(topicRefused(routingKey, why));
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
  ])('to %j is refused even to a key with all scopes [C-6.2]', (routingKey) => {
    const why = routingKey.startsWith('acme.')
      ? 'no command has this routing key'
      : 'a routing key begins with the user name and a dot';
    expect(authorizePublish(NAMES, ALL, 'vcp', routingKey)).toEqual(topicRefused(routingKey, why));
  });

  it.each([
    ['', 'amq.default'],
    ['amq.topic', 'amq.topic'],
    ['VCP', 'VCP'],
    ['vcp ', 'vcp '],
    ["a'b", "a'b"],
  ])('to the exchange %j is refused before its routing key is checked [C-6.2]', (exchange, name) => {
    const expected = refused(
      403,
      `ACCESS_REFUSED - access to exchange '${name}' in vhost 'partner-k1' refused for user 'acme'`,
    );
    for (const routingKey of ['acme.command.mode', 'acme2.command.mode', '']) {
      expect(authorizePublish(NAMES, ALL, exchange, routingKey)).toEqual(expected);
    }
  });

  it('in the vhost / of a legacy key gets a refusal that names this vhost [C-5.3]', () => {
    const answer = authorizePublish({ slug: 'acme', vhost: '/' }, new Set(), 'vcp', 'acme.command.mode');
    expect(answer).toMatchObject({ refusal: { text: expect.stringContaining("in vhost '/' refused") } });
  });
});

describe('the refusal of a queue', () => {
  it.each(['vcp.other.event.status', 'vcp.acme2.event.status', 'vcp.acme.event', 'vcp.', 'vcp.acme.command'])(
    'is, for the name %j, ACCESS_REFUSED, whether the queue exists or not [C-6.2]',
    (queue) => {
      expect(unknownQueue(NAMES, queue)).toEqual(forbiddenQueue(NAMES, queue));
      expect(forbiddenQueue(NAMES, queue)).toEqual({
        severity: 'channel',
        code: 403,
        text: `ACCESS_REFUSED - access to queue '${queue}' in vhost 'partner-k1' refused for user 'acme'`,
      });
    },
  );

  it.each([
    '',
    'event.status',
    'VCP.acme.event.status',
    'mine',
    'vcp',
    'xvcp.acme.event.status',
    'amq.gen-1',
  ])('is, for the name %j, NOT_FOUND [C-6.3]', (queue) => {
    expect(unknownQueue(NAMES, queue)).toEqual({
      severity: 'channel',
      code: 404,
      text: `NOT_FOUND - no queue '${queue}' in vhost 'partner-k1'`,
    });
  });

  it('names the reserved prefix for amq.foo, and has the text of a forbidden queue for vcp.mine [C-6.6]', () => {
    expect(reservedName(NAMES, 'vcp.mine')).toEqual(forbiddenQueue(NAMES, 'vcp.mine'));
    expect(reservedName(NAMES, 'amq.foo').text).toBe(
      "ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'",
    );
  });
});

describe('the refusal of a consumer', () => {
  it('closes the connection for a reused tag or one consumer too many [C-6.3]', () => {
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

  it('closes the channel for a queue in exclusive use [C-6.3]', () => {
    expect(inExclusiveUse(NAMES, 'vcp.acme.event.status')).toEqual({
      severity: 'channel',
      code: 403,
      text: "ACCESS_REFUSED - queue 'vcp.acme.event.status' in vhost 'partner-k1' in exclusive use",
    });
  });
});
