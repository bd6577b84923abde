/**
 * Bodies of requests: application/json (of CSP reports also two other types), at most 1 MiB, and less on routes
 * without a credential [C-1.6], [C-4.7].
 */
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { isDeeperThan } from '../../protocol/compact-json.ts';
import { cut } from '../../protocol/cut.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { utf8Length } from '../../protocol/utf8.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from './error-response.ts';

/** A body that is too large is read and discarded up to this size; after that the connection may break. */
const MAX_UNKEPT_BYTES = 64 * 1024 * 1024;
const JSON_ALONE = /^application\/json\s*(;|$)/i;
/** Content types of browsers' CSP reports. */
const REPORTS = /^application\/(json|csp-report|reports\+json)\s*(;|$)/i;
export const CSP_REPORT_PATH = '/api/v1/csp-report';
const METHODS = ['POST', 'PUT', 'PATCH', 'DELETE'];

/**
 * Reads the rest of a body after the handler has made the answer, and discards it. Without this, a client
 * that is still sending would see a broken connection instead of the answer. After 429, from whichever limit,
 * this is done only if content-length shows that the body is short.
 */
export const drainBody = createMiddleware<AppContext>(async (c, next) => {
  const stream = c.req.raw.body;
  await next();
  if (!stream || c.req.raw.bodyUsed) return;
  const isShort = announcedBytes(c) > 0 && announcedBytes(c) <= LIMIT.publicBodyBytes;
  if (c.res.status !== 429 || isShort) await discard(c, stream);
});

/** Refuses a body that is too large, before its caller is checked. */
export const boundBody = createMiddleware<AppContext>(async (c, next) => {
  const stream = c.req.raw.body;
  if (announcedBytes(c) > LIMIT.restBodyBytes) throw tooLarge(LIMIT.restBodyBytes);
  // The size of a body without a content-length is known only after reading it.
  if (stream && announcedBytes(c) === 0) c.set('text', await readText(stream, LIMIT.restBodyBytes));
  await next();
});

/**
 * Parses the body. Called after the caller was checked, so that a caller without a credential cannot make the
 * edge parse a megabyte [C-14.2].
 */
export async function parseBody(c: Context<AppContext>, mostBytes: number): Promise<void> {
  const stream = c.req.raw.body;
  if (!stream || !METHODS.includes(c.req.method)) return;
  if (announcedBytes(c) > mostBytes) throw tooLarge(mostBytes);
  const text = c.get('text') ?? (await readText(stream, mostBytes));
  if (text === '') return;
  if (utf8Length(text) > mostBytes) throw tooLarge(mostBytes);
  const type = c.req.header('content-type') ?? '';
  const expected = c.req.path === CSP_REPORT_PATH ? REPORTS : JSON_ALONE;
  if (!expected.test(type)) {
    const given = type === '' ? 'missing' : `"${cut(type, 100)}"`;
    throw new ApiError('BAD_REQUEST', `The content type is ${given}: it must be application/json`);
  }
  c.set('body', parseJson(text));
}

/** The content-length of the request; 0 if it has none. */
function announcedBytes(c: Context<AppContext>): number {
  return Number(c.req.header('content-length') ?? 0);
}

function tooLarge(mostBytes: number): ApiError {
  return new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${mostBytes} bytes`);
}

/** Reads a body and discards it. Reads a short body at once, which is much faster than a loop over its parts. */
async function discard(c: Context<AppContext>, stream: ReadableStream<Uint8Array>): Promise<void> {
  const announced = announcedBytes(c);
  if (announced > 0 && announced <= 2 * LIMIT.restBodyBytes) {
    await c.req.raw.arrayBuffer();
    return;
  }
  let bytes = 0;
  for await (const part of stream) {
    bytes += part.byteLength;
    if (bytes > MAX_UNKEPT_BYTES) return;
  }
}

async function readText(stream: ReadableStream<Uint8Array>, mostBytes: number): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const part of stream) {
    bytes += part.byteLength;
    if (bytes > MAX_UNKEPT_BYTES) break;
    // Beyond the limit the parts are only read and discarded, so that the client gets the answer.
    if (bytes <= mostBytes) text += decoder.decode(part, { stream: true });
  }
  if (bytes > mostBytes) throw tooLarge(mostBytes);
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
