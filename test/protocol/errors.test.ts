/** The closed list of error codes, repeated here so that an added, removed or moved code fails this test. */
import { STATUS_CODES } from 'node:http';
import { describe, expect, it } from 'vitest';
import { type ApiErrorCode, ERROR_STATUS, errorBody } from '../../protocol/errors.ts';

/** By status, in the order of the contract. */
const BY_STATUS: Record<number, readonly ApiErrorCode[]> = {
  200: ['CSP_VIOLATION_LOGGED'],
  400: [
    'BAD_REQUEST',
    'VALIDATION_ERROR',
    'INVALID_UUID',
    'ORG_CONTEXT_REQUIRED',
    'INVITATION_CONFIRMATION_INVALID',
    'EMAIL_CHANGE_TOKEN_INVALID',
    'SUB_DEVICE_EXTERNAL_ID_INVALID',
    'ACCEPT_INVITE_TOKEN_INVALID_FORMAT',
    'EXTERNAL_PLANT_ID_INVALID_FORMAT',
    'DEVICE_TEMPLATE_SIGNAL_INVALID',
    'DEVICE_TEMPLATE_ACTION_INVALID',
    'DEVICE_TEMPLATE_WRONG_LEVEL',
    'API_KEY_SCOPES_EMPTY',
    'API_KEY_SCOPE_INVALID',
    'API_KEY_CIDR_NOT_IMPLEMENTED',
    'API_KEY_VCP_SCOPES_NOT_SUPPORTED',
    'COMMAND_ACTION_NOT_IN_TEMPLATE',
    'COMMAND_PARAMS_INVALID',
    'INVITATION_TOKEN_MISSING',
    'INVITATION_CONFIRMATION_REQUIRED',
    'INVALID_CURRENT_PASSWORD',
  ],
  401: [
    'UNAUTHORIZED',
    'INVALID_CREDENTIALS',
    'TOKEN_VERSION_MISMATCH',
    'REFRESH_TOKEN_EXPIRED',
    'REFRESH_TOKEN_REVOKED',
    'REFRESH_TOKEN_INVALID',
  ],
  403: [
    'FORBIDDEN',
    'ORG_MEMBERSHIP_REQUIRED',
    'INSUFFICIENT_ORG_PERMISSIONS',
    'SUPER_ADMIN_REQUIRED',
    'ORIGIN_MISMATCH',
    'INVITATION_EMAIL_MISMATCH',
    'DEVICE_TEMPLATE_SYSTEM_READONLY',
  ],
  404: [
    'NOT_FOUND',
    'INVITATION_NOT_FOUND',
    'PLANT_NOT_FOUND',
    'SITE_NOT_FOUND',
    'API_KEY_NOT_FOUND',
    'MEMBER_NOT_FOUND',
    'ORGANIZATION_NOT_FOUND',
    'SUB_DEVICE_NOT_FOUND',
    'DEVICE_TEMPLATE_NOT_FOUND',
    'SERVICE_ESM_CLIENT_NOT_FOUND',
  ],
  409: [
    'CONFLICT',
    'INVITATION_ALREADY_ACCEPTED',
    'EMAIL_ALREADY_REGISTERED',
    'PLANT_ALREADY_EXISTS',
    'SUB_DEVICE_EXTERNAL_ID_TAKEN',
    'PLANT_INVALID_STATE',
    'EMAIL_CHANGE_NOT_PENDING',
    'DEVICE_TEMPLATE_IN_USE',
    'CANNOT_REVOKE_CURRENT_SESSION',
  ],
  410: ['INVITATION_EXPIRED', 'EMAIL_CHANGE_TOKEN_EXPIRED'],
  413: ['PAYLOAD_TOO_LARGE'],
  423: ['ACCOUNT_LOCKED'],
  429: ['TOO_MANY_REQUESTS', 'INVITATION_VERIFY_THROTTLED'],
  500: ['INTERNAL_SERVER_ERROR'],
  503: ['SERVICE_UNAVAILABLE'],
};

/**
 * Codes of features that the interface only names: they are in the list, with an unspecified error status.
 */
const RESERVED: readonly ApiErrorCode[] = [
  'ESM_NOT_CONFIGURED',
  'PLANT_NOT_LINKED_TO_ESM',
  'TRADING_NOT_ENABLED',
  'TRADING_CONFIG_INCOMPLETE',
  'ESM_URL_NOT_ALLOWED',
  'SERVICE_ESM_DISABLED',
  'MIRROR_PLANT_READ_ONLY',
];

const rows = Object.entries(BY_STATUS).flatMap(([status, codes]) =>
  codes.map((code): [ApiErrorCode, number] => [code, Number(status)]),
);

describe('the list of codes', () => {
  it('holds the published codes and no others [spec: Errors]', () => {
    const published = [...rows.map(([code]) => code), ...RESERVED];
    expect(Object.keys(ERROR_STATUS).sort()).toEqual(published.sort());
    expect(new Set(published).size).toBe(69);
  });

  it.each(rows)('gives %s the status %d [C-10]', (code, status) => {
    expect(ERROR_STATUS[code]).toBe(status);
  });

  it.each(RESERVED)('gives the reserved code %s a status from 400 to 599 [C-10]', (code) => {
    expect(ERROR_STATUS[code]).toBeGreaterThanOrEqual(400);
    expect(ERROR_STATUS[code]).toBeLessThan(600);
  });
});

describe('errorBody', () => {
  it.each(Object.keys(ERROR_STATUS) as ApiErrorCode[])(
    'has the status of %s, and the HTTP name of that status as its error [spec: Errors]',
    (code) => {
      const status = ERROR_STATUS[code];
      expect(errorBody(code, 'what happened')).toStrictEqual({
        statusCode: status,
        message: 'what happened',
        error: STATUS_CODES[status],
        code,
      });
    },
  );

  it.each([
    ['BAD_REQUEST', 405, 'Method Not Allowed'],
    ['CONFLICT', 412, 'Precondition Failed'],
  ] as const)(
    'has, with the code %s and the explicit status %d, that status and its HTTP name [C-10]',
    (code, status, error) => {
      expect(errorBody(code, 'm', undefined, status)).toStrictEqual({
        statusCode: status,
        message: 'm',
        error,
        code,
      });
    },
  );

  it.each([[['name: too long']], [{ field: 'name' }], [null]])(
    'contains the given details %j unchanged [spec: Errors]',
    (details) => {
      expect(errorBody('VALIDATION_ERROR', 'm', details).details).toEqual(details);
    },
  );
});
