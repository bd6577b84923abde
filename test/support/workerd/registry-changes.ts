/** What an admin changes in D1, and how the objects hear of it: in one transaction with a version, and told by it. */
import { env } from 'cloudflare:workers';
import { type Organization, type Plant, siteOf, vhostOf } from './world.ts';

/** Commits statements as the Worker does: with the organization's next version, which it returns. Nobody is told. */
export async function changeRegistry(
  organization: Organization,
  ...statements: D1PreparedStatement[]
): Promise<number> {
  const results = await env.DB.batch<{ version: number }>([
    ...statements,
    env.DB.prepare(
      `UPDATE organizations SET registry_version = registry_version + 1 WHERE id = ?
       RETURNING registry_version AS version`,
    ).bind(organization.id),
  ]);
  const [row] = results.at(-1)?.results ?? [];
  if (!row) throw new Error('no such organization');
  return row.version;
}

/** Returns once the Site of a plant has taken that version; rejects where it has not. */
export async function tellSite(siteId: string, version: number): Promise<void> {
  await siteOf(siteId).registryChanged(siteId, version);
}

/** Returns once the Vhost of a key has taken that version; rejects where it has not. */
export async function tellVhost(keyId: string, version: number): Promise<void> {
  await vhostOf(keyId).registryChanged(version);
}

/** A change, and a plant's Site has taken it when this returns. */
export async function changeAndTellSite(
  organization: Organization,
  siteId: string,
  ...statements: D1PreparedStatement[]
): Promise<number> {
  const version = await changeRegistry(organization, ...statements);
  await tellSite(siteId, version);
  return version;
}

/** The same for the Vhost of a key. */
export async function changeAndTellVhost(
  organization: Organization,
  keyId: string,
  ...statements: D1PreparedStatement[]
): Promise<number> {
  const version = await changeRegistry(organization, ...statements);
  await tellVhost(keyId, version);
  return version;
}

/** A battery more. */
export function addBattery(plant: { id: string }, externalId: string): D1PreparedStatement {
  return env.DB.prepare(
    `INSERT INTO sub_devices (id, plant_id, external_id, asset_type, name, rated_power_kw, created_at_ms)
     VALUES (?, ?, ?, 'BESS', 'new', 10, 0)`,
  ).bind(crypto.randomUUID(), plant.id, externalId);
}

export function removeSubDevice(plant: Plant, externalId: string): D1PreparedStatement {
  return env.DB.prepare('DELETE FROM sub_devices WHERE plant_id = ? AND external_id = ?').bind(
    plant.id,
    externalId,
  );
}

/** Those that are not named stay. */
export function changeSettings(
  organization: Organization,
  settings: Record<string, unknown>,
): D1PreparedStatement {
  return env.DB.prepare('UPDATE organizations SET settings = json_patch(settings, ?) WHERE id = ?').bind(
    JSON.stringify(settings),
    organization.id,
  );
}

/** D1 is as it was at an earlier version; what its objects have taken since is not undone. */
export async function restoreVersion(organization: Organization, version: number): Promise<void> {
  await env.DB.prepare('UPDATE organizations SET registry_version = ? WHERE id = ?')
    .bind(version, organization.id)
    .run();
}

export function revokeKey(keyId: string): D1PreparedStatement {
  return env.DB.prepare('UPDATE api_keys SET revoked_at_ms = 1 WHERE id = ?').bind(keyId);
}

/** The plant with its sub-devices; its devices stay. */
export function removePlant(plant: Plant): D1PreparedStatement[] {
  return [
    'DELETE FROM sub_devices WHERE plant_id = ?',
    'UPDATE devices SET plant_id = NULL WHERE plant_id = ?',
    'DELETE FROM plants WHERE id = ?',
  ].map((sql) => env.DB.prepare(sql).bind(plant.id));
}
