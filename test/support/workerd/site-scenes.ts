/** Sites to begin a test with: a plant of a new organization, a partner that submits to it, and other participants. */
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

/** A scene that also has itself as `scene`, for helpers that take a whole scene. */
export type Whole<Scene> = Scene & { scene: Scene };

export function whole<Scene extends object>(scene: Scene): Whole<Scene> {
  return { ...scene, scene };
}

export interface SiteScene {
  organization: Organization;
  plant: Plant;
  gateway: Plant['gateway'];
  site: ReturnType<typeof siteOf>;
  partner: Submitter;
}

export interface LinkedScene extends SiteScene {
  link: DeviceTestLink;
}

export interface KeyedScene extends SiteScene {
  key: Key;
}

export interface ListenedScene extends KeyedScene {
  listener: Listener;
}

/** A site whose partner has no key: only the submitter gets answers. */
export async function newSite(options: PlantOptions = {}): Promise<Whole<SiteScene>> {
  const organization = await createOrganization();
  return whole(around(organization, await createPlant(organization, options)));
}

/** A site whose gateway is connected, and is not subscribed to commands. */
export async function newConnectedSite(): Promise<Whole<LinkedScene>> {
  const scene = await newSite();
  return whole({ ...scene, link: await connectDevice(scene.plant) });
}

/** A site whose gateway is connected and subscribed to commands. */
export async function newListeningSite(options: PlantOptions = {}): Promise<Whole<LinkedScene>> {
  const scene = await newSite(options);
  return whole({ ...scene, link: await connectListening(scene.plant) });
}

/** A site whose partner submits under a key: the key's Vhost gets its events. */
export async function newKeyedSite(options: PlantOptions = {}): Promise<Whole<KeyedScene>> {
  const { organization, plant, key } = await createWorld(options);
  return whole({ ...around(organization, plant, key), key });
}

/** A site whose partner submits under a key and consumes all events of that key. */
export async function newListenedSite(options: PlantOptions = {}): Promise<Whole<ListenedScene>> {
  const scene = await newKeyedSite(options);
  return whole({ ...scene, listener: await listen(scene.organization, scene.key) });
}

/** The same, with a gateway that is subscribed to commands. */
export async function newRunningSite(
  options: PlantOptions = {},
): Promise<Whole<ListenedScene & LinkedScene>> {
  const scene = await newListenedSite(options);
  return whole({ ...scene, link: await connectListening(scene.plant) });
}

function around(organization: Organization, plant: Plant, key?: Key): SiteScene {
  const { gateway } = plant;
  return { organization, plant, gateway, site: siteOf(plant.id), partner: new Submitter(plant.id, key?.id) };
}
