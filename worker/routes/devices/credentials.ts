/** A device's credentials, suspension, reactivation and revocation (spec: Device lifecycle; [C-3.3]). */
import type { Context } from 'hono';
import {
  certificateAnswer,
  certificateRequest,
  deviceRecord,
  provisioningPackage,
  reasonRequest,
  secretRotation,
  tokenAnswer,
  tokenRenewal,
  tokenRequest,
} from '../../../protocol/device-record.ts';
import type { DeviceStatus } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import { requireDevice, requireSettledDevice } from '../../auth/device-access.ts';
import type { AppContext } from '../../env.ts';
import { ApiError } from '../../http/error-response.ts';
import { idParameter, noParameters as none } from '../../http/query.ts';
import { shedLoad } from '../../http/rate.ts';
import {
  issueToken,
  provisionDevice,
  reissueCertificate,
  rotateSecret,
  setDeviceStatus,
} from '../../lifecycle/device.ts';
import { CertificateRequestError } from '../../lifecycle/device-certificate.ts';
import { certificateFields, hasListener, trustedBy } from '../../lifecycle/device-package.ts';
import { siteOf } from '../../lifecycle/device-site.ts';
import { type DeviceRow, findDialingDevice } from '../../registry/devices.ts';
import { route } from '../../route.ts';
import { deviceRecordOf } from './device-record.ts';
import { MANAGES_DEVICES } from './devices.ts';

export const postProvisioning = route({
  method: 'POST',
  path: '/api/v1/devices/{id}/provision',
  summary: 'Provision a device',
  who: MANAGES_DEVICES,
  params: idParameter,
  query: none,
  body: certificateRequest,
  isBodyOptional: true,
  examples: { body: {} },
  answer: {
    status: 200,
    description: 'The provisioning package with the credentials, shown only once',
    body: provisioningPackage,
  },
  errors: ['NOT_FOUND', 'CONFLICT'],
  handler: async (c, { params, body }) => {
    const device = await requireSettledDevice(c, params.id);
    if (device.status !== 'PENDING') throw notAllowed('be provisioned', device.status);
    if (body.csr !== undefined && device.authMethod === 'TOKEN') {
      throw new ApiError('VALIDATION_ERROR', 'Invalid body', {
        details: ['csr: only allowed for a device with authMethod MTLS'],
      });
    }
    requireListener(c, device);
    const audit = audited(c, 'device.provisioned', device, { authMethod: device.authMethod });
    const provisioned = await withRequest(() => provisionDevice(c.env, device, body.csr, audit, Date.now()));
    if (!provisioned)
      throw new ApiError('CONFLICT', 'The device is already provisioned, or is being provisioned');
    return provisioned;
  },
});

export const postCertificate = route({
  method: 'POST',
  path: '/api/v1/devices/{id}/certificate',
  summary: 'Issue a new certificate for a device',
  who: MANAGES_DEVICES,
  params: idParameter,
  query: none,
  body: certificateRequest,
  isBodyOptional: true,
  examples: { body: {} },
  answer: {
    status: 201,
    description: 'The new certificate; the previous one is valid until `previousUntil`',
    body: certificateAnswer,
  },
  errors: ['NOT_FOUND', 'CONFLICT'],
  handler: async (c, { params, body }) => {
    const device = await requireActive(c, params.id, 'get a certificate');
    if (device.authMethod !== 'MTLS')
      throw new ApiError('CONFLICT', 'The device has authMethod TOKEN and uses no certificate');
    requireListener(c, device);
    const audit = audited(c, 'device.certificate_issued', device);
    const reissued = await withRequest(() => reissueCertificate(c.env, device, body.csr, audit, Date.now()));
    if (!reissued) throw notAllowed('get a certificate', 'no longer ACTIVE');
    const { issued, previousUntilMs } = reissued;
    return {
      deviceId: device.id,
      ...certificateFields(issued),
      ...trustedBy(c.env),
      previousUntil: previousUntilMs === null ? null : formatInstant(previousUntilMs),
    };
  },
});

export const postToken = route({
  method: 'POST',
  path: '/api/v1/devices/{id}/mqtt-token',
  summary: 'Issue an MQTT token for a device',
  who: MANAGES_DEVICES,
  params: idParameter,
  query: none,
  body: tokenRequest,
  isBodyOptional: true,
  examples: { body: { expiresIn: 86_400 } },
  answer: { status: 200, description: 'The MQTT token', body: tokenAnswer },
  errors: ['NOT_FOUND', 'CONFLICT'],
  handler: async (c, { params, body }) => {
    const device = await requireActive(c, params.id, 'get a token');
    if (device.authMethod !== 'TOKEN')
      throw new ApiError('CONFLICT', 'The device has authMethod MTLS and uses no MQTT token');
    const audit = audited(c, 'device.token_issued', device, { expiresIn: body.expiresIn });
    const issued = await issueToken(c.env, device, body.expiresIn, audit, Date.now());
    if (!issued) throw notAllowed('get a token', 'no longer ACTIVE');
    return { token: issued.token, expiresAt: formatInstant(issued.expiresAtMs) };
  },
});

