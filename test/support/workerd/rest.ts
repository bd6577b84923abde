/** Requests to the real Worker, and a check of the whole error envelope (spec: Errors, Envelope). */
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { expect } from 'vitest';
import type { Env } from '../../../durable-objects/env.ts';
import type { ApiErrorCode, ErrorBody } from '../../../protocol/errors.ts';
import worker from '../../../worker/index.ts';
import { checkAnswer } from './answers.ts';

const BASE_URL = 'https://sitewire.example';
const ENVELOPE_FIELDS = ['statusCode', 'message', 'error', 'code', 'details'];
const STATUS_TEXTS: Record<number, string> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  410: 'Gone',
  412: 'Precondition Failed',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  421: 'Misdirected Request',
  423: 'Locked',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
};

/** A request to the Worker; `key` is the plaintext of an API key. */
export function restRequest(path: string, init: RequestInit & { key?: string } = {}): Request {
  const { key, ...rest } = init;
  const request = new Request(`${BASE_URL}${path}`, rest);
  if (key !== undefined) request.headers.set('x-api-key', key);
  return request;
}

/** The answer of the Worker to one request. */
export async function send(path: string, init: RequestInit & { key?: string } = {}): Promise<Response> {
  return await sendRequest(restRequest(path, init));
}

/** Sockets of accepted upgrades. Without a reference a socket is garbage-collected, and its link closes. */
const held = new Set<WebSocket>();

/**
 * The answer, after the Worker has finished its background work: lastUsedAt and audit rows are written. `bindings`
 * replace those of the environment.
 */
export async function sendRequest(request: Request, bindings?: Partial<Env>): Promise<Response> {
  const context = createExecutionContext();
  const response = await worker.fetch(request, bindings ? { ...env, ...bindings } : env, context);
  await waitOnExecutionContext(context);
  if (response.webSocket) held.add(response.webSocket);
  await checkAnswer(request, response);
  return response;
}

/** The body of a 200. */
export async function read<Body>(path: string, key: string): Promise<Body> {
  const response = await send(path, { key });
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/json']);
  return (await response.json()) as Body;
}

/** Asserts the whole envelope and returns it. */
export async function expectError(
  response: Response,
  status: number,
  code: ApiErrorCode,
): Promise<ErrorBody> {
  const text = await response.text();
  expect([response.status, text]).toEqual([status, expect.stringContaining(`"code":"${code}"`)]);
  expect(response.headers.get('content-type')).toBe('application/json');
  const body = JSON.parse(text) as ErrorBody;
  expect(body).toMatchObject({ statusCode: status, error: STATUS_TEXTS[status], code });
  expect(body.message).toMatch(/\S/);
  expect(ENVELOPE_FIELDS).toEqual(expect.arrayContaining(Object.keys(body)));
  return body;
}

/** Asserts that all answers are the same error, word for word. */
export async function expectSameError(
  answers: Iterable<Response | Promise<Response>>,
  status: number,
  code: ApiErrorCode,
): Promise<void> {
  const texts = new Set<string>();
  for (const answer of answers) {
    const response = await answer;
    texts.add(await response.clone().text());
    await expectError(response, status, code);
  }
  expect(texts.size).toBe(1);
}

/** Asserts a 400 whose only detail is about this field. `what`: names the case in a failure. */
export async function expectInvalid(response: Response, field: string, what: unknown = field): Promise<void> {
  const { details } = await expectError(response, 400, 'VALIDATION_ERROR');
  expect([what, details]).toEqual([what, [expect.stringMatching(new RegExp(`^${field}: `))]]);
}

/** The statuses of that many requests, one after the other. */
export async function statusesOf(times: number, request: () => Promise<Response>): Promise<number[]> {
  const statuses: number[] = [];
  for (let time = 0; time < times; time++) statuses.push((await request()).status);
  return statuses;
}
