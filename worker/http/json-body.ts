/**
 * Bodies of requests: application/json in UTF-8 (of CSP reports also two other types), at most 1 MiB, and less on routes
 * without a credential [C-1.6], [C-4.7]. A body is read only after its credential was accepted [C-15.7].
 */
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { isDeeperThan } from '../../protocol/compact-json.ts';
import { cut } from '../../protocol/cut.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { invalidUtf8At } from '../../protocol/utf8.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from './error-response.ts';
import { HELD_MS, holdBody } from './open-bodies.ts';

/** A body that nobody reads is discarded up to this size; after that the connection may break. */
const MAX_UNKEPT_BYTES = 64 * 1024 * 1024;
/** The answer waits for the rest of a body only while it comes, and at most for so long; for a stranger shorter. */
const IDLE_MS = 100;
/** The most that one read takes: reads of the default size, 4 KiB, cost sixteen times as much time for a large body. */
const READ_BYTES = 256 * 1024;
const UNANNOUNCED_READ_BYTES = 16 * 1024;
const DISCARD_MS = 10_000;
const DISCARD_OF_STRANGERS_MS = 1_000;
const JSON_ALONE = /^application\/json\s*(;|$)/i;
/** Content types of browsers' CSP reports. */
const REPORTS = /^application\/(json|csp-report|reports\+json)\s*(;|$)/i;
export const CSP_REPORT_PATH = '/api/v1/csp-report';
const CHARSET = /;\s*charset\s*=\s*(?:"([^"]*)"|([^\s";]*))/i;
const METHODS = ['POST', 'PUT', 'PATCH', 'DELETE'];

/**
 * Discards the rest of a body after the handler has made the answer, while it comes. Without this, a client that sends
 * everything before it reads would see a broken connection instead of the answer. After 429, from whichever limit, this is
 * done only if content-length shows that the body is short.
 */
export const drainBody = createMiddleware<AppContext>(async (c, next) => {
  const stream = c.req.raw.body;
  await next();
  if (!stream || c.req.raw.bodyUsed) return;
  const isShort = announcedBytes(c) > 0 && announcedBytes(c) <= LIMIT.reportBodyBytes;
  if (c.res.status === 429 && !isShort) return;
  const isAccepted = (c.get('user') ?? c.get('tenant') ?? c.get('operator')) !== undefined;
  await discard(stream, isAccepted ? DISCARD_MS : DISCARD_OF_STRANGERS_MS);
});

/** Refuses a body whose length says that it is too large, before its caller is checked. */
export const boundBody = createMiddleware<AppContext>(async (c, next) => {
  if (announcedBytes(c) > LIMIT.restBodyBytes) throw tooLarge(LIMIT.restBodyBytes);
  await next();
});

/**
 * Reads and parses the body. Called after the caller was checked, so that a caller without a credential cannot make the
 * edge wait for a body, or parse a megabyte [C-14.2], [C-15.7]. `isPublic`: the route needs no credential.
 */
export async function parseBody(
  c: Context<AppContext>,
  { mostBytes, isPublic }: { mostBytes: number; isPublic: boolean },
): Promise<void> {
  const stream = c.req.raw.body;
  if (!stream || !METHODS.includes(c.req.method)) return;
  const announced = announcedBytes(c);
  if (announced > mostBytes) throw tooLarge(mostBytes);
  const release = isPublic ? holdBody(c, announced || mostBytes) : undefined;
  let bytes: Uint8Array;
  try {
    bytes = await readBytes(stream, {
      announced,
      mostBytes,
      mostRead: isPublic ? LIMIT.openBodiesBytes : MAX_UNKEPT_BYTES,
      mostMs: isPublic ? HELD_MS : undefined,
    });
  } finally {
    release?.();
  }
  if (bytes.length === 0) return;
  requireJsonType(c);
  c.set('body', parseJson(textOf(bytes)));
}

