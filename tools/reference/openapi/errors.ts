/**
 * When each error code is answered, and what the caller does then. The OpenAPI document and /docs/errors have these
 * texts; `null`: the code is in the specification, and no route answers it [C-10].
 */
import type { ApiErrorCode } from '../../../protocol/errors.ts';

interface ErrorText {
  when: string;
  remedy: string;
}

export const ERROR_TEXTS: Record<ApiErrorCode, ErrorText | null> = {
  BAD_REQUEST: {
    when: 'The request body is not JSON in UTF-8, has another content type or is nested too deeply, has a charset other than utf-8 (415), or the path does not have this method (405).',
    remedy:
      'Send a JSON body with `content-type: application/json`, or use a method that the `Allow` header lists.',
  },
  VALIDATION_ERROR: {
    when: 'A query parameter or the body is not valid, or a path id of a partner or public route is not a UUID.',
    remedy: 'Correct the fields that `details` lists, and send the request again.',
  },
  INVALID_UUID: {
    when: 'An id in the path of an admin route is not a UUID.',
    remedy: 'Copy the id from an answer of the API, and send the request again.',
  },
  UNAUTHORIZED: {
    when: 'The request has no valid API key, access token or other credential for this path.',
    remedy: 'Send a valid API key in `X-API-Key`, or log in and send the access token.',
  },
  FORBIDDEN: {
    when: 'The credential is valid and does not allow this request: a scope is missing, the address is not allowed or not proved, or the organization is suspended.',
    remedy:
      'Read `message`, and use a key with the scope, prove your e-mail address, or ask an admin or the operator.',
  },
  ORG_CONTEXT_REQUIRED: {
    when: 'The request needs the header `x-org-id`, and does not have it.',
    remedy: 'Send the id of one of your organizations in the header `x-org-id`.',
  },
  ORG_MEMBERSHIP_REQUIRED: {
    when: 'You are not a member of the organization in `x-org-id`, or you are in no organization.',
    remedy:
      'Send the id of an organization that `GET /organizations` lists, or omit the header if you use an API key.',
  },
  INSUFFICIENT_ORG_PERMISSIONS: {
    when: 'Your role in the organization is too low for this request.',
    remedy: 'Ask an ORG_ADMIN for a higher role, or ask them to make the change.',
  },
  SUPER_ADMIN_REQUIRED: {
    when: 'Only the operator or a SUPER_ADMIN may send this request.',
    remedy: 'Omit `all=true`, or send an operator token or log in as a SUPER_ADMIN.',
  },
  NOT_FOUND: {
    when: 'The path, or the device, command, alert, rule or session in it, does not exist or is not visible to you.',
    remedy: 'Check the path and the id: list the resources, or read `/api/v1/openapi.json` for the paths.',
  },
  CONFLICT: {
    when: 'The present state does not allow the request: a name is taken, a limit is reached, or the resource is in another state (412: `If-Match` does not match).',
    remedy: 'Read `message` and the present state, then change the request or remove what blocks it.',
  },
  TOO_MANY_REQUESTS: {
    when: 'The key, the user, the organization or the client address has sent more requests than its limit.',
    remedy: 'Wait for the seconds in `Retry-After`, then send the request again.',
  },
  PAYLOAD_TOO_LARGE: {
    when: 'The body has more than 1 MiB, or more than 64 KiB on a route that needs no credential.',
    remedy: 'Send a smaller body, or several requests.',
  },
  SERVICE_UNAVAILABLE: {
    when: 'A part of the platform is not available for a time, or the deployment does not have it.',
    remedy:
      'If `message` says that the change is stored, do not repeat it; otherwise wait for `Retry-After` and send the request again.',
  },
  INTERNAL_SERVER_ERROR: {
    when: 'The edge has an unexpected error, or the connection test of a new API key fails.',
    remedy:
      'Report the `x-request-id` of the answer to the operator; for a new key read the audit event `api_key.creation_failed`.',
  },
  INVITATION_TOKEN_MISSING: {
    when: 'The body has no `token`, or it is empty.',
    remedy: 'Send the token of the invitation.',
  },
  INVITATION_NOT_FOUND: {
    when: 'The invitation does not exist, or it was replaced, revoked or deleted.',
    remedy: 'Ask an admin of the organization for a new invitation; as an admin, list the invitations.',
  },
  INVITATION_EXPIRED: {
    when: 'The invitation is older than seven days.',
    remedy: 'Ask an admin of the organization to send it again.',
  },
  INVITATION_ALREADY_ACCEPTED: {
    when: 'A person has already accepted this invitation.',
    remedy: 'Log in to use the organization; as an admin, change or remove the member instead.',
  },
  INVITATION_CONFIRMATION_REQUIRED: {
    when: 'The body has no `confirm`.',
    remedy: 'Send `"confirm": true`.',
  },
  INVITATION_CONFIRMATION_INVALID: {
    when: '`confirm` has another value than `true`.',
    remedy: 'Send `"confirm": true`.',
  },
  EMAIL_ALREADY_REGISTERED: {
    when: 'Another account has this e-mail address.',
    remedy: 'Log in or reset the password of that account, or use another address.',
  },
  INVALID_CREDENTIALS: {
    when: 'The e-mail address or the password is wrong.',
    remedy: 'Check both, or reset the password.',
  },
  ACCOUNT_LOCKED: {
    when: 'There were too many wrong passwords for this account from your network, from everywhere, or in this session.',
    remedy: 'Wait for the seconds in `Retry-After`, or reset the password.',
  },
  CANNOT_REVOKE_CURRENT_SESSION: {
    when: 'The session in the path is the one that sends the request.',
    remedy: 'Log out with `POST /auth/logout`.',
  },
  EMAIL_CHANGE_NOT_PENDING: {
    when: 'No change of your e-mail address is pending.',
    remedy: 'Do nothing: there is no change to cancel.',
  },
  EMAIL_CHANGE_TOKEN_EXPIRED: {
    when: 'The token is older than 24 hours.',
    remedy: 'Request the change of the e-mail address again.',
  },
  EMAIL_CHANGE_TOKEN_INVALID: {
    when: 'The token is unknown, was used or replaced, or belongs to another account.',
    remedy: 'Log in as the account that requested the change, and send the token of the last mail.',
  },
  INVALID_CURRENT_PASSWORD: {
    when: '`currentPassword` is not your password.',
    remedy: 'Check `currentPassword`, and send the request again.',
  },
  PLANT_NOT_FOUND: {
    when: 'The plant does not exist, belongs to another organization, or is outside the plants of the key.',
    remedy: 'List your plants with `GET /plants`, and use an id from there.',
  },
  SITE_NOT_FOUND: {
    when: 'The site does not exist, belongs to another organization, or is outside the plants of the key.',
    remedy: 'List the sites of the key with `GET /vcp/sites`, and use an id from there.',
  },
  PLANT_ALREADY_EXISTS: {
    when: 'Another plant of the organization has this EAN or this `externalPlantId`.',
    remedy: 'Send another EAN or `externalPlantId`, or change the other plant first.',
  },
  PLANT_INVALID_STATE: {
    when: 'The plant still has devices and cannot be deleted.',
    remedy: 'Delete its devices or move them to another plant, then delete the plant.',
  },
  ESM_NOT_CONFIGURED: null,
  PLANT_NOT_LINKED_TO_ESM: null,
  API_KEY_NOT_FOUND: {
    when: 'The organization has no API key with this id.',
    remedy: 'List the keys with `GET /partner/api-keys`, and use an id from there.',
  },
  MEMBER_NOT_FOUND: {
    when: 'The organization has no member with this user id.',
    remedy: 'List the members of the organization, and use a `userId` from there.',
  },
  ORGANIZATION_NOT_FOUND: {
    when: 'The organization in the path does not exist, or you are not a member of it.',
    remedy: 'List your organizations with `GET /organizations`, and use an id from there.',
  },
  TRADING_NOT_ENABLED: null,
  TRADING_CONFIG_INCOMPLETE: null,
  ESM_URL_NOT_ALLOWED: null,
  SUB_DEVICE_NOT_FOUND: {
    when: 'The plant has no sub-device with this id.',
    remedy: 'List the sub-devices of the plant, and use an `id` from there, not an `externalId`.',
  },
  SUB_DEVICE_EXTERNAL_ID_TAKEN: {
    when: 'Another sub-device of the plant has this `externalId`.',
    remedy: 'Choose another `externalId`.',
  },
  SUB_DEVICE_EXTERNAL_ID_INVALID: {
    when: '`externalId` is not 1 to 64 letters, digits, dots, underscores or hyphens.',
    remedy: 'Send an `externalId` of these characters, without a slash or a space.',
  },
  DEVICE_TEMPLATE_NOT_FOUND: {
    when: 'The template does not exist, or belongs to another organization.',
    remedy: 'List the templates with `GET /device-templates`, and use an id from there.',
  },
  DEVICE_TEMPLATE_IN_USE: {
    when: 'A device or a sub-device still uses the template, so it cannot be deleted.',
    remedy: 'Remove the template from these devices first.',
  },
  DEVICE_TEMPLATE_SIGNAL_INVALID: {
    when: 'A signal of the template is malformed, or its name occurs twice.',
    remedy: 'Correct the signals that `details` lists.',
  },
  DEVICE_TEMPLATE_ACTION_INVALID: {
    when: 'An action of the template is malformed, or its name occurs twice.',
    remedy: 'Correct the actions that `details` lists.',
  },
  DEVICE_TEMPLATE_SYSTEM_READONLY: {
    when: 'The template belongs to the platform and cannot be changed or deleted.',
    remedy: 'Create a template of your organization instead.',
  },
  DEVICE_TEMPLATE_WRONG_LEVEL: {
    when: 'You sent `level: SYSTEM`, or the template is for another asset type than the device or sub-device.',
    remedy: 'Omit `level`, or use a template of the asset type that `message` names.',
  },
  COMMAND_ACTION_NOT_IN_TEMPLATE: {
    when: 'The action can be sent only over AMQP or by the platform, or the template of the device does not have it.',
    remedy: "Send an action that `message` allows, or a partner's command over AMQP.",
  },
  COMMAND_PARAMS_INVALID: {
    when: 'The parameters of the command do not fit the action in the template of the device.',
    remedy: 'Correct the parameters that `details` lists.',
  },
  SERVICE_ESM_DISABLED: null,
  SERVICE_ESM_CLIENT_NOT_FOUND: null,
  TOKEN_VERSION_MISMATCH: {
    when: 'The password has changed since this access token was issued, or the account was deleted.',
    remedy: 'Use the tokens from the answer of the change, or log in again.',
  },
  REFRESH_TOKEN_EXPIRED: {
    when: 'The refresh token or its session is too old.',
    remedy: 'Log in again.',
  },
  REFRESH_TOKEN_REVOKED: {
    when: 'The session has ended, or the refresh token was used before and its session ends now.',
    remedy: 'Log in again, and use each refresh token once.',
  },
  REFRESH_TOKEN_INVALID: {
    when: 'The text is not a refresh token of this deployment.',
    remedy: 'Send the `refreshToken` of the last answer unchanged, or log in again.',
  },
  INVITATION_VERIFY_THROTTLED: {
    when: 'Your network has sent more than 20 invitation tokens in a minute.',
    remedy: 'Wait for the seconds in `Retry-After`, then try again.',
  },
  INVITATION_EMAIL_MISMATCH: {
    when: 'You are logged in with another e-mail address than the invited one.',
    remedy: 'Log in with the invited address, or send the request without a session.',
  },
  ACCEPT_INVITE_TOKEN_INVALID_FORMAT: {
    when: 'The token is not 43 characters of A-Z, a-z, 0-9, - and _.',
    remedy: 'Copy the whole token from the mail or the link.',
  },
  API_KEY_SCOPES_EMPTY: {
    when: '`scopes` is an empty list.',
    remedy: 'Send at least one scope, for example `vcp:read`.',
  },
  API_KEY_SCOPE_INVALID: {
    when: 'A scope in `scopes` does not exist.',
    remedy: 'Correct the scopes that `details.unknown` lists.',
  },
  API_KEY_CIDR_NOT_IMPLEMENTED: {
    when: '`allowedIps` is set for a key that may use REST, and the deployment does not know client addresses of REST requests.',
    remedy: 'Omit `allowedIps`, or create a key with broker scopes only.',
  },
  API_KEY_VCP_SCOPES_NOT_SUPPORTED: {
    when: 'A scope needs AMQP, and the deployment has no AMQP listener.',
    remedy: 'Omit `vcp:connect` and `vcp:write:*`, or ask the operator to run a bridge.',
  },
  ORIGIN_MISMATCH: {
    when: 'A page of another origin sends a changing request with the session cookie.',
    remedy:
      'Send the request from the same origin, or send the access token as bearer token instead of the cookie.',
  },
  CSP_VIOLATION_LOGGED: {
    when: 'The edge has logged the report of the browser (status 200, not an error).',
    remedy: 'Do nothing.',
  },
  EXTERNAL_PLANT_ID_INVALID_FORMAT: {
    when: '`externalPlantId` is not 1 to 64 letters, digits, dots, underscores, colons or hyphens, or it looks like a UUID.',
    remedy: 'Send an `externalPlantId` of these characters that is not a UUID, or null.',
  },
  MIRROR_PLANT_READ_ONLY: null,
};
