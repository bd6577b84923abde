/** The calls for error codes that need something to happen first: a fence, an ended session, or too many requests. */
import type { ApiErrorCode } from '../../../protocol/errors.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { Operator } from '../../admin-client.ts';
import { PASSWORD } from './account-calls.ts';
import type { Call } from './call.ts';
import type { World } from './world.ts';

const LENA = { email: 'lena@example.com', password: PASSWORD };
const NEW_PASSWORD = 'staple correct horse';
const UNKNOWN_TOKEN = { token: 'x'.repeat(43) };
/** The mail to Lena that confirms her address. */
const MAILS_BEFORE_INVITATION = 1;

export const LATE_ERROR_CALLS: Readonly<Partial<Record<ApiErrorCode, Call>>> = {
  ORIGIN_MISMATCH: {
    route: 'POST /api/v1/auth/logout',
    as: 'nobody',
    headers: ['cookie: access_token=$TOKEN', 'origin: https://other.example.com'],
  },
  INTERNAL_SERVER_ERROR: {
    route: 'POST /api/v1/partner/api-keys',
    as: 'admin',
    body: { name: 'Key', partnerId: 'acme-trader', scopes: ['vcp:write:setpoint'] },
  },
  SERVICE_UNAVAILABLE: {
    route: 'POST /api/v1/devices/$DEVICE/commands',
    as: 'admin',
    body: { action: 'REBOOT' },
    prepare: async ({ stack, variables: { PLANT: id } }) => {
      const operator = new Operator(stack.baseUrl, stack.operator.token);
      const fence = { object: 'plant', id, minutes: 1 };
      return { FENCE: (await operator.call<{ fence: string }>('POST', '/backups/fence', fence)).fence };
    },
    finish: async ({ stack, variables: { PLANT: id, FENCE: fence } }) => {
      const operator = new Operator(stack.baseUrl, stack.operator.token);
      await operator.call('POST', '/backups/end', { object: 'plant', id, fence });
    },
  },
  REFRESH_TOKEN_REVOKED: {
    route: 'POST /api/v1/auth/refresh',
    as: 'nobody',
    body: { refreshToken: '$LENA_REFRESH_TOKEN' },
    prepare: async (world) => {
      await world.sendAs('', 'POST', '/auth/register', { ...LENA, name: 'Lena Maly' });
      const { accessToken, refreshToken } = await logIn(world);
      await world.sendAs(accessToken, 'POST', '/auth/logout');
      return { LENA_REFRESH_TOKEN: refreshToken };
    },
  },
  TOKEN_VERSION_MISMATCH: {
    route: 'GET /api/v1/auth/me',
    as: 'nobody',
    headers: ['authorization: Bearer $LENA_TOKEN'],
    prepare: async (world) => {
      const { accessToken } = await logIn(world);
      const change = { currentPassword: PASSWORD, newPassword: NEW_PASSWORD };
      await world.sendAs(accessToken, 'POST', '/auth/change-password', change);
      return { LENA_TOKEN: accessToken };
    },
  },
  INVITATION_EMAIL_MISMATCH: {
    route: 'POST /api/v1/invitations/accept',
    as: 'petr',
    body: { token: '$LENA_INVITATION', confirm: true },
    prepare: async (world) => {
      const { TOKEN: token = '', ORG: organization } = world.variables;
      const invited = { email: LENA.email, role: 'VIEWER' };
      await world.sendAs(token, 'POST', `/organizations/${organization}/invitations`, invited);
      return { LENA_INVITATION: await world.mailedToken(LENA.email, MAILS_BEFORE_INVITATION) };
    },
  },
  ACCOUNT_LOCKED: {
    route: 'POST /api/v1/auth/login',
    as: 'nobody',
    body: { email: LENA.email, password: NEW_PASSWORD },
    prepare: async (world) => {
      const body = { email: LENA.email, password: 'a wrong password' };
      for (let sent = 0; sent < LIMIT.wrongLogins; sent++) await world.send('POST', '/auth/login', { body });
      return undefined;
    },
  },
  TOO_MANY_REQUESTS: {
    route: 'GET /api/v1/vcp/sites',
    as: 'key',
    prepare: async (world) => {
      const headers = { 'x-api-key': world.variables.KEY ?? '' };
      await world.fillLimit('GET', '/vcp/sites', { headers });
      return undefined;
    },
  },
  INVITATION_VERIFY_THROTTLED: {
    route: 'POST /api/v1/invitations/verify',
    as: 'nobody',
    body: UNKNOWN_TOKEN,
    prepare: async (world) => {
      await world.fillLimit('POST', '/invitations/verify', { body: UNKNOWN_TOKEN });
      return undefined;
    },
  },
};

async function logIn(world: World): Promise<{ accessToken: string; refreshToken: string }> {
  return await world.sendAs('', 'POST', '/auth/login', LENA);
}
