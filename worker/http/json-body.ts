/** Parses JSON bodies once, before any handler: application/json, at most 1 MiB [C-1.6], [C-4.7]. */
import { createMiddleware } from 'hono/factory';
import { isDeeperThan } from '../../protocol/compact-json.ts';
import { cut } from '../../protocol/cut.ts';
import { LIMIT } from '../../protocol/limits.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from './error-response.ts';

/** A body that is too large is read and discarded up to this size; after that the connection may break. */
const MAX_UNKEPT_BYTES = 64 * 1024 * 1024;
const JSON_ALONE = /^application\/json\s*(;|$)/i;
/** Content types of browsers' CSP reports. */
const REPORTS = /^application\/(json|csp-report|reports\+json)\s*(;|$)/i;
export const CSP_REPORT_PATH = '/api/v1/csp-report';
const METHODS = ['POST', 'PUT', 'PATCH', 'DELETE'];

export const jsonBody = createMiddleware<AppContext>(async (c, next) => {
  const stream = c.req.raw.body;
  if (METHODS.includes(c.req.method) && stream) {
    const text = await readText(stream, Number(c.req.header('content-length') ?? 0));
    if (text !== '') {
      const type = c.req.header('content-type') ?? '';
      const expected = c.req.path === CSP_REPORT_PATH ? REPORTS : JSON_ALONE;
      if (!expected.test(type)) {
        const given = type === '' ? 'missing' : `"${cut(type, 100)}"`;
        throw new ApiError('BAD_REQUEST', `The content type is ${given}: it must be application/json`);
      }
      c.set('body', parseJson(text));
    }
  }
  await next();
});

async function readText(stream: ReadableStream<Uint8Array>, announcedBytes: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  let isTooLarge = announcedBytes > LIMIT.restBodyBytes;
  for await (const part of stream) {
    bytes += part.byteLength;
    isTooLarge ||= bytes > LIMIT.restBodyBytes;
    // Read and discard the rest: a client that is still sending when we answer sees a broken connection, not
    // the answer.
    if (bytes > MAX_UNKEPT_BYTES) break;
    if (!isTooLarge) text += decoder.decode(part, { stream: true });
  }
  if (isTooLarge)
    throw new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${LIMIT.restBodyBytes} bytes`);
  return text + decoder.decode();
}

function parseJson(text: string): unknown {
  if (isDeeperThan(text, LIMIT.restBodyDepth))
    throw new ApiError('BAD_REQUEST', `The body is nested deeper than ${LIMIT.restBodyDepth} levels`);
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError('BAD_REQUEST', 'The body is not valid JSON: check its quotes, commas and brackets');
  }
}
