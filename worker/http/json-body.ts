/** JSON bodies: at most 1 MiB, application/json, parsed once before any handler [C-1.6], [C-4.7]. */
import { createMiddleware } from 'hono/factory';
import { isDeeperThan } from '../../protocol/compact-json.ts';
import { LIMIT } from '../../protocol/limits.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from './error-response.ts';

const METHODS = ['POST', 'PUT', 'PATCH', 'DELETE'];

export const jsonBody = createMiddleware<AppContext>(async (c, next) => {
  const stream = c.req.raw.body;
  if (METHODS.includes(c.req.method) && stream) {
    const text = await readText(stream, Number(c.req.header('content-length') ?? 0));
    if (text !== '') {
      const type = c.req.header('content-type') ?? '';
      if (!/^application\/json\s*(;|$)/i.test(type)) {
        throw new ApiError('BAD_REQUEST', 'The body must be application/json');
      }
      c.set('body', parseJson(text));
    }
  }
  await next();
});

async function readText(stream: ReadableStream<Uint8Array>, announcedBytes: number): Promise<string> {
  if (announcedBytes > LIMIT.restBodyBytes) throw tooLarge();
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const part of stream) {
    bytes += part.byteLength;
    if (bytes > LIMIT.restBodyBytes) throw tooLarge();
    text += decoder.decode(part, { stream: true });
  }
  return text + decoder.decode();
}

function tooLarge(): ApiError {
  return new ApiError('PAYLOAD_TOO_LARGE', 'The body is larger than 1 MiB');
}

function parseJson(text: string): unknown {
  if (isDeeperThan(text, LIMIT.restBodyDepth))
    throw new ApiError('BAD_REQUEST', `The body is nested deeper than ${LIMIT.restBodyDepth}`);
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError('BAD_REQUEST', 'The body is not valid JSON');
  }
}
