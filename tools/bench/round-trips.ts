/** How often a REST request waits for D1, counted by a Worker that wraps the binding. */
import { join } from 'node:path';
import { AdminClient } from '../admin-client.ts';
import { type BenchStack, startBenchStack } from './bench-stack.ts';
import type { Figure } from './figures.ts';

export const COUNTED_ENTRY = join(import.meta.dirname, 'workerd', 'counted-worker.ts');
const REQUESTS = 20;

interface Call {
  method?: string;
  path: string;
  body?: unknown;
}

/** The average of `requests`, because some requests write in addition: `lastUsedAt` once a minute. */
export async function roundTripsOf(
  url: string,
  requests: number,
  work: () => Promise<void>,
): Promise<number> {
  const count = async () => Number(await (await fetch(`${url}/bench/queries`)).text());
  const before = await count();
  for (let done = 0; done < requests; done++) await work();
  return ((await count()) - before) / requests;
}

/** The round trips of the Worker in each call; what its objects read from D1 is not included. */
export async function countRoundTrips(): Promise<Figure[]> {
  const stack = await startBenchStack({ plants: 1, entry: COUNTED_ENTRY });
  const { url } = stack.edge;
  const admin = await AdminClient.enter(url, stack.login);
  const organizationId = stack.organizations[0]?.id ?? '';
  const withLogin = { authorization: `Bearer ${admin.accessToken}`, 'x-org-id': organizationId };
  const figures: Figure[] = [];
  for (const [headers, calls] of [
    [{ 'x-api-key': stack.key }, callsOfPartner(stack)],
    [withLogin, callsOfUser(stack)],
  ] as const) {
    for (const call of calls) {
      const send = () => sendCall(url, call, headers);
      // The first request writes `lastUsedAt`, and the Site wakes.
      await send();
      const name = `${call.method ?? 'GET'} ${shortened(call.path)}`;
      figures.push({ name, value: await roundTripsOf(url, REQUESTS, send), unit: '' });
    }
  }
  await stack.stop();
  return figures;
}

function callsOfPartner({ plants: [plant] }: BenchStack): Call[] {
  const site = `/vcp/sites/${plant?.id}`;
  const hour = `from=${inMs(-3_600_000)}&to=${inMs(0)}`;
  return [
    { path: '/vcp/sites' },
    { path: `${site}/config` },
    { path: `${site}/commands` },
    { path: `${site}/schedules` },
    { path: `${site}/telemetry/latest` },
    { path: `${site}/telemetry?metric=gridPowerKw&${hour}&granularity=raw` },
  ];
}

function callsOfUser({ plants: [plant], login }: BenchStack): Call[] {
  const device = `/devices/${plant?.gateway.id}`;
  return [
    { method: 'POST', path: '/auth/login', body: login },
    { path: '/auth/me' },
    { path: '/plants' },
    { path: `/plants/${plant?.id}` },
    { path: `/plants/${plant?.id}/config` },
    { path: '/devices' },
    { path: device },
    { method: 'PATCH', path: device, body: { name: 'Gateway' } },
    { path: `${device}/diagnostics` },
    { method: 'POST', path: `${device}/commands`, body: { action: 'REBOOT' } },
    { path: `${device}/commands` },
    { path: '/alerts' },
    { path: '/partner/api-keys' },
    { path: '/audit-events' },
  ];
}

async function sendCall(url: string, { method = 'GET', path, body }: Call, headers: Record<string, string>) {
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
}

function inMs(ms: number): string {
  return new Date(Date.now() + ms).toISOString();
}

/** Without ids and without the query. */
function shortened(path: string): string {
  return path.replace(/\?.*/, '').replaceAll(/\/[0-9a-f-]{36}/g, '/{id}');
}
