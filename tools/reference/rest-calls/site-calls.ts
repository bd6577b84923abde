/** Calls about API keys, what partners read with them, and webhooks; alerts; and what the operator does. */
import { PASSWORD } from './account-calls.ts';
import type { Call } from './call.ts';

const CHARGE = { commands: [{ deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_STOP' }] };
const MESSAGE = JSON.stringify({
  version: '1.1',
  messageId: '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a12',
  timestamp: '$NOW',
  source: 'acme-trader',
  siteId: '$PLANT',
  payload: {
    ...{ type: 'POWER', targetValueKw: 20, direction: 'IMPORT', includeConsumption: true },
    ...{ priority: 'NORMAL', validFrom: '$IN_AN_HOUR' },
  },
});
const DRY_MESSAGE = MESSAGE.replace('7a12', '7a13').replace(':20,', ':500,');
const RANGE = 'from=$AN_HOUR_AGO&to=$IN_AN_HOUR';

export const KEY_CALLS: readonly Call[] = [
  {
    route: 'POST /api/v1/partner/api-keys',
    body: {
      name: 'Trading desk',
      partnerId: 'acme-trader',
      scopes: [
        ...[
          'vcp:connect',
          'vcp:read',
          'vcp:write:setpoint',
          'vcp:write:device-command',
          'vcp:write:schedule',
        ],
      ],
    },
    save: { KEY: 'key', SIGNING_KEY: 'signingKey', KEY_ID: 'apiKey.id', VHOST: 'apiKey.vhost' },
  },
  { route: 'GET /api/v1/partner/api-keys' },
  { route: 'GET /api/v1/partner/api-keys/{id}', ids: { id: 'KEY_ID' } },
  { route: 'GET /api/v1/partner/api-keys/{id}/status', ids: { id: 'KEY_ID' } },
  {
    route: 'POST /api/v1/partner/api-keys/{id}/test-connection',
    ids: { id: 'KEY_ID' },
    body: { key: '$KEY' },
  },
  { route: 'POST /api/v1/partner/api-keys/{id}/acknowledge-bundle', ids: { id: 'KEY_ID' } },
  {
    route: 'PATCH /api/v1/partner/api-keys/{id}',
    ids: { id: 'KEY_ID' },
    body: { sees: 'ORGANIZATION' },
  },
];

export const SITE_CALLS: readonly Call[] = [
  { route: 'GET /api/v1/vcp/sites' },
  {
    route: 'GET /api/v1/vcp/sites/{siteId}/commands',
    note: 'The partner has published a device command and a schedule over AMQP.',
    prepare: async (world) => {
      await world.publish('device', CHARGE, 'end');
      const slots = [{ slotIndex: 0, mode: 'STANDARD', setpoint: { value: 10 } }];
      const schedule = {
        scheduleId: '6f1c2f0a-3f0e-4a57-9d0b-0f6c0f2f7a11',
        startTime: world.variables.IN_AN_HOUR,
        slots,
      };
      await world.publish('schedule', schedule, 'acknowledgement');
      return undefined;
    },
    ids: { siteId: 'PLANT' },
    query: 'page=2&pageSize=1',
  },
  {
    route: 'POST /api/v1/vcp/sites/{siteId}/commands/dry-run',
    note: 'The message asks for more than the plant may import.',
    as: 'key',
    ids: { siteId: 'PLANT' },
    body: { routingKey: 'northwind.command.site-setpoint', message: DRY_MESSAGE },
  },
  {
    route: 'POST /api/v1/vcp/sites/{siteId}/commands',
    note: 'The message is the JSON text that AMQP would carry; this one needs no signature.',
    ids: { siteId: 'PLANT' },
    body: { routingKey: 'northwind.command.site-setpoint', message: MESSAGE },
    save: { COMMAND: 'commandId' },
  },
  {
    route: 'GET /api/v1/vcp/sites/{siteId}/commands/{commandId}/timeline',
    ids: { siteId: 'PLANT', commandId: 'COMMAND' },
  },
  { route: 'GET /api/v1/vcp/sites/{siteId}/explain', ids: { siteId: 'PLANT' } },
  { route: 'GET /api/v1/vcp/events', query: 'type=ack&limit=1', save: { SEQUENCE: 'events.0.sequence' } },
  {
    route: 'GET /api/v1/vcp/events/stream',
    note: 'The stream stays open; `-m 1` ends it after a second.',
    query: 'type=ack&after=0',
    readsForSeconds: 1,
  },
  {
    route: 'GET /api/v1/vcp/dead-letters',
    as: 'key',
    note: 'The partner has published text that is no JSON.',
    prepare: async (world) => {
      await world.publishBad();
      return undefined;
    },
    save: { DEAD_LETTER: 'deadLetters.0.id' },
  },
  {
    route: 'POST /api/v1/vcp/dead-letters/{id}/requeue',
    as: 'key',
    ids: { id: 'DEAD_LETTER' },
  },
  {
    route: 'GET /api/v1/vcp/dead-letters',
    as: 'key',
    isHidden: true,
    save: { DEAD_LETTER: 'deadLetters.0.id' },
  },
  { route: 'DELETE /api/v1/vcp/dead-letters/{id}', as: 'key', ids: { id: 'DEAD_LETTER' } },
  {
    route: 'GET /api/v1/vcp/sites/{siteId}/schedules',
    ids: { siteId: 'PLANT' },
    query: 'from=$NOW&to=$IN_TWO_HOURS',
  },
  { route: 'GET /api/v1/vcp/sites/{siteId}/telemetry/latest', ids: { siteId: 'PLANT' } },
  {
    route: 'GET /api/v1/vcp/sites/{siteId}/telemetry',
    ids: { siteId: 'PLANT' },
    query: `metric=gridPowerKw&${RANGE}&granularity=raw`,
  },
  { route: 'GET /api/v1/vcp/meter-state', query: 'ean=859182400000000701' },
  {
    route: 'GET /api/v1/vcp/sites/{siteId}/meter-readings',
    ids: { siteId: 'PLANT' },
    query: 'from=$TWO_HOURS_AGO&to=$AN_HOUR_AGO',
  },
  { route: 'GET /api/v1/plants/{id}/commands', ids: { id: 'PLANT' }, query: 'page=2&pageSize=1' },
  { route: 'GET /api/v1/plants/{id}/schedules', ids: { id: 'PLANT' }, query: 'from=$NOW&to=$IN_TWO_HOURS' },
  {
    route: 'GET /api/v1/plants/{id}/telemetry',
    ids: { id: 'PLANT' },
    query: `metric=gridPowerKw&${RANGE}&granularity=raw`,
  },
  { route: 'GET /api/v1/plants/{id}/telemetry/latest', ids: { id: 'PLANT' } },
  {
    route: 'GET /api/v1/plants/{id}/commands/{commandId}/timeline',
    ids: { id: 'PLANT', commandId: 'COMMAND' },
  },
  {
    route: 'GET /api/v1/plants/{id}/export',
    note: 'In this hour there was nothing: the file has only its first and its last line.',
    ids: { id: 'PLANT' },
    query: 'from=$TWO_HOURS_AGO&to=$AN_HOUR_AGO',
    isText: true,
  },
  {
    route: 'GET /api/v1/plants/{id}/explain',
    note: 'Nothing changed in this hour; without `from` and `to` it explains the present.',
    ids: { id: 'PLANT' },
    query: 'from=$TWO_HOURS_AGO&to=$AN_HOUR_AGO',
  },
];

export const ALERT_CALLS: readonly Call[] = [
  {
    route: 'POST /api/v1/alerts',
    body: {
      name: 'Grid power too high',
      severity: 'WARNING',
      plantId: '$PLANT',
      metric: 'gridPowerKw',
      operator: 'GT',
      threshold: 50,
    },
    save: { RULE: 'id' },
  },
  { route: 'PATCH /api/v1/alerts/{id}', ids: { id: 'RULE' }, body: { threshold: 40 } },
  {
    route: 'GET /api/v1/alerts',
    note: 'The gateway has sent a grid power of 60 kW.',
    prepare: async (world) => {
      await world.report({ gridPowerKw: 60 });
      await world.alertOpens();
      return undefined;
    },
    query: 'status=ACTIVE',
    save: { ALERT: 'data.0.id' },
  },
  {
    route: 'POST /api/v1/alerts/{id}/acknowledge',
    ids: { id: 'ALERT' },
    body: { note: 'I call the site.' },
  },
  { route: 'POST /api/v1/alerts/{id}/resolve', ids: { id: 'ALERT' }, body: { note: 'A pump was stuck.' } },
  { route: 'GET /api/v1/audit-events', query: 'event=alert.resolved&limit=1' },
  {
    route: 'GET /api/v1/vcp/sites/{siteId}/config',
    ids: { siteId: 'PLANT' },
  },
];

export const WEBHOOK_CALLS: readonly Call[] = [
  {
    route: 'POST /api/v1/partner/webhooks',
    note: '`RECEIVER` is the URL of your receiver. It answers every message with 200.',
    prepare: async (world) => ({ RECEIVER: await world.startReceiver() }),
    body: {
      url: '$RECEIVER',
      keyId: '$KEY_ID',
      types: ['ack', 'execution', 'alarm'],
      description: 'Trading desk',
    },
    save: { WEBHOOK: 'webhook.id' },
    finish: (world) => world.webhookIsEnabled(),
  },
  { route: 'GET /api/v1/partner/webhooks', query: 'keyId=$KEY_ID' },
  { route: 'GET /api/v1/partner/webhooks/{id}', ids: { id: 'WEBHOOK' } },
  {
    route: 'PATCH /api/v1/partner/webhooks/{id}',
    ids: { id: 'WEBHOOK' },
    body: { types: ['ack', 'execution'], siteIds: ['$PLANT'] },
  },
  { route: 'POST /api/v1/partner/webhooks/{id}/test', ids: { id: 'WEBHOOK' } },
  { route: 'GET /api/v1/partner/webhooks/{id}/attempts', ids: { id: 'WEBHOOK' } },
  { route: 'POST /api/v1/partner/webhooks/{id}/rotate-secret', ids: { id: 'WEBHOOK' } },
  {
    route: 'POST /api/v1/partner/webhooks/{id}/recover',
    ids: { id: 'WEBHOOK' },
    body: { since: '$AN_HOUR_AGO' },
  },
  {
    route: 'POST /api/v1/partner/webhooks/{id}/resend',
    ids: { id: 'WEBHOOK' },
    body: { sequence: '#SEQUENCE' },
  },
  { route: 'POST /api/v1/partner/webhooks/{id}/enable', ids: { id: 'WEBHOOK' } },
  { route: 'DELETE /api/v1/partner/webhooks/{id}', ids: { id: 'WEBHOOK' } },
];

export const OPERATOR_CALLS: readonly Call[] = [
  {
    route: 'POST /api/v1/platform/organizations',
    body: {
      name: 'Contoso Power',
      slug: 'contoso',
      admin: { email: 'iva@example.com', name: 'Iva Mala', password: PASSWORD },
    },
    save: { OTHER_ORG: 'organization.id' },
  },
  { route: 'GET /api/v1/platform/organizations', query: 'slug=contoso' },
  {
    route: 'POST /api/v1/platform/organizations/{id}/invitations',
    ids: { id: 'OTHER_ORG' },
    body: { email: 'jan@example.com', role: 'ORG_ADMIN' },
  },
  { route: 'GET /api/v1/platform/organizations/{id}/limits', ids: { id: 'OTHER_ORG' } },
  {
    route: 'PATCH /api/v1/platform/organizations/{id}/limits',
    ids: { id: 'OTHER_ORG' },
    body: { restRatePerMinute: 60_000 },
  },
  { route: 'GET /api/v1/platform/check' },
  { route: 'GET /api/v1/platform/data-keys' },
  {
    route: 'GET /api/v1/platform/audit-events',
    query: 'organizationId=$OTHER_ORG&from=$AN_HOUR_AGO&limit=2',
  },
  { route: 'POST /api/v1/platform/after-restore', body: { step: 'ask-objects' } },
  {
    route: 'POST /api/v1/platform/organizations/{id}/support',
    ids: { id: 'ORG' },
    body: { reason: 'Ticket 4711: no telemetry' },
    save: { SUPPORT_SESSION: 'id' },
  },
  { route: 'GET /api/v1/organizations/{id}/support-sessions', ids: { id: 'ORG' } },
  {
    route: 'DELETE /api/v1/organizations/{id}/support-sessions/{sessionId}',
    ids: { id: 'ORG', sessionId: 'SUPPORT_SESSION' },
  },
  {
    route: 'POST /api/v1/platform/organizations/{id}/suspend',
    ids: { id: 'OTHER_ORG' },
    body: { reason: 'The account was taken over' },
  },
  { route: 'POST /api/v1/platform/organizations/{id}/reactivate', ids: { id: 'OTHER_ORG' } },
  {
    route: 'POST /api/v1/platform/organizations/{id}/suspend',
    isHidden: true,
    ids: { id: 'OTHER_ORG' },
    body: { reason: 'The contract has ended' },
  },
  { route: 'DELETE /api/v1/platform/organizations/{id}', ids: { id: 'OTHER_ORG' } },
  { route: 'POST /api/v1/platform/users/delete', body: { email: 'iva@example.com' } },
  {
    route: 'POST /api/v1/auth/register',
    body: { email: 'olga@example.com', password: PASSWORD, name: 'Olga' },
  },
  { route: 'POST /api/v1/platform/users/release', body: { email: 'olga@example.com' } },
];
