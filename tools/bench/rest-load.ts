/** REST reads over a fixed number of connections, each with one request at a time. */
import { Agent, request } from 'node:http';

export interface RestSide {
  url: string;
  key: string;
}

export interface RestSamples {
  /** Times in ms. */
  latencies: number[];
  perSecond: number;
  /** Answers with a status other than 2xx. */
  failed: number;
}

/** Reads the path again and again for that time. */
export async function readFor(
  { url, key }: RestSide,
  path: string,
  connections: number,
  durationMs: number,
): Promise<RestSamples> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const latencies: number[] = [];
  let failed = 0;
  const startedAt = performance.now();
  const worker = async () => {
    while (performance.now() - startedAt < durationMs) {
      const sentAt = performance.now();
      const status = await statusOf(`${url}${path}`, agent, key);
      latencies.push(performance.now() - sentAt);
      if (status < 200 || status > 299) failed += 1;
    }
  };
  await Promise.all(Array.from({ length: connections }, worker));
  const perSecond = (latencies.length * 1_000) / (performance.now() - startedAt);
  agent.destroy();
  return { latencies, perSecond, failed };
}

/** Reads the whole answer. */
function statusOf(url: string, agent: Agent, key: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { agent, headers: { 'x-api-key': key } }, (response) => {
      response.on('end', () => resolve(response.statusCode ?? 0));
      response.resume();
    });
    asked.on('error', reject);
    asked.end();
  });
}
