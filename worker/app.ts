/** The Worker's HTTP surface: middleware in order, then the route table. */
import { Hono } from 'hono';
import { requestId } from 'hono/request-id';
import { secureHeaders } from 'hono/secure-headers';
import { LINK_PATHS } from '../protocol/link.ts';
import { requireApiKey } from './auth/api-key.ts';
import type { AppContext } from './env.ts';
import { ApiError, handleError, handleNotFound } from './error-response.ts';
import { jsonBody } from './json-body.ts';
import { linkAmqp } from './routes/link-amqp.ts';
import { linkMqtt } from './routes/link-mqtt.ts';
import { listCommands, listSites, readLatestTelemetry, readSiteConfig } from './routes/vcp-sites.ts';

export const app = new Hono<AppContext>();

app.onError(handleError);
app.notFound(handleNotFound);

// Upgrades come before any header is touched: their answer is the object's own.
app.get(LINK_PATHS.amqp, linkAmqp);
app.get(LINK_PATHS.mqtt, linkMqtt);

app.use(requestId());
app.use(secureHeaders());
app.get('/healthz', (c) => c.json({ status: 'ok' }));

const api = new Hono<AppContext>();
api.use(jsonBody);
api.use('/vcp/*', requireApiKey('vcp:read'));
api.get('/vcp/sites', listSites);
api.get('/vcp/sites/:siteId/config', readSiteConfig);
api.get('/vcp/sites/:siteId/commands', listCommands);
api.get('/vcp/sites/:siteId/telemetry/latest', readLatestTelemetry);

// A path that exists answers 405 to every other method.
for (const path of new Set(api.routes.filter((route) => route.method !== 'ALL').map((route) => route.path))) {
  api.all(path, () => {
    throw new ApiError('BAD_REQUEST', 'Method not allowed', { status: 405 });
  });
}

app.route('/api/v1', api);
