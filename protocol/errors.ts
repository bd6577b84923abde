/** The closed list of error codes and their HTTP status (spec: Errors; [C-10]). Unknown codes do not compile. */
import * as z from 'zod';

export const ERROR_STATUS = {
  BAD_REQUEST: 400,
  VALIDATION_ERROR: 400,
  INVALID_UUID: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  ORG_CONTEXT_REQUIRED: 400,
  ORG_MEMBERSHIP_REQUIRED: 403,
  INSUFFICIENT_ORG_PERMISSIONS: 403,
  SUPER_ADMIN_REQUIRED: 403,
  NOT_FOUND: 404,
  CONFLICT: 409,
  TOO_MANY_REQUESTS: 429,
  PAYLOAD_TOO_LARGE: 413,
  SERVICE_UNAVAILABLE: 503,
  INTERNAL_SERVER_ERROR: 500,
  INVITATION_TOKEN_MISSING: 400,
  INVITATION_NOT_FOUND: 404,
  INVITATION_EXPIRED: 410,
  INVITATION_ALREADY_ACCEPTED: 409,
  INVITATION_CONFIRMATION_REQUIRED: 400,
  INVITATION_CONFIRMATION_INVALID: 400,
  EMAIL_ALREADY_REGISTERED: 409,
  INVALID_CREDENTIALS: 401,
  ACCOUNT_LOCKED: 423,
  CANNOT_REVOKE_CURRENT_SESSION: 409,
  EMAIL_CHANGE_NOT_PENDING: 409,
  EMAIL_CHANGE_TOKEN_EXPIRED: 410,
  EMAIL_CHANGE_TOKEN_INVALID: 400,
  INVALID_CURRENT_PASSWORD: 400,
  PLANT_NOT_FOUND: 404,
  SITE_NOT_FOUND: 404,
  PLANT_ALREADY_EXISTS: 409,
  PLANT_INVALID_STATE: 409,
  ESM_NOT_CONFIGURED: 409,
  PLANT_NOT_LINKED_TO_ESM: 409,
  API_KEY_NOT_FOUND: 404,
  MEMBER_NOT_FOUND: 404,
  ORGANIZATION_NOT_FOUND: 404,
  TRADING_NOT_ENABLED: 403,
  TRADING_CONFIG_INCOMPLETE: 409,
  ESM_URL_NOT_ALLOWED: 400,
  SUB_DEVICE_NOT_FOUND: 404,
  SUB_DEVICE_EXTERNAL_ID_TAKEN: 409,
  SUB_DEVICE_EXTERNAL_ID_INVALID: 400,
  DEVICE_TEMPLATE_NOT_FOUND: 404,
  DEVICE_TEMPLATE_IN_USE: 409,
  DEVICE_TEMPLATE_SIGNAL_INVALID: 400,
  DEVICE_TEMPLATE_ACTION_INVALID: 400,
  DEVICE_TEMPLATE_SYSTEM_READONLY: 403,
  DEVICE_TEMPLATE_WRONG_LEVEL: 400,
  COMMAND_ACTION_NOT_IN_TEMPLATE: 400,
  COMMAND_PARAMS_INVALID: 400,
  SERVICE_ESM_DISABLED: 503,
  SERVICE_ESM_CLIENT_NOT_FOUND: 404,
  TOKEN_VERSION_MISMATCH: 401,
  REFRESH_TOKEN_EXPIRED: 401,
  REFRESH_TOKEN_REVOKED: 401,
  REFRESH_TOKEN_INVALID: 401,
  INVITATION_VERIFY_THROTTLED: 429,
  INVITATION_EMAIL_MISMATCH: 403,
  ACCEPT_INVITE_TOKEN_INVALID_FORMAT: 400,
  API_KEY_SCOPES_EMPTY: 400,
  API_KEY_SCOPE_INVALID: 400,
  API_KEY_CIDR_NOT_IMPLEMENTED: 400,
  API_KEY_VCP_SCOPES_NOT_SUPPORTED: 400,
  ORIGIN_MISMATCH: 403,
  CSP_VIOLATION_LOGGED: 200,
  EXTERNAL_PLANT_ID_INVALID_FORMAT: 400,
  MIRROR_PLANT_READ_ONLY: 403,
} as const;

export type ApiErrorCode = keyof typeof ERROR_STATUS;

/** The reason phrases of the used HTTP statuses (`error` of the envelope). */
const STATUS_TEXT: Record<number, string> = {
  200: 'OK',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  410: 'Gone',
  412: 'Precondition Failed',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  421: 'Misdirected Request',
  423: 'Locked',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** The body of every 4xx and 5xx (spec: Errors, Envelope). */
export const errorEnvelope = z.strictObject({
  statusCode: z.int(),
  message: z.string(),
  error: z.string(),
  code: z.enum(Object.keys(ERROR_STATUS) as [ApiErrorCode, ...ApiErrorCode[]]),
  details: z
    .union([z.record(z.string(), z.unknown()), z.array(z.string())])
    .nullable()
    .optional(),
});
export type ErrorBody = z.infer<typeof errorEnvelope>;

/** `status` differs from the code's status only for 405, 415, 421 (BAD_REQUEST) and 412 (CONFLICT) [C-10]. */
export function errorBody(
  code: ApiErrorCode,
  message: string,
  details?: ErrorBody['details'],
  status: number = ERROR_STATUS[code],
): ErrorBody {
  const body: ErrorBody = { statusCode: status, message, error: STATUS_TEXT[status] ?? 'Error', code };
  return details === undefined ? body : { ...body, details };
}
