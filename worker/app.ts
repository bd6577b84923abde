/** The Worker's HTTP surface: bridge links first, then the middleware in order, then one list of routes. */
import { Hono } from 'hono';
import { requestId } from 'hono/request-id';
import { secureHeaders } from 'hono/secure-headers';
import { LINK_PATHS, READY_PATH } from '../protocol/link/proof.ts';
import { doorOf } from './auth/door.ts';
import type { AppContext } from './env.ts';
import { countAddress } from './http/address-rate.ts';
import { requireAllowedHost } from './http/allowed-host.ts';
import { CONSOLE_FILES, consolePolicy, getConsole, getConsoleFile } from './http/console-page.ts';
import { handleError, handleNotFound } from './http/error-response.ts';
import { boundBody, drainBody } from './http/json-body.ts';
import { linkAmqp } from './link/amqp.ts';
import { linkReady, nameRequest, reportClock, requireLinkVersion } from './link/bridge-proof.ts';
import { linkMqtt } from './link/mqtt.ts';
import { countAnswers } from './metrics/counts.ts';
import { getMetrics, METRICS_PATH } from './metrics/metrics.ts';
import { type AnyRoute, mount } from './route.ts';
import { afterRestoreRoutes } from './routes/after-restore.ts';
import { alertRoutes } from './routes/alerts.ts';
import { apiKeyStatusRoutes } from './routes/api-key-status.ts';
import { apiKeyRoutes } from './routes/api-keys.ts';
import { auditRoutes } from './routes/audit-events.ts';
import { backupRoutes } from './routes/backups.ts';
import { deviceCommandRoutes } from './routes/devices/commands.ts';
import { credentialRoutes } from './routes/devices/credentials.ts';
import { deviceRoutes } from './routes/devices/devices.ts';
import { deviceTelemetryRoutes } from './routes/devices/telemetry.ts';
import { templateRoutes } from './routes/devices/templates.ts';
import { plantCommandRoutes } from './routes/fleet/plant-commands.ts';
import { plantConfigRoutes } from './routes/fleet/plant-config.ts';
import { plantExportRoutes } from './routes/fleet/plant-export.ts';
import { plantStreamRoutes } from './routes/fleet/plant-stream.ts';
import { plantRoutes } from './routes/fleet/plants.ts';
import { subDeviceRoutes } from './routes/fleet/sub-devices.ts';
import { acceptanceRoutes } from './routes/identity/accept-invitation.ts';
import { accountRoutes } from './routes/identity/account.ts';
import { authRoutes } from './routes/identity/auth.ts';
import { invitationRoutes } from './routes/identity/invitations.ts';
import { memberRoutes } from './routes/identity/members.ts';
import { organizationRoutes } from './routes/identity/organizations.ts';
import { sessionRoutes } from './routes/identity/sessions.ts';
import { operatorRoutes } from './routes/operator.ts';
import { operatorEndRoutes } from './routes/operator-ends.ts';
import { platformRoutes } from './routes/platform.ts';
import { publishRoutes } from './routes/vcp/commands.ts';
import { deadLetterRoutes } from './routes/vcp/dead-letters.ts';
import { dryRunRoutes } from './routes/vcp/dry-run.ts';
import { eventRoutes } from './routes/vcp/events.ts';
import { explainRoutes } from './routes/vcp/explain.ts';
import { siteRoutes } from './routes/vcp/sites.ts';
import { telemetryRoutes } from './routes/vcp/telemetry.ts';
import { VCP_READ } from './routes/vcp/vcp-read.ts';
import { webhookDeliveryRoutes } from './routes/webhooks/delivery.ts';
import { webhookRoutes } from './routes/webhooks/webhooks.ts';

export const ROUTES: readonly AnyRoute[] = [
  ...platformRoutes,
  ...operatorRoutes,
  ...operatorEndRoutes,
  ...backupRoutes,
  ...afterRestoreRoutes,
  ...authRoutes,
  ...accountRoutes,
  ...sessionRoutes,
  ...organizationRoutes,
  ...memberRoutes,
  ...invitationRoutes,
  ...acceptanceRoutes,
  ...plantRoutes,
  ...subDeviceRoutes,
  ...plantConfigRoutes,
  ...plantCommandRoutes,
  ...plantExportRoutes,
  ...plantStreamRoutes,
  ...deviceRoutes,
  ...credentialRoutes,
  ...deviceCommandRoutes,
  ...deviceTelemetryRoutes,
  ...templateRoutes,
  ...apiKeyRoutes,
  ...apiKeyStatusRoutes,
  ...webhookRoutes,
  ...webhookDeliveryRoutes,
  ...alertRoutes,
  ...auditRoutes,
  ...deadLetterRoutes,
  ...eventRoutes,
  ...siteRoutes,
  ...publishRoutes,
  ...dryRunRoutes,
  ...explainRoutes,
  ...telemetryRoutes,
];

/** Where the operator reads what the configuration would make fail. */
const CHECK_PATH = '/api/v1/platform/check';

export const app = new Hono<AppContext>();

app.onError(handleError);
app.notFound(getConsole);

app.use(requireAllowedHost);
// Dials are handled before the middleware that sets headers, because the response to an upgrade comes from
// the Durable Object unchanged.
app.use('/link/*', nameRequest, reportClock, requireLinkVersion);
app.get(READY_PATH, linkReady);
app.get(LINK_PATHS.amqp, linkAmqp);
app.get(LINK_PATHS.mqtt, linkMqtt);
app.get(LINK_PATHS.mqttUncounted, linkMqtt);

// limitLength 0: a request id that a client sends is ignored, and a new one is made.
app.use(requestId({ limitLength: 0 }));
app.use(consolePolicy);
app.use(secureHeaders({ contentSecurityPolicy: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] } }));
app.get(METRICS_PATH, getMetrics);
app.use('/api/v1/*', countAnswers);
// Responses may contain data that only the caller may see, so no cache may store them. Documents are public.
app.use('/api/v1/*', async (c, next) => {
  await next();
  // Pages of the console go by this clock and not by that of the computer that they are on.
  c.header('date', new Date().toUTCString());
  if (!c.res.headers.has('cache-control')) c.header('cache-control', 'no-store');
});
app.use(drainBody);
// A wrong ADDRESS_RATE_PER_MINUTE must not keep the operator from reading that it is wrong.
app.use('/api/v1/*', (c, next) => (c.req.path === CHECK_PATH ? next() : countAddress(c, next)));
app.use(boundBody);
mount(app, ROUTES);
app.get(CONSOLE_FILES, getConsoleFile);
// Unknown partner paths also require a key, so that they do not reveal which paths exist.
app.all('/api/v1/vcp/*', doorOf(VCP_READ), handleNotFound);
