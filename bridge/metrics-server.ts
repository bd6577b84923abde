/** The bridge's HTTP server: /healthz, /readyz, /metrics. No authentication: only for the private network. */
import { createServer, type Server } from 'node:http';
import type { Metrics } from './metrics.ts';

/** Ready means that the listeners are up, the edge answers, and it accepts the bridge proof. */
export function createMetricsServer(
  { registry }: Metrics,
  whyNotReady: () => Promise<string | undefined>,
): Server {
  return createServer(async (request, response) => {
    if (request.url === '/healthz') {
      response.end('ok\n');
    } else if (request.url === '/readyz') {
      const why = await whyNotReady();
      response.writeHead(why === undefined ? 200 : 503);
      response.end(why === undefined ? 'ready\n' : `not ready: ${why}\n`);
    } else if (request.url === '/metrics') {
      response.setHeader('content-type', registry.contentType);
      response.end(await registry.metrics());
    } else response.writeHead(404).end('not found\n');
  });
}