export const postTokenRenewal = route({
  method: 'POST',
  path: '/api/v1/devices/{id}/mqtt-token/renew',
  summary: 'Renew the MQTT token of a device; the device signs deviceId|ts|nonce|RENEW with its secret',
  who: { door: 'public' },
  params: idParameter,
  query: none,
  body: tokenRenewal,
  examples: { body: { ts: 1_767_225_600_000, nonce: 'b7c1', sig: '0'.repeat(64) } },
  answer: { status: 200, description: 'The MQTT token', body: tokenAnswer },
  errors: ['UNAUTHORIZED'],
  handler: async (c, { params, body }) => {
    await shedLoad(c);
    const device = await findDialingDevice(c.env.DB, params.id);
    // An unknown device and one without a token to renew get the same answer as a wrong signature.
    const mayRenew = device?.status === 'ACTIVE' && device.authMethod === 'TOKEN' && device.movingTo === null;
    if (device && mayRenew && (await siteOf(c.env, device).verifyRenewal(device.id, body))) {
      const issued = await issueToken(c.env, device, LIMIT.mqttTokenSeconds, undefined, Date.now());
      if (issued) return { token: issued.token, expiresAt: formatInstant(issued.expiresAtMs) };
    }
    throw new ApiError(
      'UNAUTHORIZED',
      'sig, ts or nonce is invalid, or this device may not renew a token; see the device diagnostics',
    );
  },
});

export const postSecretRotation = route({
  method: 'POST',
  path: '/api/v1/devices/{id}/rotate-secret',
  summary: 'Rotate the secret of a device',
  who: MANAGES_DEVICES,
  params: idParameter,
  query: none,
  answer: {
    status: 200,
    description: 'The new secret, shown only once; the previous one is valid until `graceUntil`',
    body: secretRotation,
  },
  errors: ['NOT_FOUND', 'CONFLICT'],
  handler: async (c, { params }) => {
    const device = await requireActive(c, params.id, 'get a new secret');
    const rotated = await rotateSecret(c.env, device, audited(c, 'device.secret_rotated', device));
    if (!rotated) throw notAllowed('get a new secret', 'no longer ACTIVE');
    const { hmacSecret, graceUntilMs, rotatedAtMs } = rotated;
    return {
      deviceId: device.id,
      hmacSecret,
      graceUntil: formatInstant(graceUntilMs),
      rotatedAt: formatInstant(rotatedAtMs),
    };
  },
});

export const postSuspension = lifecycleRoute({
  path: 'suspend',
  summary: 'Suspend a device: end its session and reject its logins',
  from: ['ACTIVE'],
  to: 'SUSPENDED',
  event: 'device.suspended',
});

export const postReactivation = lifecycleRoute({
  path: 'reactivate',
  summary: 'Reactivate a suspended device with its existing credentials',
  from: ['SUSPENDED'],
  to: 'ACTIVE',
  event: 'device.reactivated',
});

export const postRevocation = lifecycleRoute({
  path: 'revoke',
  summary: 'Decommission a device permanently and destroy its credentials',
  from: ['ACTIVE'],
  to: 'DECOMMISSIONED',
  event: 'device.revoked',
});

interface Transition {
  path: 'suspend' | 'reactivate' | 'revoke';
  summary: string;
  from: DeviceStatus[];
  to: Exclude<DeviceStatus, 'PENDING'>;
  event: string;
}

/** Builds the route of a lifecycle transition. In a status that `from` does not list it answers 409. */
function lifecycleRoute({ path, summary, from, to, event }: Transition) {
  return route({
    method: 'POST',
    path: `/api/v1/devices/{id}/${path}`,
    summary,
    who: MANAGES_DEVICES,
    params: idParameter,
    query: none,
    body: reasonRequest,
    isBodyOptional: true,
    examples: { body: { reason: 'stolen from the site' } },
    answer: { status: 200, description: 'The device', body: deviceRecord },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params, body: { reason = null } }) => {
      const device = await requireSettledDevice(c, params.id);
      const { id, status } = device;
      if (!from.includes(status)) throw notAllowed(`be set to ${to}`, status);
      const audit = audited(c, event, device, reason === null ? {} : { reason });
      const isDone = await setDeviceStatus(c.env, device, to, reason, audit);
      if (!isDone) throw notAllowed(`be set to ${to}`, `no longer ${from.join(' or ')}`);
      return deviceRecordOf(await requireDevice(c, id), Date.now());
    },
  });
}

async function requireActive(c: Context<AppContext>, id: string, what: string): Promise<DeviceRow> {
  const device = await requireSettledDevice(c, id);
  if (device.status !== 'ACTIVE') throw notAllowed(what, device.status);
  return device;
}

function notAllowed(what: string, status: string): ApiError {
  return new ApiError('CONFLICT', `The device is ${status} and cannot ${what}`);
}

function requireListener(c: Context<AppContext>, { authMethod }: DeviceRow): void {
  if (hasListener(c.env, authMethod)) return;
  throw new ApiError('SERVICE_UNAVAILABLE', `This deployment has no MQTT listener for ${authMethod}`, {
    headers: { 'retry-after': '3600' },
  });
}

async function withRequest<Value>(work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CertificateRequestError)) throw error;
    throw new ApiError('VALIDATION_ERROR', 'Invalid body', { details: [error.message] });
  }
}

function audited(
  c: Context<AppContext>,
  event: string,
  { id }: DeviceRow,
  details: Record<string, unknown> = {},
) {
  return auditEntry(c, event, { type: 'DEVICE', id }, details);
}
