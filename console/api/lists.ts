/** Whole lists that several screens show. */
import { api, read, readAll } from './client.ts';
import type { Alert, Device, Plant } from './types.ts';

function pageOf(before: string | undefined) {
  return { limit: 100, ...(before === undefined ? {} : { before }) };
}

export async function readPlants(): Promise<Plant[]> {
  return await readAll((before) => read(api.GET('/api/v1/plants', { params: { query: pageOf(before) } })));
}

export async function readDevices(): Promise<Device[]> {
  return await readAll((before) => read(api.GET('/api/v1/devices', { params: { query: pageOf(before) } })));
}

export async function readActiveAlerts(): Promise<Alert[]> {
  return await readAll(async (before) => {
    const query = { ...pageOf(before), status: 'ACTIVE' as const };
    const page = await read(api.GET('/api/v1/alerts', { params: { query } }));
    return page as { data: Alert[]; meta: { next: string | null } };
  });
}
