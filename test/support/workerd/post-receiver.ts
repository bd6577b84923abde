/**
 * Receivers of what webhooks post. Objects share the isolate with their tests, so a spy on `fetch` gets it; the
 * library of Standard Webhooks verifies them.
 */
import { runInDurableObject } from 'cloudflare:test';
import { Webhook } from 'standardwebhooks';
import { vi } from 'vitest';
import { type Key, vhostOf } from './world.ts';

export interface Post {
  id: string;
  type: string;
  timestamp: string;
  /** The text of `data`, byte for byte. */
  data: string;
  headers: Record<string, string>;
  /** The body and how it was sent. */
  body: string;
  init: RequestInit;
  atMs: number;
  /** The status of the answer; undefined before the answer comes. */
  status: number | undefined;
}

/** Receives what is posted to its URL. */
export class PostReceiver {
  readonly url: string;
  readonly posts: Post[] = [];
  /** Why the library of Standard Webhooks refuses a post. */
  readonly faults: string[] = [];
  /** Posts without an answer. */
  open = 0;
  secret: string | undefined;
  readonly #held: ((response: Response) => void)[] = [];
  answer: (post: Post) => Response | Promise<Response> = () => new Response('thanks');
  /** A 2xx to `webhook.verify` has the challenge as its body [C-15.3]. False: the body is the one of `answer`. */
  isConsenting = true;

  constructor(url = `https://${crypto.randomUUID()}.example.com/hook`) {
    this.url = url;
    receivers.set(url, this);
    vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
      const receiver = receivers.get(String(input));
      if (!receiver) throw new Error(`no test receives what is posted to ${input}`);
      return await receiver.#receive(init ?? {});
    });
  }

  /** The posts of events. */
  get events(): Post[] {
    return this.posts.filter(({ type }) => !type.startsWith('webhook.'));
  }

  /** The numbers that `outboxEvents` gave the events. */
  get numbers(): number[] {
    return this.events.map(numberOf);
  }

  /** The same of those that were answered with 200, in the order of their posts. */
  get delivered(): number[] {
    return this.events.filter(({ status }) => status === 200).map(numberOf);
  }

  /** Answers with this status from now on. */
  answerWith(status: number, headers: Record<string, string> = {}): void {
    this.answer = () => new Response(status === 204 ? null : 'as the test wants', { status, headers });
  }

  /** Holds back all answers from now on, until `release`. */
  hold(): void {
    this.answer = () => {
      const { promise, resolve } = Promise.withResolvers<Response>();
      this.#held.push(resolve);
      return promise;
    };
  }

  /** Sends answers that are held back: of the posts that came first, or by default all. */
  async release(key: Key, count = this.#held.length, status = 200): Promise<void> {
    // In the object, because a promise that a test resolves does not continue there.
    await runInDurableObject(vhostOf(key.id), () => {
      for (const resolve of this.#held.splice(0, count)) resolve(new Response('late', { status }));
    });
  }

  async #receive(init: RequestInit): Promise<Response> {
    const body = String(init.body);
    const headers = init.headers as Record<string, string>;
    const { type, timestamp } = JSON.parse(body);
    const data = body.slice(`{"type":"${type}","timestamp":"${timestamp}","data":`.length, -1);
    const id = headers['webhook-id'] ?? '';
    const post: Post = {
      id,
      type,
      timestamp,
      data,
      headers,
      body,
      init,
      atMs: Date.now(),
      status: undefined,
    };
    this.posts.push(post);
    if (this.secret !== undefined && !isSigned(post, this.secret)) this.faults.push(id);
    this.open += 1;
    try {
      const given = await this.answer(post);
      const answer = this.isConsenting ? consentOf(body, given) : given;
      post.status = answer.status;
      return answer;
    } finally {
      this.open -= 1;
    }
  }
}

/** The challenge of the message `webhook.verify`; undefined of any other message. */
export function challengeOf(body: string): string | undefined {
  const { type, data } = JSON.parse(body) as { type: string; data: { challenge?: string } };
  return type === 'webhook.verify' ? data.challenge : undefined;
}

/** The answer of a receiver that consents: if it is 2xx, its body is the challenge [C-15.3]. */
export function consentOf(body: string, answer: Response): Response {
  const challenge = challengeOf(body);
  if (challenge === undefined || !answer.ok) return answer;
  return new Response(challenge, { status: answer.status === 204 ? 200 : answer.status });
}

function numberOf({ data }: Post): number {
  return JSON.parse(data).payload.n;
}

const receivers = new Map<string, PostReceiver>();

/** Whether the library of Standard Webhooks accepts a post, at the time when it came. */
export function isSigned({ body, headers, atMs }: Post, secret: string): boolean {
  const now = Date.now();
  vi.setSystemTime(atMs);
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  } finally {
    vi.setSystemTime(now);
  }
}
