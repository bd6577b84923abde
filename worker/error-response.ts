/** Errors as clients see them: one envelope, a stable code, the request's id; an unknown error says nothing more. */
import type { Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { type ApiErrorCode, ERROR_STATUS, type ErrorBody, errorBody } from '../protocol/errors.ts';
import type { AppContext } from './env.ts';

/** A refusal on its way to the client. `status` only where it differs from the code's own (405, 412). */
export class ApiError extends Error {
  readonly code: ApiErrorCode;
  readonly status: number;
  readonly details: ErrorBody['details'];

  constructor(
    code: ApiErrorCode,
    message: string,
    options: { details?: ErrorBody['details']; status?: number } = {},
  ) {
    super(message);
    this.code = code;
    this.status = options.status ?? ERROR_STATUS[code];
    this.details = options.details;
  }
}

export function handleError(error: Error, c: Context<AppContext>): Response {
  if (error instanceof ApiError) {
    return respond(errorBody(error.code, error.message, error.details, error.status));
  }
  if (error instanceof HTTPException && error.status < 500) {
    return respond(errorBody('BAD_REQUEST', error.message, undefined, error.status));
  }
  console.error('request failed', {
    requestId: c.get('requestId'),
    method: c.req.method,
    path: c.req.path,
    error,
  });
  return respond(errorBody('INTERNAL_SERVER_ERROR', 'Internal server error'));
}

export function handleNotFound(): Response {
  return respond(errorBody('NOT_FOUND', 'Not found'));
}

function respond(body: ErrorBody): Response {
  return Response.json(body, { status: body.statusCode });
}
