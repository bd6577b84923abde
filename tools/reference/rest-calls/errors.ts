/**
 * A call for each error code that a development stack can answer within seconds: the reference shows its answer. Later
 * calls do not depend on what these change.
 */
import type { ApiErrorCode } from '../../../protocol/errors.ts';
import type { Call } from './call.ts';
import { LATE_ERROR_CALLS } from './late-errors.ts';

const ABSENT = 'ffffffff-ffff-4fff-8fff-ffffffffffff';
const SUB_DEVICE = { externalId: 'BESS-2', assetType: 'BESS', name: 'Battery 2' };
const TEMPLATE = { name: 'Other', assetType: 'BESS' };
const KEY = { name: 'Key', partnerId: 'acme-trader', scopes: ['plants:read'] };
const PASSWORD = 'correct horse battery';

const NO_LISTENER = 'The development stack has an AMQP listener and knows client addresses.';

/** Why no call shows an error code. */
export const NOT_SHOWN: Readonly<Partial<Record<ApiErrorCode, string>>> = {
  CSP_VIOLATION_LOGGED:
    'It is the good answer of `POST /api/v1/csp-report`, see [rest-calls.md](rest-calls.md).',
  EMAIL_CHANGE_TOKEN_EXPIRED: 'The token must be older than a day.',
  INVITATION_EXPIRED: 'The invitation must be older than a week.',
  REFRESH_TOKEN_EXPIRED: 'The refresh token must be older than 30 days.',
  API_KEY_CIDR_NOT_IMPLEMENTED: NO_LISTENER,
  API_KEY_VCP_SCOPES_NOT_SUPPORTED: NO_LISTENER,
};

