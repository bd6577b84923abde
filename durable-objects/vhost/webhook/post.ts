/**
 * One POST to the receiver of a webhook, as Standard Webhooks 1.0.0 says. Whatever the receiver does, the POST ends in
 * time, and little of its answer is read.
 */
import { cut } from '../../../protocol/cut.ts';
import { LIMIT } from '../../../protocol/limits.ts';
import { reasonOf } from '../../object/reason.ts';
import { hmacBase64 } from '../../secrets/hmac.ts';
import { consents } from './consent.ts';
import { retryAfterMs } from './retry.ts';

const MAX_ERROR_CHARS = 200;
/** Time for the first KiB of the body after the head of the answer. Without it the answer counts all the same. */
const BODY_MS = 2_000;
const GONE = 410;
/** Only with these statuses a receiver asks for a later attempt. */
const ASKS_LATER = [429, 503];

export interface WebhookMessage {
  /** The header `webhook-id`. */
  id: string;
  type: string;
  /** The sequence of an event; null for other messages. */
  sequence: number | null;
  /** Instant of the event. */
  timestamp: string;
  /** JSON. */
  data: string;
  /** What a 2xx answer must have, or else the receiver has not agreed. */
  challenge?: string;
}

export interface Posted {
  outcome: 'delivered' | 'failed' | 'gone';
  status: number | null;
  answer: string | null;
  error: string | null;
  /** The pause that the receiver asks for; null: none. */
  laterMs: number | null;
}

export interface PostHost {
  now(): number;
  /** Returns the answer, or rejects at the deadline. */
  until<Value>(deadlineMs: number, work: PromiseLike<Value>): Promise<Value>;
  fetch(url: string, init: RequestInit): Promise<Response>;
}

/** Posts a message. `secrets`: the keys that sign, one signature each. */
export async function post(
  host: PostHost,
  url: string,
  secrets: readonly Uint8Array[],
  message: WebhookMessage,
): Promise<Posted> {
  const deadlineMs = host.now() + LIMIT.webhookAnswerMs;
  const stop = new AbortController();
  try {
    const response = await host.until(
      deadlineMs,
      host.fetch(url, { ...requestOf(host.now(), secrets, message), signal: stop.signal }),
    );
    const { status, headers } = response;
    const answer = await firstBytes(response);
    const error = faultOf(status, answer, message.challenge);
    const laterMs = ASKS_LATER.includes(status) ? retryAfterMs(headers.get('retry-after'), host.now()) : null;
    const outcome = error === null ? 'delivered' : status === GONE ? 'gone' : 'failed';
    return { outcome, status, answer, error, laterMs };
  } catch (error) {
    return { ...NO_ANSWER, error: cut(reasonOfNone(error, host.now() >= deadlineMs), MAX_ERROR_CHARS) };
  } finally {
    // Also ends an answer whose rest nobody reads.
    stop.abort();
  }
}

const NO_ANSWER = { outcome: 'failed', status: null, answer: null, laterMs: null } as const;

/** A POST that was not made. */
export function notPosted(error: string): Posted {
  return { ...NO_ANSWER, error };
}

function requestOf(
  now: number,
  secrets: readonly Uint8Array[],
  { id, type, timestamp, data }: WebhookMessage,
): RequestInit {
  const body = `{"type":${JSON.stringify(type)},"timestamp":${JSON.stringify(timestamp)},"data":${data}}`;
  const seconds = String(Math.floor(now / 1_000));
  const signatures = secrets.map((secret) => `v1,${hmacBase64(secret, `${id}.${seconds}.${body}`)}`);
  return {
    method: 'POST',
    redirect: 'manual',
    body,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Sitewire-Webhooks/1',
      'accept-encoding': 'identity',
      'webhook-id': id,
      'webhook-timestamp': seconds,
      'webhook-signature': signatures.join(' '),
    },
  };
}

/** Why there was no answer. The runtime keeps the cause to itself and only says that there was an internal error. */
function reasonOfNone(error: unknown, isLate: boolean): string {
  if (isLate) return `no answer within ${LIMIT.webhookAnswerMs / 1_000} s`;
  const reason = reasonOf(error);
  if (!reason.startsWith('internal error')) return reason;
  return 'no answer: the host name, the port or the certificate of the receiver is wrong, or its answer is no HTTP';
}

/** Why an answer does not count; null: it does. */
function faultOf(status: number, answer: string | null, challenge: string | undefined): string | null {
  if (status >= 200 && status < 300) {
    if (challenge === undefined || consents(answer, challenge)) return null;
    return `status ${status} without consent: the first KiB of the body must be data.challenge, or JSON whose challenge it is`;
  }
  if (status >= 300 && status < 400) return `status ${status}: redirects are not followed`;
  return `status ${status}: only 2xx says that the message has arrived`;
}

/** The first bytes of the body as text; null: it has none, or the receiver sent none in time. */
async function firstBytes({ body }: Response): Promise<string | null> {
  if (!body) return null;
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  let timer: number | null = null;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), BODY_MS);
  });
  try {
    while (size < LIMIT.webhookAnswerBytes) {
      const read = await Promise.race([reader.read(), late]);
      if (!read || read.done) break;
      chunks.push(read.value.subarray(0, LIMIT.webhookAnswerBytes - size));
      size += Math.min(read.value.length, LIMIT.webhookAnswerBytes - size);
    }
  } catch {
    // The connection broke in the middle of the body: the status is known, and what has come of the body, too.
  } finally {
    clearTimeout(timer);
    reader.cancel().catch(() => {});
  }
  if (size === 0) return null;
  const bytes = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return new TextDecoder().decode(bytes);
}
