/** Changes of an admin in D1, each with a registry version, and their delivery to the objects. */
import { env } from 'cloudflare:workers';
import type { OrganizationChange } from '../../../protocol/organization.ts';
import { revokeKey as revokeInRegistry } from '../../../registry/api-keys.ts';
import { commitChange, type RegistryChange } from '../../../registry/changes.ts';
import { deleteDevice, pageDevices } from '../../../registry/devices.ts';
import { changeOrganization } from '../../../registry/organizations.ts';
import { deletePlant } from '../../../registry/plants.ts';
import { changeSubDevice, deleteSubDevice, listSubDevicesOf } from '../../../registry/sub-devices.ts';
import { auditOf, done, markDelivered } from './commits.ts';
import { type Organization, type Plant, registerSubDevice, siteOf, vhostOf } from './world.ts';

/** Commits a change as the Worker does. */
export type Step = (organization: Organization) => Promise<RegistryChange>;

const ALL = { page: 1, limit: 100 };

/** Commits changes, each with the organization's next version, and returns the last. No object gets them. */
export async function changeRegistry(organization: Organization, ...steps: Step[]): Promise<number> {
  let version = 0;
  for (const step of steps.length > 0 ? steps : [changeNothing]) {
    const change = await step(organization);
    await markDelivered(change);
    version = change.version;
  }
  return version;
}

/** A change of the version only. */
export async function changeNothing({ id }: Organization): Promise<RegistryChange> {
  return await commitChange(env.DB, id, {}, Date.now(), () => []);
}

/** Delivers a version to the Site of a plant; rejects if the Site fails. */
export async function notifySite(siteId: string, version: number): Promise<void> {
  await siteOf(siteId).registryChanged(siteId, version);
}

/** Delivers a version to the Vhost of a key; rejects if the Vhost fails. */
export async function notifyVhost(keyId: string, version: number): Promise<void> {
  await vhostOf(keyId).registryChanged(version);
}

/** Commits changes and delivers them to a plant's Site. */
export async function changeAndNotifySite(
  organization: Organization,
  siteId: string,
  ...steps: Step[]
): Promise<number> {
  const version = await changeRegistry(organization, ...steps);
  await notifySite(siteId, version);
  return version;
}

/** Commits changes and delivers them to the Vhost of a key. */
export async function changeAndNotifyVhost(
  organization: Organization,
  keyId: string,
  ...steps: Step[]
): Promise<number> {
  const version = await changeRegistry(organization, ...steps);
  await notifyVhost(keyId, version);
  return version;
}

/** Adds a battery to a plant. */
export function addBattery({ id }: { id: string }, externalId: string): Step {
  const battery = { externalId, assetType: 'BESS', ratedPowerKw: 10 } as const;
  return async (organization) => (await registerSubDevice(organization, id, battery)).change;
}

export function removeSubDevice(plant: { id: string }, externalId: string): Step {
  return async (organization) => {
    const { rows } = await listSubDevicesOf(env.DB, plant.id, ALL);
    const id = rows.find((row) => row.externalId === externalId)?.id ?? '';
    const whose = { organizationId: organization.id, plantId: plant.id };
    const audit = auditOf(organization, 'sub_device.deleted', 'SUB_DEVICE')(id);
    return done(await deleteSubDevice(env.DB, whose, id, audit, Date.now()));
  };
}

/** Links a sub-device to the device that serves it; null removes the link. */
export function linkSubDevice(
  plant: { id: string },
  externalId: string,
  linkedDeviceId: string | null,
): Step {
  return async (organization) => {
    const { rows } = await listSubDevicesOf(env.DB, plant.id, ALL);
    const asset = rows.find((row) => row.externalId === externalId);
    if (!asset) throw new Error(`the plant has no ${externalId}`);
    const whose = { organizationId: organization.id, plantId: plant.id };
    const audit = auditOf(organization, 'sub_device.updated', 'SUB_DEVICE')(asset.id);
    return done(await changeSubDevice(env.DB, whose, asset, { linkedDeviceId }, audit, Date.now()));
  };
}

/** Changes the named settings and keeps the others. */
export function changeSettings(settings: OrganizationChange['settings']): Step {
  return async (organization) => {
    const audit = auditOf(organization, 'organization.updated', 'ORGANIZATION')(organization.id);
    return await changeOrganization(env.DB, organization.id, { settings }, audit, Date.now());
  };
}

/** Inserts 10 000 plants with long external ids, without a new version. */
export async function fillWithPlants({ id }: Organization): Promise<void> {
  await env.DB.prepare(
    `WITH RECURSIVE counter(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < 10000)
     INSERT INTO plants (id, organization_id, name, external_plant_id, created_at_ms)
     SELECT 'plant-' || substr(?1, 1, 8) || '-' || printf('%021d', n), ?1, 'Plant', printf('%064d', n), 1 FROM counter`,
  )
    .bind(id)
    .run();
}

/** Sets the registry version back, as if D1 had been restored; objects keep their newer copies. */
export async function restoreVersion(organization: Organization, version: number): Promise<void> {
  await env.DB.prepare('UPDATE organizations SET registry_version = ? WHERE id = ?')
    .bind(version, organization.id)
    .run();
}

/** Revokes a key in D1 only: its Vhost does not get the change. */
export function revokeKey(keyId: string): Step {
  return async (organization) => {
    const audit = auditOf(organization, 'api_key.revoked', 'API_KEY')(keyId);
    return await revokeInRegistry(env.DB, { id: keyId, organizationId: organization.id }, audit, Date.now());
  };
}

/** Deletes a plant with its sub-devices and devices in D1 only: its Site does not get the change. */
export function removePlant({ id }: Plant): Step {
  return async (organization) => {
    await removeDevices(organization, id);
    const audit = auditOf(organization, 'plant.deleted', 'PLANT')(id);
    return done(await deletePlant(env.DB, { organizationId: organization.id, id }, audit, Date.now()));
  };
}

/** Deletes the devices of a plant in D1 only: the Site still serves them. */
export async function removeDevices(organization: Organization, plantId: string): Promise<void> {
  const owner = { organizationId: organization.id, allowedPlantIds: null };
  const { rows } = await pageDevices(env.DB, owner, plantId, ALL);
  for (const device of rows) {
    const audit = auditOf(organization, 'device.deleted', 'DEVICE')(device.id);
    await markDelivered(done(await deleteDevice(env.DB, device, audit, Date.now())));
  }
}

export interface WaitingChange {
  id: string;
  version: number;
  targets: string[];
  dueAtMs: number;
}

/** An organization's changes that some object has not stored yet, oldest first. */
export async function changesOf(organizationId: string): Promise<WaitingChange[]> {
  const { results } = await env.DB.prepare(
    `SELECT id, version, targets, due_at_ms AS dueAtMs FROM registry_changes WHERE organization_id = ? ORDER BY version`,
  )
    .bind(organizationId)
    .all<Omit<WaitingChange, 'targets'> & { targets: string }>();
  return results.map((row) => ({ ...row, targets: JSON.parse(row.targets) as string[] }));
}
