/**
 * Calls of the REST API, the same one that partners have. The browser's cookie is the session; when its access token has
 * expired, the call refreshes it once and is sent again.
 */
import createClient, { type Middleware } from 'openapi-fetch';
import type { paths } from '../../dist/console/api.d.ts';
import type { ApiErrorCode } from '../../protocol/errors.ts';
import { T } from '../texts.ts';
import { noteAnswer } from './clock.ts';
import { organizationId, signedOut } from './session.ts';

const REFRESH = '/api/v1/auth/refresh';
/** Paths whose 401 is about what the user typed. */
const OPEN = /^\/api\/v1\/auth\/(login|refresh|register|password-reset)/;

/** A refusal of the API, or no answer: then `status` is 0. */
export class CallError extends Error {
  readonly status: number;
  readonly code: ApiErrorCode | 'NO_ANSWER';

  constructor(status: number, code: ApiErrorCode | 'NO_ANSWER', message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** What the page shows of a failure; a fault of the console is written to its own console. */
export function callError(failure: unknown): CallError {
  if (failure instanceof CallError) return failure;
  console.error(failure);
  return new CallError(0, 'NO_ANSWER', T.errors.bug);
}

/** A call without an answer for this long has failed; a stream has none to wait for. */
const PATIENCE_MS = 15_000;
const REFRESHED = 'refreshedAt';
/** With these answers the session has ended; after all others it is worth trying again. */
const ENDED = [400, 401, 403];

/** Over its rate the page asks by itself for nothing until this time. */
let restsUntilMs = 0;

/** Whether the page may read again by itself: it is seen, and the API has not asked it to wait. */
export function mayPoll(): boolean {
  return !document.hidden && performance.now() >= restsUntilMs;
}

function noteRest(answer: Response): void {
  if (answer.status !== 429) return;
  const seconds = Number(answer.headers.get('retry-after'));
  restsUntilMs = performance.now() + Math.max(1, seconds || 1) * 1_000;
}

/**
 * Runs work that changes the session's cookies: in one tab at a time, because a refresh token counts once, and a second use
 * would end the session.
 */
export async function withCookies<Value>(work: () => Promise<Value>): Promise<Value> {
  return await navigator.locks.request('sitewire-session', async () => {
    const value = await work();
    localStorage.setItem(REFRESHED, crypto.randomUUID());
    return value;
  });
}

/** `before`: the mark of the last renewal when the call began. If it differs now, another tab has renewed the cookie. */
async function refresh(before: string | null): Promise<'renewed' | 'ended'> {
  let isEnded = false;
  await navigator.locks.request('sitewire-session', async () => {
    if (localStorage.getItem(REFRESHED) !== before) return;
    const headers = { 'content-type': 'application/json' };
    // A page that closes meanwhile must still get the new cookie.
    const init = { method: 'POST', headers, body: '{}', keepalive: true };
    const answer = await fetch(REFRESH, init);
    noteRest(answer);
    if (answer.ok) localStorage.setItem(REFRESHED, crypto.randomUUID());
    else if (ENDED.includes(answer.status)) isEnded = true;
    else throw errorOf(answer.status, await answer.json().catch(() => undefined));
  });
  return isEnded ? 'ended' : 'renewed';
}

/** Sends a request of this session; the answer may be a refusal. Throws `CallError` without an answer. */
export async function send(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  const before = localStorage.getItem(REFRESHED);
  const again = request.clone();
  const signal = AbortSignal.any([
    request.signal,
    ...(pathname.endsWith('/stream') ? [] : [AbortSignal.timeout(PATIENCE_MS)]),
  ]);
  try {
    const answer = await fetch(request, { signal });
    noteAnswer(answer);
    noteRest(answer);
    if (answer.status !== 401 || OPEN.test(pathname)) return answer;
    if ((await refresh(before)) === 'renewed') {
      const second = await fetch(again, { signal });
      noteRest(second);
      return second;
    }
    signedOut();
    return answer;
  } catch (error) {
    if (request.signal.aborted || error instanceof CallError) throw error;
    throw new CallError(0, 'NO_ANSWER', T.errors.noAnswer);
  }
}

const organization: Middleware = {
  onRequest({ request }) {
    const id = organizationId.value;
    if (id !== null && !request.headers.has('x-org-id')) request.headers.set('x-org-id', id);
    return request;
  },
};

export const api = createClient<paths>({ baseUrl: location.origin, fetch: send });
api.use(organization);

interface Answered<Data> {
  data?: Data | undefined;
  error?: unknown;
  response: Response;
}

/** The body of a successful answer. Throws `CallError` for a refusal. */
export async function read<Data>(call: Promise<Answered<Data>>): Promise<Data> {
  const { data, error, response } = await call;
  if (response.ok) return data as Data;
  throw errorOf(response.status, error);
}

/** The refusal in the body of an answer. */
export function errorOf(status: number, body: unknown): CallError {
  const { message, code, details } = (body ?? {}) as {
    message?: string;
    code?: ApiErrorCode;
    details?: unknown;
  };
  const more = Array.isArray(details) ? details.filter((one) => typeof one === 'string') : [];
  const text = [message ?? T.errors.unknown(status), ...more].join(' · ');
  return new CallError(status, code ?? 'INTERNAL_SERVER_ERROR', text);
}

/** Reads all pages of a long list; each answer names where the next one begins. */
export async function readAll<Item>(
  page: (before: string | undefined) => Promise<{ data: Item[]; meta: { next: string | null } }>,
): Promise<Item[]> {
  const all: Item[] = [];
  let before: string | undefined;
  do {
    const { data, meta } = await page(before);
    all.push(...data);
    before = meta.next ?? undefined;
  } while (before !== undefined);
  return all;
}
