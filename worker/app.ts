/** The Worker's HTTP surface: bridge links first, then the middleware in order, then one list of routes. */
import { Hono } from 'hono';
import { requestId } from 'hono/request-id';
import { secureHeaders } from 'hono/secure-headers';
import { LINK_PATHS, READY_PATH } from '../protocol/link/proof.ts';
import { readAsyncApi } from './asyncapi/route.ts';
import { doorOf } from './auth/door.ts';
import type { AppContext } from './env.ts';
import { handleError, handleNotFound } from './http/error-response.ts';
import { jsonBody } from './http/json-body.ts';
import { linkAmqp } from './link/amqp.ts';
import { linkReady, reportClock } from './link/bridge-proof.ts';
import { linkMqtt } from './link/mqtt.ts';
import { countAnswers } from './metrics/counts.ts';
import { getMetrics, METRICS_PATH } from './metrics/metrics.ts';
import { openApiRoute } from './openapi.ts';
import { type AnyRoute, mount } from './route.ts';
import {
  getAlerts,
  patchAlert,
  postAlertAcknowledgement,
  postAlertResolution,
  postAlertRule,
} from './routes/alerts.ts';
import {
  deleteApiKey,
  getApiKey,
  getApiKeys,
  postApiKey,
  postBundleAcknowledgement,
  postConnectionTest,
} from './routes/api-keys.ts';
import { getAuditEvents } from './routes/audit-events.ts';
import { postCspReport } from './routes/csp-report.ts';
import { getDeviceCommand, getDeviceCommands, postDeviceCommand } from './routes/devices/commands.ts';
import {
  postCertificate,
  postProvisioning,
  postReactivation,
  postRevocation,
  postSecretRotation,
  postSuspension,
  postToken,
  postTokenRenewal,
} from './routes/devices/credentials.ts';
import {
  getDevice,
  getDevices,
  getDiagnostics,
  patchDevice,
  postDevice,
  removeDevice,
} from './routes/devices/devices.ts';
import { getDeviceTelemetry } from './routes/devices/telemetry.ts';
import { getPlantConfig, putPlantConfig } from './routes/fleet/plant-config.ts';
import { getPlant, getPlants, patchPlant, postPlant, removePlant } from './routes/fleet/plants.ts';
import {
  getSubDevice,
  getSubDevices,
  patchSubDevice,
  postSubDevice,
  removeSubDevice,
} from './routes/fleet/sub-devices.ts';
import { readHealth } from './routes/health.ts';
import { changePassword, login, logout, readMe, refresh, register } from './routes/identity/auth.ts';
import {
  deleteMember,
  getMembers,
  getUsers,
  patchMember,
  patchUser,
  postMember,
} from './routes/identity/members.ts';
import {
  getOrganization,
  getOrganizations,
  patchOrganization,
  postOrganization,
} from './routes/identity/organizations.ts';
import { listCommands } from './routes/vcp/commands.ts';
import { listMeterReadings, readMeterState } from './routes/vcp/meters.ts';
import { VCP_READ } from './routes/vcp/parameters.ts';
import { listSchedules } from './routes/vcp/schedules.ts';
import { listSites, readSiteConfig } from './routes/vcp/sites.ts';
import { readLatestTelemetry, readTelemetry } from './routes/vcp/telemetry.ts';

export const ROUTES: readonly AnyRoute[] = [
  readHealth,
  openApiRoute(() => ROUTES),
  readAsyncApi,
  register,
  login,
  refresh,
  logout,
  readMe,
  changePassword,
  postOrganization,
  getOrganizations,
  getOrganization,
  patchOrganization,
  getMembers,
  postMember,
  patchMember,
  deleteMember,
  getUsers,
  patchUser,
  postPlant,
  getPlants,
  getPlant,
  patchPlant,
  removePlant,
  postSubDevice,
  getSubDevices,
  getSubDevice,
  patchSubDevice,
  removeSubDevice,
  getPlantConfig,
  putPlantConfig,
  postDevice,
  getDevices,
  getDevice,
  patchDevice,
  removeDevice,
  postProvisioning,
  postCertificate,
  postToken,
  postTokenRenewal,
  postSecretRotation,
  postSuspension,
  postReactivation,
  postRevocation,
  postDeviceCommand,
  getDeviceCommands,
  getDeviceCommand,
  getDiagnostics,
  getDeviceTelemetry,
  postApiKey,
  getApiKeys,
  getApiKey,
  deleteApiKey,
  postConnectionTest,
  postBundleAcknowledgement,
  getAlerts,
  postAlertRule,
  patchAlert,
  postAlertAcknowledgement,
  postAlertResolution,
  getAuditEvents,
  postCspReport,
  listSites,
  readSiteConfig,
  listCommands,
  readLatestTelemetry,
  readTelemetry,
  readMeterState,
  listMeterReadings,
  listSchedules,
];

export const app = new Hono<AppContext>();

app.onError(handleError);
app.notFound(handleNotFound);

// Dials come before the middleware that sets headers: the response to an upgrade is the Durable Object's own.
app.use('/link/*', reportClock);
app.get(READY_PATH, linkReady);
app.get(LINK_PATHS.amqp, linkAmqp);
app.get(LINK_PATHS.mqtt, linkMqtt);
app.get(LINK_PATHS.mqttUncounted, linkMqtt);

app.use(requestId());
app.use(secureHeaders());
app.get(METRICS_PATH, getMetrics);
app.use('/api/v1/*', countAnswers);
// Responses may contain data that only the caller may see, so no cache may store them.
app.use('/api/v1/*', async (c, next) => {
  await next();
  c.header('cache-control', 'no-store');
});
app.use(jsonBody);
mount(app, ROUTES);
// Unknown partner paths also require a key, so that they do not reveal which paths exist.
app.all('/api/v1/vcp/*', doorOf(VCP_READ), handleNotFound);
