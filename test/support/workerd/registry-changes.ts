/** What an admin changes in D1, and how the objects hear of it: in one transaction with a version, and told by it. */
import { env } from 'cloudflare:workers';
import type { OrganizationChange } from '../../../protocol/organization.ts';
import { revokeKey as revokeInRegistry } from '../../../worker/registry/api-keys.ts';
import { commitChange, type RegistryChange } from '../../../worker/registry/changes.ts';
import { deleteDevice, pageDevices } from '../../../worker/registry/devices.ts';
import { changeOrganization } from '../../../worker/registry/organizations.ts';
import { deletePlant } from '../../../worker/registry/plants.ts';
import { changeSubDevice, deleteSubDevice, listSubDevicesOf } from '../../../worker/registry/sub-devices.ts';
import { auditOf, done, tellNobody } from './commits.ts';
import { type Organization, type Plant, registerSubDevice, siteOf, vhostOf } from './world.ts';

/** Commits a change as the Worker does. */
export type Step = (organization: Organization) => Promise<RegistryChange>;

const ALL = { page: 1, limit: 100 };

/** Commits changes, each with the organization's next version, and returns the last. Nobody is told. */
export async function changeRegistry(organization: Organization, ...steps: Step[]): Promise<number> {
  let version = 0;
  for (const step of steps.length > 0 ? steps : [changeNothing]) {
    const change = await step(organization);
    await tellNobody(change);
    version = change.version;
  }
  return version;
}

/** But the version. */
export async function changeNothing({ id }: Organization): Promise<RegistryChange> {
  return await commitChange(env.DB, id, {}, Date.now(), () => []);
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
  ...steps: Step[]
): Promise<number> {
  const version = await changeRegistry(organization, ...steps);
  await tellSite(siteId, version);
  return version;
}

/** The same for the Vhost of a key. */
export async function changeAndTellVhost(
  organization: Organization,
  keyId: string,
  ...steps: Step[]
): Promise<number> {
  const version = await changeRegistry(organization, ...steps);
  await tellVhost(keyId, version);
  return version;
}

/** A battery more. */
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

/** The device that serves it from now on; null = none of its own. */
export function linkSubDevice(
  plant: { id: string },
  externalId: string,
  linkedDeviceId: string | null,
): Step {
  return async (organization) => {
    const { rows } = await listSubDevicesOf(env.DB, plant.id, ALL);
    const id = rows.find((row) => row.externalId === externalId)?.id ?? '';
    const whose = { organizationId: organization.id, plantId: plant.id };
    const audit = auditOf(organization, 'sub_device.updated', 'SUB_DEVICE')(id);
    return done(await changeSubDevice(env.DB, whose, id, { linkedDeviceId }, audit, Date.now()));
  };
}

/** Those that are not named stay. */
export function changeSettings(settings: OrganizationChange['settings']): Step {
  return async (organization) => {
    const audit = auditOf(organization, 'organization.updated', 'ORGANIZATION')(organization.id);
    return await changeOrganization(env.DB, organization.id, { settings }, audit, Date.now());
  };
}

/** D1 is as it was at an earlier version; what its objects have taken since is not undone. */
export async function restoreVersion(organization: Organization, version: number): Promise<void> {
  await env.DB.prepare('UPDATE organizations SET registry_version = ? WHERE id = ?')
    .bind(version, organization.id)
    .run();
}

/** In D1: its Vhost has not heard of it. */
export function revokeKey(keyId: string): Step {
  return async (organization) => {
    const audit = auditOf(organization, 'api_key.revoked', 'API_KEY')(keyId);
    return await revokeInRegistry(env.DB, { id: keyId, organizationId: organization.id }, audit, Date.now());
  };
}

/** The plant with its sub-devices and its devices, of which its Site has heard nothing either. */
export function removePlant({ id }: Plant): Step {
  return async (organization) => {
    await removeDevices(organization, id);
    const audit = auditOf(organization, 'plant.deleted', 'PLANT')(id);
    return done(await deletePlant(env.DB, { organizationId: organization.id, id }, audit, Date.now()));
  };
}

/** The devices of a plant, in D1 alone: what serves them goes on doing so. */
export async function removeDevices(organization: Organization, plantId: string): Promise<void> {
  const owner = { organizationId: organization.id, allowedPlantIds: null };
  const { rows } = await pageDevices(env.DB, owner, plantId, ALL);
  for (const device of rows) {
    const audit = auditOf(organization, 'device.deleted', 'DEVICE')(device.id);
    await tellNobody(done(await deleteDevice(env.DB, device, audit, Date.now())));
  }
}
