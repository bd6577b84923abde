/** Sites to begin a test with: a plant of a new organization, a partner that submits to it, and who else is there. */
import { connectDevice, type DeviceTestLink } from './links.ts';
import { connectListening } from './site-devices.ts';
import { type Listener, listen } from './site-listener.ts';
import { Submitter } from './site-submissions.ts';
import {
  createOrganization,
  createPlant,
  createWorld,
  type Key,
  type Organization,
  type Plant,
  type PlantOptions,
  siteOf,
} from './world.ts';

export interface SiteScene {
  organization: Organization;
  plant: Plant;
  gateway: Plant['gateway'];
  site: ReturnType<typeof siteOf>;
  partner: Submitter;
}

export interface KeyedScene extends SiteScene {
  key: Key;
}

export interface HeardScene extends KeyedScene {
  listener: Listener;
}

/** A site whose partner has no key: nobody but the submitter is told anything. */
export async function newSite(options: PlantOptions = {}): Promise<SiteScene> {
  const organization = await createOrganization();
  return around(organization, await createPlant(organization, options));
}

/** A site whose gateway is connected, and does not listen for commands. */
export async function newConnectedSite(): Promise<SiteScene & { link: DeviceTestLink }> {
  const scene = await newSite();
  return { ...scene, link: await connectDevice(scene.plant) };
}

/** A site whose gateway is connected and listens for commands. */
export async function newListeningSite(): Promise<SiteScene & { link: DeviceTestLink }> {
  const scene = await newSite();
  return { ...scene, link: await connectListening(scene.plant) };
}

/** A site whose partner submits under a key: the key's Vhost is told what becomes of it. */
export async function newKeyedSite(options: PlantOptions = {}): Promise<KeyedScene> {
  const { organization, plant, key } = await createWorld(options);
  return { ...around(organization, plant, key), key };
}

/** A site whose partner submits under a key, and listens to all events of that key. */
export async function newHeardSite(options: PlantOptions = {}): Promise<HeardScene> {
  const scene = await newKeyedSite(options);
  return { ...scene, listener: await listen(scene.organization, scene.key) };
}

function around(organization: Organization, plant: Plant, key?: Key): SiteScene {
  const { gateway } = plant;
  return { organization, plant, gateway, site: siteOf(plant.id), partner: new Submitter(plant.id, key?.id) };
}
