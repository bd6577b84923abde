/**
 * Receivers of webhooks on this machine: one that answers as a script says and verifies each message with the library of
 * Standard Webhooks, and one that answers with any bytes.
 */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, type Socket, createServer as tcpServer } from 'node:net';
import { Webhook } from 'standardwebhooks';
import type { WebhookAttempt, WebhookRecord, webhookItem } from '../../protocol/webhook.ts';
import type { AdminClient } from '../../tools/admin-client.ts';
import { eventually } from './stack.ts';

const HOST = '127.0.0.1';
const VERIFY = 'webhook.verify';

export interface ReceivedMessage {
  /** The header `webhook-id`. */
  id: string;
  type: string;
  body: string;
  /** The text of `data`, byte for byte. */
  data: string;
  headers: IncomingHttpHeaders;
  atMs: number;
}

export interface ScriptedAnswer {
  status: number;
  headers?: Record<string, string>;
  body?: string | Buffer;
}

/** What to answer to a message; undefined: 200. A 2xx to `webhook.verify` without a body gets the challenge [C-15.3]. */
export type Script = (
  message: ReceivedMessage,
) => ScriptedAnswer | undefined | Promise<ScriptedAnswer | undefined>;

/** A webhook as the tests see it, with its secret. */
export interface MadeWebhook {
  id: string;
  secret: string;
}

export type WebhookItem = ReturnType<(typeof webhookItem)['parse']>;

/** The routes of webhooks, called by an admin. */
export class WebhookRoutes {
  readonly #admin: AdminClient;

  constructor(admin: AdminClient) {
    this.#admin = admin;
  }

  async create(keyId: string, url: string, types: readonly string[]): Promise<MadeWebhook> {
    const request = { keyId, url, types };
    const made = await this.#admin.call<{ webhook: WebhookRecord; secret: string }>(
      'POST',
      '/partner/webhooks',
      request,
    );
    return { id: made.webhook.id, secret: made.secret };
  }

  async item(id: string): Promise<WebhookItem> {
    return await this.#admin.call('GET', `/partner/webhooks/${id}`);
  }

  /** Resolves when the receiver has answered the first message. */
  async untilEnabled(id: string, timeoutMs?: number): Promise<void> {
    await eventually(async () => (await this.item(id)).status === 'ENABLED' || undefined, timeoutMs);
  }

  async test(id: string): Promise<WebhookAttempt> {
    return await this.#admin.call('POST', `/partner/webhooks/${id}/test`);
  }

  /** Newest first. */
  async attempts(id: string): Promise<WebhookAttempt[]> {
    const answer = await this.#admin.call<{ attempts: WebhookAttempt[] }>(
      'GET',
      `/partner/webhooks/${id}/attempts`,
    );
    return answer.attempts;
  }

  async enable(id: string): Promise<WebhookItem> {
    return await this.#admin.call('POST', `/partner/webhooks/${id}/enable`);
  }

  async recover(id: string, since: string): Promise<WebhookItem> {
    return await this.#admin.call('POST', `/partner/webhooks/${id}/recover`, { since });
  }

  async change(id: string, change: Record<string, unknown>): Promise<WebhookRecord> {
    return await this.#admin.call('PATCH', `/partner/webhooks/${id}`, change);
  }

  async delete(id: string): Promise<void> {
    await this.#admin.call('DELETE', `/partner/webhooks/${id}`);
  }
}

/** An HTTP server that keeps its port while it is stopped. */
export class WebhookReceiver {
  /** In the order of their arrival. */
  readonly messages: ReceivedMessage[] = [];
  /** Why the library refuses messages, each with the message's id. */
  readonly faults: string[] = [];
  script: Script = () => undefined;
  #verifier: Webhook | undefined;
  #server = this.#make();
  #port = 0;

