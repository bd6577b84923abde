/** The bridge's small HTTP server: alive, ready, and its counts. */
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { Metrics } from '../../bridge/metrics.ts';
import { createMetricsServer } from '../../bridge/metrics-server.ts';
import { listen } from '../../bridge/tls.ts';

let server: Server | undefined;

afterEach(async () => {
  await new Promise((resolve) => (server ? server.close(resolve) : resolve(undefined)));
  server = undefined;
});

async function start(
  whyNotReady: () => Promise<string | undefined> = async () => undefined,
  metrics = new Metrics(),
): Promise<string> {
  server = createMetricsServer(metrics, whyNotReady);
  await listen(server, 0, '127.0.0.1');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function get(url: string): Promise<[number, string]> {
  const response = await fetch(url);
  return [response.status, await response.text()];
}

describe('the metrics server', () => {
  it('says that the process is alive, whatever becomes of the edge', async () => {
    const url = await start(async () => 'no edge');
    expect(await get(`${url}/healthz`)).toEqual([200, 'ok\n']);
  });

  it('says whether it is ready, and why not, asked anew each time', async () => {
    let why: string | undefined = 'the edge is not reached';
    const url = await start(async () => why);
    expect(await get(`${url}/readyz`)).toEqual([503, 'not ready: the edge is not reached\n']);
    why = undefined;
    expect(await get(`${url}/readyz`)).toEqual([200, 'ready\n']);
  });

  it('tells its counts in the format of Prometheus, by protocol', async () => {
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

  it('keeps the counts of two bridges in one process apart', async () => {
    const [first, second] = [new Metrics(), new Metrics()];
    first.opened('amqp');
    expect(await second.registry.getSingleMetricAsString('sitewire_bridge_connections')).not.toContain('} 1');
  });

  it('has nothing else', async () => {
    const url = await start();
    for (const path of ['/', '/health', '/metrics/', '/healthz/x'])
      expect((await get(`${url}${path}`))[0]).toBe(404);
  });
});