export const ERROR_CALLS: Readonly<Partial<Record<ApiErrorCode, Call>>> = {
  BAD_REQUEST: { route: 'DELETE /api/v1/auth/me', as: 'admin' },
  VALIDATION_ERROR: { route: 'POST /api/v1/plants', as: 'admin', body: { name: '', eanCons: '123' } },
  INVALID_UUID: { route: 'GET /api/v1/plants/dairy-7', as: 'admin' },
  UNAUTHORIZED: { route: 'GET /api/v1/plants', as: 'nobody' },
  FORBIDDEN: { route: 'GET /api/v1/plants', as: 'key' },
  ORG_CONTEXT_REQUIRED: { route: 'GET /api/v1/partner/api-keys', as: 'withoutOrganization' },
  ORG_MEMBERSHIP_REQUIRED: { route: 'GET /api/v1/plants', as: 'elsewhere' },
  INSUFFICIENT_ORG_PERMISSIONS: { route: 'POST /api/v1/device-templates', as: 'petr', body: TEMPLATE },
  SUPER_ADMIN_REQUIRED: { route: 'GET /api/v1/platform/data-keys', as: 'admin' },
  NOT_FOUND: { route: `GET /api/v1/devices/${ABSENT}`, as: 'admin' },
  CONFLICT: {
    route: 'POST /api/v1/devices',
    as: 'admin',
    body: { name: 'Copy', serialNumber: 'GW-2026-00042', type: 'GATEWAY' },
  },
  EMAIL_ALREADY_REGISTERED: {
    route: 'POST /api/v1/auth/register',
    as: 'nobody',
    body: { email: 'petr@example.com', password: PASSWORD, name: 'Petr' },
  },
  INVALID_CREDENTIALS: {
    route: 'POST /api/v1/auth/login',
    as: 'nobody',
    body: { email: 'petr@example.com', password: 'a wrong password' },
  },
  REFRESH_TOKEN_INVALID: { route: 'POST /api/v1/auth/refresh', as: 'nobody', body: { refreshToken: 'x' } },
  INVALID_CURRENT_PASSWORD: {
    route: 'POST /api/v1/auth/change-password',
    as: 'petr',
    body: { currentPassword: 'a wrong password', newPassword: 'staple correct horse' },
  },
  CANNOT_REVOKE_CURRENT_SESSION: {
    route: 'DELETE /api/v1/auth/sessions/$OWN_SESSION',
    as: 'admin',
    prepare: async (world) => ({ OWN_SESSION: await world.ownSession() }),
  },
  EMAIL_CHANGE_NOT_PENDING: { route: 'DELETE /api/v1/auth/email-change', as: 'petr' },
  EMAIL_CHANGE_TOKEN_INVALID: {
    route: 'POST /api/v1/auth/email-change/confirm',
    as: 'petr',
    body: { token: 'x'.repeat(43) },
  },
  INVITATION_TOKEN_MISSING: { route: 'POST /api/v1/invitations/verify', as: 'nobody', body: {} },
  ACCEPT_INVITE_TOKEN_INVALID_FORMAT: {
    route: 'POST /api/v1/invitations/verify',
    as: 'nobody',
    body: { token: 'half a token' },
  },
  INVITATION_NOT_FOUND: {
    route: 'POST /api/v1/invitations/verify',
    as: 'nobody',
    body: { token: 'x'.repeat(43) },
  },
  INVITATION_ALREADY_ACCEPTED: {
    route: 'POST /api/v1/invitations/accept',
    as: 'nobody',
    body: { token: '$INVITATION_TOKEN', confirm: true },
  },
  INVITATION_CONFIRMATION_REQUIRED: {
    route: 'POST /api/v1/invitations/accept',
    as: 'nobody',
    body: { token: 'x'.repeat(43) },
  },
  INVITATION_CONFIRMATION_INVALID: {
    route: 'POST /api/v1/invitations/accept',
    as: 'nobody',
    body: { token: 'x'.repeat(43), confirm: 'yes' },
  },
  ORGANIZATION_NOT_FOUND: { route: `GET /api/v1/organizations/${ABSENT}`, as: 'admin' },
  MEMBER_NOT_FOUND: {
    route: `PATCH /api/v1/organizations/$ORG/members/${ABSENT}`,
    as: 'admin',
    body: { role: 'VIEWER' },
  },
  PLANT_NOT_FOUND: { route: `GET /api/v1/plants/${ABSENT}`, as: 'admin' },
  SITE_NOT_FOUND: { route: `GET /api/v1/vcp/sites/${ABSENT}/config`, as: 'key' },
  PLANT_ALREADY_EXISTS: {
    route: 'POST /api/v1/plants',
    as: 'admin',
    body: { name: 'Copy', eanCons: '859182400000000701' },
  },
  PLANT_INVALID_STATE: { route: 'DELETE /api/v1/plants/$PLANT', as: 'admin' },
  EXTERNAL_PLANT_ID_INVALID_FORMAT: {
    route: 'POST /api/v1/plants',
    as: 'admin',
    body: { name: 'Plant', externalPlantId: 'hall 7' },
  },
  SUB_DEVICE_NOT_FOUND: { route: `GET /api/v1/plants/$PLANT/sub-devices/${ABSENT}`, as: 'admin' },
  SUB_DEVICE_EXTERNAL_ID_TAKEN: {
    route: 'POST /api/v1/plants/$PLANT/sub-devices',
    as: 'admin',
    body: { ...SUB_DEVICE, externalId: 'BESS-1' },
  },
  SUB_DEVICE_EXTERNAL_ID_INVALID: {
    route: 'POST /api/v1/plants/$PLANT/sub-devices',
    as: 'admin',
    body: { ...SUB_DEVICE, externalId: 'BESS 2' },
  },
  DEVICE_TEMPLATE_NOT_FOUND: { route: `GET /api/v1/device-templates/${ABSENT}`, as: 'admin' },
  DEVICE_TEMPLATE_IN_USE: { route: 'DELETE /api/v1/device-templates/$TEMPLATE', as: 'admin' },
  DEVICE_TEMPLATE_SIGNAL_INVALID: {
    route: 'POST /api/v1/device-templates',
    as: 'admin',
    body: { ...TEMPLATE, signals: [{ name: 'BESS-1/powerKw', label: 'Power', unit: 'kW', kind: 'GAUGE' }] },
  },
  DEVICE_TEMPLATE_ACTION_INVALID: {
    route: 'POST /api/v1/device-templates',
    as: 'admin',
    body: { ...TEMPLATE, actions: [{ action: 'reboot', label: 'Restart' }] },
  },
  DEVICE_TEMPLATE_SYSTEM_READONLY: {
    route: 'PATCH /api/v1/device-templates/5f7e0000-0000-4000-8000-000000000001',
    as: 'admin',
    body: { name: 'Mine' },
  },
  DEVICE_TEMPLATE_WRONG_LEVEL: {
    route: 'POST /api/v1/plants/$PLANT/sub-devices',
    as: 'admin',
    body: { ...SUB_DEVICE, templateId: '5f7e0000-0000-4000-8000-000000000002' },
  },
  COMMAND_ACTION_NOT_IN_TEMPLATE: {
    route: 'POST /api/v1/devices/$DEVICE/commands',
    as: 'admin',
    body: { action: 'STOP' },
  },
  COMMAND_PARAMS_INVALID: {
    route: 'POST /api/v1/devices/$DEVICE/commands',
    as: 'admin',
    body: { action: 'REBOOT', payload: { delaySeconds: 90 } },
  },
  API_KEY_NOT_FOUND: { route: `GET /api/v1/partner/api-keys/${ABSENT}`, as: 'admin' },
  API_KEY_SCOPES_EMPTY: {
    route: 'POST /api/v1/partner/api-keys',
    as: 'admin',
    body: { ...KEY, scopes: [] },
  },
  API_KEY_SCOPE_INVALID: {
    route: 'POST /api/v1/partner/api-keys',
    as: 'admin',
    body: { ...KEY, scopes: ['plants:reed'] },
  },
  PAYLOAD_TOO_LARGE: {
    route: 'POST /api/v1/auth/login',
    as: 'nobody',
    body: { email: 'jana@example.com', password: 'x'.repeat(70_000) },
  },
  ...LATE_ERROR_CALLS,
};
