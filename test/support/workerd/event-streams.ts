/** A client of an event stream: it reads Server-Sent Events as they come. */
import { createExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { expect } from 'vitest';
import worker from '../../../worker/index.ts';
import { restRequest } from './rest.ts';

export interface SentEvent {
  id?: string;
  event?: string;
  data?: string;
}

export class StreamClient {
  readonly response: Response;
  /** The id that the stream begins with, before its first event. */
  begin = 0;
  /** Comments so far. */
  comments = 0;
  readonly #leave = new AbortController();
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #text = '';
  #blocks: string[] = [];

  private constructor(response: Response, leave: AbortController) {
    this.response = response;
    this.#leave = leave;
    this.#reader = (response.body as ReadableStream<Uint8Array>).getReader();
  }

  /** `path` relative to /api/v1. */
  static async open(
    caller: { key: string } | { accessToken: string },
    path = '/vcp/events/stream',
    headers: Record<string, string> = {},
  ): Promise<StreamClient> {
    const leave = new AbortController();
    const credential: Record<string, string> =
      'key' in caller ? { 'x-api-key': caller.key } : { authorization: `Bearer ${caller.accessToken}` };
    const request = restRequest(`/api/v1${path}`, {
      headers: { ...credential, ...headers },
      signal: leave.signal,
    });
    const response = await worker.fetch(request, env, createExecutionContext());
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    const client = new StreamClient(response, leave);
    // With an id, from which a client without an event resumes.
    const begin = await client.#block();
    expect(begin).toMatch(/^retry: 2000\nid: \d+$/);
    client.begin = Number(begin?.split('id: ')[1]);
    return client;
  }

  /** The next event; undefined at the end of the stream. Comments are left out. */
  async next(): Promise<SentEvent | undefined> {
    for (;;) {
      const block = await this.#block();
      if (block === undefined) return undefined;
      const lines = block.split('\n');
      const fields = lines.filter((line) => !line.startsWith(':'));
      this.comments += lines.length - fields.length;
      if (fields.length > 0) return Object.fromEntries(fields.map((line) => line.split(/: (.*)/, 2)));
    }
  }

  async take(count: number): Promise<SentEvent[]> {
    const events: SentEvent[] = [];
    while (events.length < count) {
      const event = await this.next();
      if (!event) throw new Error(`the stream ended after ${events.length} of ${count} events`);
      events.push(event);
    }
    return events;
  }

  /** The client goes away. */
  leave(): void {
    this.#leave.abort();
  }

  async #block(): Promise<string | undefined> {
    while (this.#blocks.length === 0) {
      const { done, value } = await this.#reader.read();
      if (done) return undefined;
      this.#text += this.#decoder.decode(value, { stream: true });
      const parts = this.#text.split('\n\n');
      this.#text = parts.pop() ?? '';
      this.#blocks.push(...parts);
    }
    return this.#blocks.shift();
  }
}