function requireJsonType(c: Context<AppContext>): void {
  const type = c.req.header('content-type') ?? '';
  const expected = c.req.path === CSP_REPORT_PATH ? REPORTS : JSON_ALONE;
  if (!expected.test(type)) {
    const given = type === '' ? 'missing' : `"${cut(type, 100)}"`;
    throw new ApiError('BAD_REQUEST', `The content type is ${given}: it must be application/json`);
  }
  const [, quoted, plain] = CHARSET.exec(type) ?? [];
  const charset = quoted ?? plain;
  if (charset !== undefined && !/^utf-?8$/i.test(charset))
    throw new ApiError('BAD_REQUEST', `The charset is "${cut(charset, 100)}": it must be utf-8`, {
      status: 415,
    });
}

/** Skips one byte order mark [C-15.8]. */
function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    const at = invalidUtf8At(bytes);
    throw new ApiError('BAD_REQUEST', `The body is not UTF-8: byte ${at}, counted from 0, is wrong`);
  }
}

/** The content-length of the request; 0 if it has none. */
function announcedBytes(c: Context<AppContext>): number {
  return Number(c.req.header('content-length') ?? 0);
}

function broken(what: string): ApiError {
  return new ApiError('BAD_REQUEST', `${what}: send the request again`);
}

function tooLarge(mostBytes: number): ApiError {
  return new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${mostBytes} bytes`);
}

async function discard(stream: ReadableStream<Uint8Array>, mostMs: number): Promise<void> {
  const reader = readerOf(stream, READ_BYTES);
  const endsAtMs = performance.now() + mostMs;
  try {
    for (let bytes = 0; bytes <= MAX_UNKEPT_BYTES && performance.now() < endsAtMs; ) {
      const idle = timer(IDLE_MS);
      const part = await Promise.race([reader.read(), idle.over]);
      idle.stop();
      if (part === 'over' || part.done) return;
      bytes += part.value.byteLength;
    }
  } catch {
    // The client has gone. Nobody waits for the rest of its body.
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Reads parts of at most so many bytes, all into one buffer: a part is valid until the next one is read. A body that came by
 * no connection is no byte stream and has parts of its own.
 */
function readerOf(
  stream: ReadableStream<Uint8Array>,
  mostBytes: number,
): Pick<ReadableStreamDefaultReader<Uint8Array>, 'read' | 'cancel'> {
  let reader: ReadableStreamBYOBReader;
  try {
    reader = stream.getReader({ mode: 'byob' });
  } catch {
    return stream.getReader();
  }
  let buffer = new ArrayBuffer(mostBytes);
  return {
    read: async () => {
      const part = await reader.read(new Uint8Array(buffer));
      if (part.value) buffer = part.value.buffer;
      return part;
    },
    cancel: () => reader.cancel(),
  };
}

function timer(ms: number): { over: Promise<'over'>; stop(): void } {
  const { promise: over, resolve } = Promise.withResolvers<'over'>();
  const timeout = setTimeout(() => resolve('over'), ms);
  return { over, stop: () => clearTimeout(timeout) };
}

interface Bounds {
  /** The content-length; 0 if the request has none. */
  announced: number;
  mostBytes: number;
  mostRead: number;
  /** The time in which the body must end; without it the platform alone ends a request. */
  mostMs: number | undefined;
}

async function readBytes(
  stream: ReadableStream<Uint8Array>,
  { announced, mostBytes, mostRead, mostMs }: Bounds,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const reader = readerOf(stream, Math.min(announced || UNANNOUNCED_READ_BYTES, READ_BYTES));
  const late = mostMs === undefined ? undefined : timer(mostMs);
  try {
    for (;;) {
      const part = await Promise.race([reader.read(), ...(late ? [late.over] : [])]);
      if (part === 'over') throw broken(`The body did not end within ${(mostMs ?? 0) / 1_000} s`);
      if (part.done) break;
      bytes += part.value.byteLength;
      if (bytes > mostRead) break;
      // Beyond the limit the parts are only read and discarded, so that the client gets the answer.
      if (bytes <= mostBytes) parts.push(part.value.slice());
    }
  } catch (error) {
    throw error instanceof ApiError ? error : broken('The connection ended before the body did');
  } finally {
    late?.stop();
    reader.cancel().catch(() => {});
  }
  if (bytes > mostBytes) throw tooLarge(mostBytes);
  if (parts.length === 1 && parts[0]) return parts[0];
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
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
