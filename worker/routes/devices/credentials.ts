/** A device's credentials, suspension, reactivation and revocation (spec: Device lifecycle; [C-3.3]). */
import type { Context } from 'hono';
import type { AuditEventName } from '../../../protocol/audit-names.ts';
import {
  certificateAnswer,
  certificateRequest,
  deviceRecord,
  provisioningPackage,
  reasonRequest,
  secretRotation,
  secretRotationRequest,
  tokenAnswer,
  tokenRenewal,
  tokenRequest,
} from '../../../protocol/device-record.ts';
import type { DeviceStatus } from '../../../protocol/enums.ts';
import { formatInstant } from '../../../protocol/ids.ts';
import { type DeviceRow, deviceRecordOf, findDialingDevice } from '../../../registry/devices.ts';
import { requireDevice, requireDeviceAfterMove } from '../../auth/access.ts';
import { auditEntry } from '../../auth/audit-entry.ts';
import type { AppContext } from '../../env.ts';
import {
  type ApiError,
  conflict,
  invalidBody,
  unauthorized,
  unavailable,
} from '../../http/error-response.ts';
import { idParameter } from '../../http/query.ts';
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
import { route } from '../../route.ts';
import { MANAGES_DEVICES } from './devices.ts';

const RETRY_S = 5;

export const credentialRoutes = [
  route('POST /api/v1/devices/{id}/provision', {
    summary: 'Provision a device',
    who: MANAGES_DEVICES,
    params: idParameter,
    body: certificateRequest,
    isBodyOptional: true,
    examples: { body: {} },
    answer: {
      description: 'The provisioning package with the credentials, shown only once',
      body: provisioningPackage,
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params, body }) => {
      const device = await requireDeviceAfterMove(c, params.id);
      if (device.status !== 'PENDING') throw notAllowed('be provisioned', device.status, 'PENDING');
      if (body.csr !== undefined && device.authMethod === 'TOKEN')
        throw invalidBody('csr: the device has authMethod TOKEN: omit csr');
      requireListener(c, device);
      const audit = audited(c, 'device.provisioned', device, { authMethod: device.authMethod });
      const provisioned = await withRequest(() =>
        provisionDevice(c.env, device, body.csr, audit, Date.now()),
      );
      if (!provisioned)
        throw conflict(
          'The device is already provisioned, or is being provisioned or moved: read its status',
        );
      return provisioned;
    },
  }),
  route('POST /api/v1/devices/{id}/certificate', {
    summary: 'Issue a new certificate for a device',
    who: MANAGES_DEVICES,
    params: idParameter,
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
        throw conflict('The device has authMethod TOKEN and uses no certificate: issue an MQTT token');
      requireListener(c, device);
      const audit = audited(c, 'device.certificate_issued', device);
      const reissued = await withRequest(() =>
        reissueCertificate(c.env, device, body.csr, audit, Date.now()),
      );
      if (!reissued) throw notAllowed('get a certificate', 'no longer ACTIVE');
      const { issued, previousUntilMs } = reissued;
      return {
        deviceId: device.id,
        ...certificateFields(issued),
        ...trustedBy(c.env),
        previousUntil: previousUntilMs === null ? null : formatInstant(previousUntilMs),
      };
    },
  }),
  route('POST /api/v1/devices/{id}/mqtt-token', {
    summary: 'Issue an MQTT token for a device',
    who: MANAGES_DEVICES,
    params: idParameter,
    body: tokenRequest,
    isBodyOptional: true,
    examples: { body: { expiresIn: 86_400, endOthers: true } },
    answer: { description: 'The MQTT token', body: tokenAnswer },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params, body }) => {
      const device = await requireActive(c, params.id, 'get a token');
      if (device.authMethod !== 'TOKEN')
        throw conflict('The device has authMethod MTLS and uses no MQTT token: issue a certificate');
      const { expiresIn, endOthers } = body;
      const audit = audited(c, 'device.token_issued', device, { expiresIn, endOthers });
      const wanted = { lifetimeSeconds: expiresIn, endOthers };
      const issued = await issueToken(c.env, device, wanted, audit, Date.now());
      if (!issued) throw notAllowed('get a token', 'no longer ACTIVE');
      return { token: issued.token, expiresAt: formatInstant(issued.expiresAtMs) };
    },
  }),
  route('POST /api/v1/devices/{id}/mqtt-token/renew', {
    summary: 'Renew the MQTT token of a device; the device signs deviceId|ts|nonce|RENEW with its secret',
    who: { door: 'public' },
    callers: 'Needs no login: the device signs the request with its secret.',
    params: idParameter,
    body: tokenRenewal,
    examples: { body: { ts: 1_767_225_600_000, nonce: 'b7c1', sig: '0'.repeat(64) } },
    answer: { description: 'The MQTT token', body: tokenAnswer },
    errors: ['UNAUTHORIZED', 'SERVICE_UNAVAILABLE'],
    handler: async (c, { params, body }) => {
      const device = await findDialingDevice(c.env.DB, params.id);
      // A request for an unknown device, or for a device that may not renew a token, gets the same answer as
      // a wrong signature.
      const mayRenew =
        device?.status === 'ACTIVE' &&
        device.authMethod === 'TOKEN' &&
        device.movingTo === null &&
        !device.isSuspended;
      const lifetimeSeconds =
        device && mayRenew ? await siteOf(c.env, device).verifyRenewal(device.id, body) : undefined;
      if (lifetimeSeconds === 'full')
        throw unavailable(
          `The plant has no room for more nonces: send the request again in ${RETRY_S} s`,
          RETRY_S,
        );
      if (device && lifetimeSeconds !== undefined) {
        const wanted = { lifetimeSeconds, endOthers: false };
        const issued = await issueToken(c.env, device, wanted, undefined, Date.now());
        if (issued) return { token: issued.token, expiresAt: formatInstant(issued.expiresAtMs) };
      }
      throw unauthorized(
        'sig, ts or nonce is invalid, or this device may not renew a token; see the device diagnostics',
      );
    },
  }),
  route('POST /api/v1/devices/{id}/rotate-secret', {
    summary: 'Rotate the secret of a device',
    who: MANAGES_DEVICES,
    params: idParameter,
    body: secretRotationRequest,
    isBodyOptional: true,
    examples: { body: { endOthers: true } },
    answer: {
      description:
        'The new secret, shown only once; the previous one is valid until `graceUntil`. With `endOthers` all older ones end at once, and so do the session and the tokens',
      body: secretRotation,
    },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params, body: { endOthers } }) => {
      const device = await requireActive(c, params.id, 'get a new secret');
      const audit = audited(c, 'device.secret_rotated', device, endOthers ? { endOthers } : {});
      const rotated = await rotateSecret(c.env, device, endOthers, audit);
      if (!rotated) throw notAllowed('get a new secret', 'no longer ACTIVE');
      const { hmacSecret, graceUntilMs, rotatedAtMs } = rotated;
      return {
        deviceId: device.id,
        hmacSecret,
        graceUntil: graceUntilMs === null ? null : formatInstant(graceUntilMs),
        rotatedAt: formatInstant(rotatedAtMs),
      };
    },
  }),
  lifecycleRoute({
    path: 'suspend',
    summary: 'Suspend a device: end its session and reject its logins',
    from: ['ACTIVE'],
    to: 'SUSPENDED',
    event: 'device.suspended',
  }),
  lifecycleRoute({
    path: 'reactivate',
    summary:
      'Reactivate a suspended device; MQTT tokens that were issued before an admin suspended it have ended',
    from: ['SUSPENDED'],
    to: 'ACTIVE',
    event: 'device.reactivated',
  }),
  lifecycleRoute({
    path: 'revoke',
    summary: 'Decommission a device permanently and destroy its credentials',
    from: ['ACTIVE'],
    to: 'DECOMMISSIONED',
    event: 'device.revoked',
  }),
];

