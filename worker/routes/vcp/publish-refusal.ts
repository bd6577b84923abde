/** The errors of publishes over HTTPS that have no acknowledgement [C-13.5]. */
import type { PublishRefusal } from '../../../protocol/rest-publish.ts';
import {
  ApiError,
  conflict,
  forbidden,
  invalidBody,
  unauthorized,
  unavailable,
} from '../../http/error-response.ts';

const RETRY_SECONDS = 5;

/** `field`: the field of the body that has the message. */
export function publishRefused({ refused: why, text = '' }: PublishRefusal, field = 'message'): ApiError {
  switch (why) {
    case 'ended':
      return unauthorized('The API key was revoked or has expired: use another one');
    case 'forbidden':
      return forbidden(text);
    case 'malformed':
      return invalidBody(`${field}: ${text}`);
    case 'elsewhere':
      return conflict(`${field}: its siteId is not the site of the path`);
    case 'paced':
      return new ApiError(
        'TOO_MANY_REQUESTS',
        'The API key has reached its rate of commands: try again in a second',
        { headers: { 'retry-after': '1' } },
      );
    case 'unstored':
      return unavailable(
        'The site has not recorded the command in time: send the same bytes again',
        RETRY_SECONDS,
      );
  }
}
