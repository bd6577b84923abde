/** Whole lists that several screens show. */
import { api, read, readAll } from './client.ts';
import type { Alert, AlertRule, ApiKey, Device, DeviceTemplate, Member, Plant } from './types.ts';

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

/** A page of a list whose pages have numbers. */
type Numbered<Item> = { data: Item[]; meta: { totalPages: number } };

async function readNumbered<Item>(
  readPage: (query: { page: number; limit: number }) => Promise<Numbered<Item>>,
): Promise<Item[]> {
  const all: Item[] = [];
  for (let page = 1; ; page++) {
    const { data, meta } = await readPage({ page, limit: 100 });
    all.push(...data);
    if (page >= meta.totalPages) return all;
  }
}

/** Those of the platform first. */
export async function readTemplates(): Promise<DeviceTemplate[]> {
  return await readNumbered((query) => read(api.GET('/api/v1/device-templates', { params: { query } })));
}

export async function readKeys(): Promise<ApiKey[]> {
  return await readNumbered((query) => read(api.GET('/api/v1/partner/api-keys', { params: { query } })));
}

export async function readMembers(organizationId: string): Promise<Member[]> {
  const path = { id: organizationId };
  return await readNumbered((query) =>
    read(api.GET('/api/v1/organizations/{id}/members', { params: { path, query } })),
  );
}
