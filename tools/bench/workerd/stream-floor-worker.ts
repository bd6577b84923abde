/**
 * A Worker without logic that serves an event stream as the product does: the Worker holds the client's connection, a
 * hibernatable socket to an object, and a timer for its comments. What a stream costs here is the runtime's price.
 */
import { DurableObject } from 'cloudflare:workers';

interface Env {
  STREAMED: DurableObjectNamespace<Streamed>;
}

const COMMENT_MS = 15_000;

export class Streamed extends DurableObject<Env> {
  override fetch(): Response {
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const name = new URL(request.url).pathname;
    const stub = env.STREAMED.get(env.STREAMED.idFromName(name));
    const { webSocket } = await stub.fetch(new Request(request.url, { headers: { upgrade: 'websocket' } }));
    webSocket?.accept();
    const encoder = new TextEncoder();
    let timer: number | null = null;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        controller.enqueue(encoder.encode('retry: 1000\n\n'));
        timer = setInterval(() => controller.enqueue(encoder.encode(':\n\n')), COMMENT_MS);
      },
      cancel: () => clearInterval(timer),
    });
    request.signal.addEventListener('abort', () => {
      clearInterval(timer);
      webSocket?.close();
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  },
};
