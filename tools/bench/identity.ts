/** Identity: CPU time of a login, and how much the lookup of an API key adds to a read [C-4.7], [C-1.4]. */
import { readFileSync } from 'node:fs';
import { startBenchStack } from './bench-stack.ts';
import { percentile, report } from './figures.ts';
import { COUNTED_ENTRY, roundTripsOf } from './round-trips.ts';

const LOGINS = 100;
const READS = 2_000;
/** /proc counts CPU time in ticks of 10 ms. */
const TICK_MS = 10;

export async function benchIdentity(): Promise<void> {
  const stack = await startBenchStack({ plants: 1, entry: COUNTED_ENTRY });
  const { url } = stack.edge;
  const pid = stack.edge.pid() ?? 0;

  // 1. logins, one at a time: measures the whole CPU time of workerd
  const login = async () => {
    const response = await post(`${url}/api/v1/auth/login`, stack.login);
    if (response.status !== 200) throw new Error(`login answered ${response.status}`);
    await response.arrayBuffer();
  };
  for (let count = 0; count < 10; count++) await login();
  const before = cpuMs(pid);
  const times: number[] = [];
  for (let count = 0; count < LOGINS; count++) times.push(await timed(login));
  const cpu = (cpuMs(pid) - before) / LOGINS;

  // 2. reads with an API key, compared with the health route: the same path without key and data
  const read = (path: string) => async () => {
    const response = await fetch(`${url}${path}`, { headers: { 'x-api-key': stack.key } });
    await response.arrayBuffer();
  };
  const config = read(`/api/v1/vcp/sites/${stack.plants[0]?.id}/config`);
  for (let count = 0; count < 200; count++) await config();
  const queries = await roundTripsOf(url, 100, config);
  const reads: number[] = [];
  const bare: number[] = [];
  for (let count = 0; count < READS; count++) {
    reads.push(await timed(config));
    bare.push(await timed(read('/healthz')));
  }
  await stack.stop();
  report('identity', 'one client, one request at a time', [
    { name: 'CPU per login, scrypt included', value: cpu, unit: 'ms', target: '≤ 40' },
    { name: 'login, p50', value: percentile(times, 0.5), unit: 'ms' },
    {
      name: 'D1 queries per read with a key (key and site)',
      value: queries,
      unit: '',
      target: '≤ 2',
    },
    { name: 'site config with a key, p50', value: percentile(reads, 0.5), unit: 'ms' },
    { name: '/healthz, p50', value: percentile(bare, 0.5), unit: 'ms' },
    {
      name: 'site config / healthz',
      value: percentile(reads, 0.5) / percentile(bare, 0.5),
      unit: '×',
    },
  ]);
}

async function timed(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

function post(url: string, body: unknown): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

/** User and system time of a process, ms. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}