  static async start(script?: Script): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver();
    if (script) receiver.script = script;
    await receiver.listen();
    return receiver;
  }

  get url(): string {
    return `http://${HOST}:${this.#port}/hook`;
  }

  get port(): number {
    return this.#port;
  }

  /** The messages that are events. */
  get events(): ReceivedMessage[] {
    return this.messages.filter(({ type }) => !type.startsWith('webhook.'));
  }

  /** Verifies the messages that have come, and all that will come. */
  verifyWith(secret: string): void {
    this.#verifier = new Webhook(secret);
    for (const message of this.messages) this.#verify(message);
  }

  async listen(): Promise<void> {
    this.#server.listen(this.#port, HOST);
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Stops, and ends all connections. `listen` starts it again on the same port. */
  async stop(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
    this.#server = this.#make();
  }

  #make() {
    return createServer((request, response) => {
      response.on('error', () => {});
      this.#answer(request, response).catch((error: unknown) => {
        // Also: the sender or the server has ended the connection.
        if (!response.headersSent) response.writeHead(500).end(String(error));
      });
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const message = messageOf(request.headers, Buffer.concat(chunks).toString('utf8'));
    this.messages.push(message);
    if (this.#verifier) this.#verify(message);
    const { status, headers = {}, body } = (await this.script(message)) ?? { status: 200 };
    const consent = status >= 200 && status < 300 ? challengeOf(message.body) : undefined;
    response.writeHead(status, headers).end(body ?? consent);
  }

  #verify({ id, body, headers }: ReceivedMessage): void {
    try {
      this.#verifier?.verify(body, headers as Record<string, string>);
    } catch (error) {
      this.faults.push(`${id}: ${String(error)}`);
    }
  }
}

/** The challenge of the message `webhook.verify`; undefined of any other message. */
function challengeOf(body: string): string | undefined {
  const { type, data } = JSON.parse(body) as { type: string; data: { challenge?: string } };
  return type === VERIFY ? data.challenge : undefined;
}

function messageOf(headers: IncomingHttpHeaders, body: string): ReceivedMessage {
  const { type } = JSON.parse(body) as { type: string };
  const data = /^\{"type":"[^"]*","timestamp":"[^"]*","data":(.*)\}$/s.exec(body)?.[1] ?? '';
  return { id: String(headers['webhook-id']), type, body, data, headers, atMs: Date.now() };
}

/** What a raw receiver does with the connection of a message. */
export type Behaviour = (socket: Socket) => void;

/**
 * A TCP server that answers the first message of a webhook with 200, and each later one with a behaviour. With `atOnce`
 * the behaviour begins when a connection is opened, not when the request has arrived.
 */
export class RawReceiver {
  /** Requests that have arrived, without the first message. */
  requests = 0;
  /** All connections so far. */
  connections = 0;
  /** Connections that are open. */
  readonly open = new Set<Socket>();
  readonly #server;
  #port = 0;
  #isVerified = false;

  private constructor(behave: Behaviour, atOnce: boolean) {
    this.#server = tcpServer((socket) => {
      this.connections += 1;
      this.open.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.open.delete(socket));
      if (atOnce && this.#isVerified) {
        this.requests += 1;
        behave(socket);
      } else this.#read(socket, behave);
    });
  }

  static async start(behave: Behaviour, atOnce = false): Promise<RawReceiver> {
    const receiver = new RawReceiver(behave, atOnce);
    receiver.#server.listen(0, HOST);
    await once(receiver.#server, 'listening');
    receiver.#port = (receiver.#server.address() as AddressInfo).port;
    return receiver;
  }

  get url(): string {
    return `http://${HOST}:${this.#port}/hook`;
  }

  get port(): number {
    return this.#port;
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.open) socket.destroy();
    await closed;
  }

  #read(socket: Socket, behave: Behaviour): void {
    let text = '';
    const read = (chunk: Buffer) => {
      text += chunk.toString('latin1');
      const head = text.indexOf('\r\n\r\n');
      const length = Number(/^content-length: (\d+)/im.exec(text)?.[1]);
      if (head < 0 || text.length < head + 4 + length) return;
      socket.off('data', read);
      // What comes afterwards, such as the sender's end of the connection, must be read.
      socket.resume();
      if (text.includes(`{"type":"${VERIFY}"`)) {
        this.#isVerified = true;
        const consent = /"challenge":"([\w-]+)"/.exec(text)?.[1] ?? '';
        socket.end(
          `HTTP/1.1 200 OK\r\ncontent-length: ${consent.length}\r\nconnection: close\r\n\r\n${consent}`,
        );
        return;
      }
      this.requests += 1;
      behave(socket);
    };
    socket.on('data', read);
  }
}
