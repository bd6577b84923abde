/** Calls about accounts, organizations and their members, and those that end what all calls have made. */
import type { Call } from './call.ts';

export const PASSWORD = 'correct horse battery';

export const ACCOUNT_CALLS: readonly Call[] = [
  {
    route: 'POST /api/v1/auth/register',
    body: {
      email: 'jana@example.com',
      password: PASSWORD,
      name: 'Jana Novak',
      organizationName: 'Northwind Energy',
      organizationSlug: 'northwind',
    },
    save: { ORG: 'organization.id' },
  },
  {
    route: 'POST /api/v1/auth/login',
    body: { email: 'jana@example.com', password: PASSWORD },
    save: { TOKEN: 'accessToken', REFRESH_TOKEN: 'refreshToken' },
  },
  { route: 'POST /api/v1/auth/verify-email/resend' },
  {
    route: 'POST /api/v1/auth/verify-email',
    note: '`MAILED_TOKEN` is in the mail.',
    prepare: async (world) => ({ MAILED_TOKEN: await world.mailedToken('jana@example.com', 0) }),
    body: { token: '$MAILED_TOKEN' },
  },
  { route: 'GET /api/v1/auth/me' },
  {
    route: 'POST /api/v1/auth/refresh',
    body: { refreshToken: '$REFRESH_TOKEN' },
    save: { TOKEN: 'accessToken', REFRESH_TOKEN: 'refreshToken' },
  },
  {
    route: 'POST /api/v1/auth/login',
    isHidden: true,
    body: { email: 'jana@example.com', password: PASSWORD },
  },
  { route: 'GET /api/v1/auth/sessions', save: { SESSION: 'data.0.id' } },
  { route: 'DELETE /api/v1/auth/sessions/{id}', ids: { id: 'SESSION' } },
  { route: 'DELETE /api/v1/auth/sessions' },
  { route: 'GET /api/v1/organizations' },
  {
    route: 'POST /api/v1/organizations',
    body: { name: 'Northwind Test', slug: 'northwind-test' },
  },
  { route: 'GET /api/v1/organizations/{id}', ids: { id: 'ORG' } },
  {
    route: 'PATCH /api/v1/organizations/{id}',
    ids: { id: 'ORG' },
    body: { settings: { signatureHints: true } },
  },
  {
    route: 'POST /api/v1/organizations/{id}/invitations',
    ids: { id: 'ORG' },
    body: { email: 'petr@example.com', role: 'OPERATOR' },
    save: { INVITATION: 'id' },
  },
  { route: 'GET /api/v1/organizations/{id}/invitations', ids: { id: 'ORG' } },
  {
    route: 'POST /api/v1/organizations/{id}/invitations/{invitationId}/resend',
    ids: { id: 'ORG', invitationId: 'INVITATION' },
  },
  {
    route: 'POST /api/v1/invitations/verify',
    note: '`INVITATION_TOKEN` is in the mail to Petr.',
    prepare: async (world) => ({ INVITATION_TOKEN: await world.mailedToken('petr@example.com', 1) }),
    body: { token: '$INVITATION_TOKEN' },
  },
  {
    route: 'POST /api/v1/invitations/accept',
    body: { token: '$INVITATION_TOKEN', confirm: true, name: 'Petr Dvorak', password: PASSWORD },
    save: { PETR: 'session.user.id', PETR_TOKEN: 'session.accessToken' },
  },
  {
    route: 'POST /api/v1/organizations/{id}/members',
    ids: { id: 'ORG' },
    body: { email: 'eva@example.com', role: 'VIEWER' },
    save: { OTHER_INVITATION: 'id' },
  },
  {
    route: 'DELETE /api/v1/organizations/{id}/invitations/{invitationId}',
    ids: { id: 'ORG', invitationId: 'OTHER_INVITATION' },
  },
  { route: 'GET /api/v1/organizations/{id}/members', ids: { id: 'ORG' } },
  {
    route: 'PATCH /api/v1/organizations/{id}/members/{userId}',
    ids: { id: 'ORG', userId: 'PETR' },
    body: { role: 'ADMIN' },
  },
  { route: 'GET /api/v1/users' },
  { route: 'PATCH /api/v1/users/{id}', ids: { id: 'PETR' }, body: { role: 'OPERATOR' } },
];

/** The calls that end what the others have made. */
export const END_CALLS: readonly Call[] = [
  {
    route: 'GET /healthz',
    prepare: async (world) => {
      await world.close();
      return undefined;
    },
  },
  { route: 'GET /readyz' },
  {
    route: 'POST /api/v1/csp-report',
    body: { 'csp-report': { 'document-uri': 'https://example.com/', 'violated-directive': 'script-src' } },
  },
  { route: 'DELETE /api/v1/organizations/{id}/members/{userId}', ids: { id: 'ORG', userId: 'PETR' } },
  { route: 'DELETE /api/v1/partner/api-keys/{id}', ids: { id: 'KEY_ID' } },
  {
    route: 'DELETE /api/v1/plants/{id}/sub-devices/{subDeviceId}',
    ids: { id: 'PLANT', subDeviceId: 'SUB_DEVICE' },
  },
  { route: 'DELETE /api/v1/devices/{id}', isHidden: true, ids: { id: 'DEVICE' } },
  { route: 'DELETE /api/v1/device-templates/{id}', ids: { id: 'TEMPLATE' } },
  { route: 'DELETE /api/v1/plants/{id}', ids: { id: 'PLANT' } },
  {
    route: 'POST /api/v1/auth/change-password',
    body: { currentPassword: PASSWORD, newPassword: 'staple correct horse' },
    save: { TOKEN: 'accessToken' },
  },
  {
    route: 'POST /api/v1/auth/email-change',
    body: { newEmail: 'jana@example.org', currentPassword: 'staple correct horse' },
  },
  { route: 'GET /api/v1/auth/email-change' },
  { route: 'DELETE /api/v1/auth/email-change' },
  {
    route: 'POST /api/v1/auth/email-change',
    isHidden: true,
    body: { newEmail: 'jana@example.org', currentPassword: 'staple correct horse' },
  },
  {
    route: 'POST /api/v1/auth/email-change/confirm',
    note: '`MAILED_TOKEN` is in the mail to the new address.',
    prepare: async (world) => ({ MAILED_TOKEN: await world.mailedToken('jana@example.org', 1) }),
    body: { token: '$MAILED_TOKEN' },
  },
  { route: 'POST /api/v1/auth/password-reset', body: { email: 'jana@example.org' } },
  {
    route: 'POST /api/v1/auth/password-reset/confirm',
    note: '`MAILED_TOKEN` is in the mail.',
    prepare: async (world) => ({ MAILED_TOKEN: await world.mailedToken('jana@example.org', 2) }),
    body: { token: '$MAILED_TOKEN', newPassword: 'battery staple horse' },
  },
  {
    route: 'POST /api/v1/auth/login',
    isHidden: true,
    body: { email: 'jana@example.org', password: 'battery staple horse' },
    save: { TOKEN: 'accessToken' },
  },
  { route: 'POST /api/v1/auth/logout' },
];