interface Transition {
  path: 'suspend' | 'reactivate' | 'revoke';
  summary: string;
  from: DeviceStatus[];
  to: Exclude<DeviceStatus, 'PENDING'>;
  event: AuditEventName;
}

/** Builds the route of a lifecycle transition. In a status that `from` does not list it answers 409. */
function lifecycleRoute({ path, summary, from, to, event }: Transition) {
  return route(`POST /api/v1/devices/{id}/${path}`, {
    summary,
    who: to === 'ACTIVE' ? MANAGES_DEVICES : { ...MANAGES_DEVICES, isUrgent: true },
    params: idParameter,
    body: reasonRequest,
    isBodyOptional: true,
    examples: { body: { reason: 'stolen from the site' } },
    answer: { description: 'The device', body: deviceRecord },
    errors: ['NOT_FOUND', 'CONFLICT'],
    handler: async (c, { params, body: { reason = null } }) => {
      const device = await requireDeviceAfterMove(c, params.id);
      const { id, status } = device;
      if (!from.includes(status)) throw notAllowed(`be set to ${to}`, status, from.join(' or '));
      const audit = audited(c, event, device, reason === null ? {} : { reason });
      const isDone = await setDeviceStatus(c.env, device, to, reason, audit);
      if (!isDone) throw notAllowed(`be set to ${to}`, `no longer ${from.join(' or ')}`, from.join(' or '));
      return deviceRecordOf(await requireDevice(c, id), Date.now());
    },
  });
}

async function requireActive(c: Context<AppContext>, id: string, what: string): Promise<DeviceRow> {
  const device = await requireDeviceAfterMove(c, id);
  if (device.status !== 'ACTIVE') throw notAllowed(what, device.status);
  return device;
}

function notAllowed(what: string, status: string, needed = 'ACTIVE'): ApiError {
  return conflict(`The device is ${status} and cannot ${what}: it must be ${needed}`);
}

function requireListener(c: Context<AppContext>, { authMethod }: DeviceRow): void {
  if (hasListener(c.env, authMethod)) return;
  const message = `This deployment accepts no devices with authMethod ${authMethod}: see docs/operations.md`;
  throw unavailable(message, 3_600);
}

async function withRequest<Value>(work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CertificateRequestError)) throw error;
    throw invalidBody(error.message);
  }
}

function audited(
  c: Context<AppContext>,
  event: AuditEventName,
  { id }: DeviceRow,
  details: Record<string, unknown> = {},
) {
  return auditEntry(c, event, { type: 'DEVICE', id }, details);
}
