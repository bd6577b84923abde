/** Plants and sub-devices as REST makes them for a team, its keys, and what it has yet to tell its objects. */
import { env } from 'cloudflare:workers';
import type { Page } from '../../../protocol/page.ts';
import type { PlantRecord, SubDeviceRecord } from '../../../protocol/plant-record.ts';
import type { ApiKeyScope } from '../../../protocol/scopes.ts';
import type { Person, Team } from './people.ts';
import { type Call, call } from './people.ts';
import { createKey, type Key, type KeyOptions, type Organization } from './world.ts';

/** A team as those who make keys and plants by hand know it. */
export function organizationOf({ id, slug, orgAdmin }: Team): Organization {
  return { id, slug, adminId: orgAdmin.id };
}

export async function createTeamKey(
  team: Team,
  scopes: ApiKeyScope[],
  options: KeyOptions = {},
): Promise<Key> {
  return await createKey(organizationOf(team), { ...options, scopes });
}

/** With an API key. */
export function callWithKey(key: Key, path: string, options: Call = {}): Promise<Response> {
  return call(path, { ...options, headers: { ...options.headers, 'x-api-key': key.key } });
}

export async function postPlant(person: Person, fields: object = {}): Promise<PlantRecord> {
  return await person.read('/plants', { method: 'POST', body: { name: 'Plant', ...fields } }, 201);
}

/** A battery, but for what is changed. */
export async function postSubDevice(
  person: Person,
  plantId: string,
  fields: object = {},
): Promise<SubDeviceRecord> {
  const battery = { externalId: 'BESS-1', assetType: 'BESS', name: 'Battery', ratedPowerKw: 50 };
  const body = { ...battery, ...fields };
  return await person.read(`/plants/${plantId}/sub-devices`, { method: 'POST', body }, 201);
}

export async function listPlants(person: Person, query = ''): Promise<Page<PlantRecord>> {
  return await person.read(`/plants${query}`);
}

export interface WaitingChange {
  id: string;
  version: number;
  targets: string[];
  dueAtMs: number;
}

/** An organization's changes that some object has not taken yet, oldest first. */
export async function changesOf(organizationId: string): Promise<WaitingChange[]> {
  const { results } = await env.DB.prepare(
    `SELECT id, version, targets, due_at_ms AS dueAtMs FROM registry_changes WHERE organization_id = ? ORDER BY version`,
  )
    .bind(organizationId)
    .all<Omit<WaitingChange, 'targets'> & { targets: string }>();
  return results.map((row) => ({ ...row, targets: JSON.parse(row.targets) as string[] }));
}
