/** What the bridge counts (Prometheus), and its small HTTP server: /healthz, /readyz, /metrics. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';

type Protocol = 'amqp' | 'mqtt';

export class Metrics {
  readonly registry = new Registry();
  readonly connections = this.#gauge('sitewire_bridge_connections', 'Client connections that hold a link', [
    'protocol',
  ]);
  readonly dials = this.#counter('sitewire_bridge_dials_total', 'Dials to the edge by outcome', [
    'protocol',
    'outcome',
  ]);
  readonly refusedClients = this.#counter(
    'sitewire_bridge_refused_clients_total',
    'Clients closed before they had a link',
    ['protocol'],
  );
  readonly published = this.#counter('sitewire_bridge_published_total', 'Messages that clients published', [
    'protocol',
  ]);
  readonly delivered = this.#counter('sitewire_bridge_delivered_total', 'Messages handed to clients', [
    'protocol',
  ]);

  constructor() {
    collectDefaultMetrics({ register: this.registry });
    for (const protocol of ['amqp', 'mqtt']) {
      for (const outcome of ['accepted', 'refused', 'unproven', 'trouble'])
        this.dials.inc({ protocol, outcome }, 0);
    }
  }

  #gauge(name: string, help: string, labelNames: string[]): Gauge {
    return new Gauge({ name, help, labelNames, registers: [this.registry] });
  }

  #counter(name: string, help: string, labelNames: string[]): Counter {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  opened(protocol: Protocol): void {
    this.connections.inc({ protocol });
  }

  closed(protocol: Protocol): void {
    this.connections.dec({ protocol });
  }
}

/** Ready means that the listeners are up, and that the edge answers and takes this bridge's proof. */
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
