/** Whole lists that several screens show. */
import { api, read, readAll } from './client.ts';
import type { Alert, AlertRule, Device, DeviceTemplate, Plant } from './types.ts';

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

export async function readAlertRules(): Promise<AlertRule[]> {
  return await readAll(async (before) => {
    const query = { ...pageOf(before), kind: 'RULE' as const };
    const page = await read(api.GET('/api/v1/alerts', { params: { query } }));
    return page as { data: AlertRule[]; meta: { next: string | null } };
  });
}

/** Those of the platform first. */
export async function readTemplates(): Promise<DeviceTemplate[]> {
  const all: DeviceTemplate[] = [];
  for (let page = 1; ; page++) {
    const query = { page, limit: 100 };
    const { data, meta } = await read(api.GET('/api/v1/device-templates', { params: { query } }));
    all.push(...data);
    if (page >= meta.totalPages) return all;
  }
}
