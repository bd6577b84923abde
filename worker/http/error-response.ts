/**
 * Error answers: the envelope `{statusCode, message, error, code, details?}` of `protocol/errors.ts`, and the
 * request id in a header. An unexpected error contains no details.
 */
import type { Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { FENCED } from '../../durable-objects/backup-rpc.ts';
import { causesOf, reasonOf, stackOf } from '../../durable-objects/object/reason.ts';
import { type ApiErrorCode, ERROR_STATUS, type ErrorBody, errorBody } from '../../protocol/errors.ts';
import type { AppContext } from '../env.ts';
import { isTrouble } from './trouble.ts';

/** An object that was restarted is available again before this time is over. */
const RETRY_AFTER_S = 2;

/** An error for the client. `status` is only given if it differs from the code's status (405, 412, 415, 421). */
export class ApiError extends Error {
  readonly code: ApiErrorCode;
  readonly status: number;
  readonly details: ErrorBody['details'];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: ApiErrorCode,
    message: string,
    options: { details?: ErrorBody['details']; status?: number; headers?: Record<string, string> } = {},
  ) {
    super(message);
    this.code = code;
    this.status = options.status ?? ERROR_STATUS[code];
    this.details = options.details;
    this.headers = options.headers ?? {};
  }
}

/** 400 for a body with these faults, each as `field: what is wrong`. */
export function invalidBody(...details: string[]): ApiError {
  return new ApiError('VALIDATION_ERROR', `Invalid body: ${details[0]}`, { details });
}

export function unauthorized(message: string): ApiError {
  return new ApiError('UNAUTHORIZED', message);
}

export function forbidden(message: string): ApiError {
  return new ApiError('FORBIDDEN', message);
}

export function conflict(message: string): ApiError {
  return new ApiError('CONFLICT', message);
}

/** 503 for a temporary failure, or for a part that the deployment lacks. `Retry-After` is `retryAfterSeconds`. */
export function unavailable(message: string, retryAfterSeconds: number): ApiError {
  return new ApiError('SERVICE_UNAVAILABLE', message, {
    headers: { 'retry-after': String(retryAfterSeconds) },
  });
}

/**
 * 409 because the maximum number of `things` exists. `things` ends with what the client can do: `API keys:
 * revoke one first`.
 */
export function limitReached(owner: string, most: number, things: string): ApiError {
  return conflict(`The ${owner} has reached its limit of ${most} ${things}`);
}

export function handleError(error: Error, c: Context<AppContext>): Response {
  if (error instanceof ApiError) {
    for (const [name, value] of Object.entries(error.headers)) c.header(name, value);
    return respond(c, errorBody(error.code, error.message, error.details, error.status));
  }
  if (error instanceof HTTPException && error.status < 500) {
    return respond(c, errorBody('BAD_REQUEST', error.message, undefined, error.status));
  }
  const requestId = c.get('requestId');
  const { method, path } = c.req;
  if (isTrouble(error)) {
    console.error('request failed because of a temporary failure, the client gets 503', {
      requestId,
      method,
      path,
      reason: reasonOf(error),
    });
    c.header('retry-after', String(RETRY_AFTER_S));
    const until = fencedUntil(error);
    const what = until
      ? `The plant or key is being backed up or restored until ${until} at the latest`
      : 'The service is temporarily unavailable';
    return respond(c, errorBody('SERVICE_UNAVAILABLE', `${what}: try again in ${RETRY_AFTER_S} s`));
  }
  console.error('request failed because of an unexpected error, the client gets 500', {
    requestId,
    method,
    path,
    stack: stackOf(error),
  });
  return respond(
    c,
    errorBody('INTERNAL_SERVER_ERROR', 'Internal server error: report it with the header x-request-id'),
  );
}

export function handleNotFound(c: Context<AppContext>): Response {
  return respond(c, errorBody('NOT_FOUND', 'No such path: /api/v1/openapi.json lists all paths'));
}

/** Answers through the context, which keeps the headers that middleware has set, such as the request id. */
function respond(c: Context<AppContext>, body: ErrorBody): Response {
  return c.json(body, body.statusCode as ContentfulStatusCode);
}

/** When the fence ends that refused the call, as the object says it; undefined for any other failure. */
function fencedUntil(error: Error): string | undefined {
  const texts = [error, ...causesOf(error)].map(({ message }) => message);
  return texts.flatMap((text) => text.split(`${FENCED} until `)[1]?.split(/\s/)[0] ?? [])[0];
}
