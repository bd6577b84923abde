/** The bridge's HTTP server for health, readiness and metrics. */
import { describe, expect } from 'vitest';
import { edgeTest } from '#support/bridge-test.ts';
import { Metrics } from '../../bridge/metrics.ts';
import { createMetricsServer } from '../../bridge/metrics-server.ts';

/** `start` starts a metrics server and returns its URL. */
const it = edgeTest.extend('start', ({ serve }) => {
  return async (
    whyNotReady: () => Promise<string | undefined> = async () => undefined,
    metrics = new Metrics(),
  ) => `http://127.0.0.1:${await serve(createMetricsServer(metrics, whyNotReady))}`;
});

async function get(url: string): Promise<[number, string]> {
  const response = await fetch(url);
  return [response.status, await response.text()];
}

describe('the metrics server', () => {
  it('/healthz answers ok without the edge', async ({ start }) => {
    const url = await start(async () => 'no edge');
    expect(await get(`${url}/healthz`)).toEqual([200, 'ok\n']);
  });

  it('/readyz checks the edge at each request and says why the bridge is not ready', async ({ start }) => {
    let why: string | undefined = 'the edge cannot be reached';
    const url = await start(async () => why);
    expect(await get(`${url}/readyz`)).toEqual([503, 'not ready: the edge cannot be reached\n']);
    why = undefined;
    expect(await get(`${url}/readyz`)).toEqual([200, 'ready\n']);
  });

  it('/metrics has the counts of each protocol in the Prometheus format', async ({ start }) => {
    const metrics = new Metrics();
    const url = await start(undefined, metrics);
    metrics.opened('amqp');
    metrics.opened('amqp');
    metrics.opened('mqtt');
    metrics.closed('amqp', 'client');
    metrics.tallies.amqp.published += 3;
    metrics.dialed('mqtt', 'refused', 0.03);
    const response = await fetch(`${url}/metrics`);
    expect(response.headers.get('content-type')).toMatch(/^text\/plain; version=/);
    const lines = (await response.text()).split('\n');
    expect(lines).toContain('sitewire_bridge_connections{protocol="amqp"} 1');
    expect(lines).toContain('sitewire_bridge_connections{protocol="mqtt"} 1');
    expect(lines).toContain('sitewire_bridge_published_total{protocol="amqp"} 3');
    expect(lines).toContain('sitewire_bridge_dials_total{protocol="mqtt",outcome="refused"} 1');
    expect(lines).toContain('sitewire_bridge_connections_ended_total{protocol="amqp",reason="client"} 1');
    expect(lines).toContain('sitewire_bridge_dial_duration_seconds_bucket{le="0.025",protocol="mqtt"} 0');
    expect(lines).toContain('sitewire_bridge_dial_duration_seconds_bucket{le="0.05",protocol="mqtt"} 1');
    expect(lines.some((line) => line.startsWith('process_resident_memory_bytes '))).toBe(true);
  });

  it('two bridges in one process count separately', async () => {
    const [first, second] = [new Metrics(), new Metrics()];
    first.opened('amqp');
    expect(await second.registry.getSingleMetricAsString('sitewire_bridge_connections')).not.toContain('} 1');
  });

  it('other paths get 404', async ({ start }) => {
    const url = await start();
    for (const path of ['/', '/health', '/metrics/', '/healthz/x'])
      expect((await get(`${url}${path}`))[0]).toBe(404);
  });
});
