/** A refusal as the upgrade's HTTP answer: our error envelope, which the bridge turns into its client's protocol. */
import { type ApiErrorCode, errorBody } from '../protocol/errors.ts';

export function refusalResponse(code: ApiErrorCode, message: string): Response {
  const body = errorBody(code, message);
  return Response.json(body, { status: body.statusCode });
}

/** What a path that does not exist answers: so does the door without a valid proof (rule 1). */
export function notFoundResponse(): Response {
  return refusalResponse('NOT_FOUND', 'Not found');
}

/** The header in which the Worker hands an authenticated dial to the object. Clients cannot set it: the request is new. */
export const DIAL_HEADER = 'sitewire-dial';
