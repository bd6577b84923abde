/** The bridge's HTTP server: /healthz, /readyz, /metrics. No authentication: only for the private network. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Metrics } from './metrics.ts';

/** Ready means that the listeners are up, the edge answers, and it accepts the bridge proof. */
export function createMetricsServer(
  metrics: Metrics,
  whyNotReady: () => Promise<string | undefined>,
): Server {
  return createServer((request, response) => {
    void answer(metrics, whyNotReady, request, response);
  });
}

async function answer(
  metrics: Metrics,
  whyNotReady: () => Promise<string | undefined>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  switch (request.url) {
    case '/healthz':
      response.end('ok\n');
      return;
    case '/readyz': {
      const why = await whyNotReady();
      response
        .writeHead(why === undefined ? 200 : 503)
        .end(why === undefined ? 'ready\n' : `not ready: ${why}\n`);
      return;
    }
    case '/metrics':
      response.setHeader('content-type', metrics.registry.contentType);
      response.end(await metrics.registry.metrics());
      return;
    default:
      response.writeHead(404).end('not found\n');
  }
}
