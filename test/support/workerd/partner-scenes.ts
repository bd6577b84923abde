/** Partners to begin a test with: a key of an organization, and its client on a first link. */
import { evictDurableObject } from 'cloudflare:test';
import type { EventKind, QueueName } from '../../../protocol/routing-keys.ts';
import { hand } from './outbox-events.ts';
import { Partner } from './partner.ts';
import {
  createKey,
  createOrganization,
  createPlant,
  type Key,
  type KeyOptions,
  type Organization,
  type Plant,
  vhostOf,
} from './world.ts';

type DialOptions = Parameters<typeof Partner.connect>[2];

export interface PartnerScene {
  organization: Organization;
  key: Key;
  partner: Partner;
  /** The id of a site that the key may see; without a plant a random id, for events that the test sends. */
  siteId: string;
  /** Opens another link of the key. */
  connect(options?: DialOptions): Promise<Partner>;
  /** Restarts the object after a crash that closed its sockets, and opens a link. */
  restart(options?: DialOptions): Promise<Partner>;
}

/** A partner of a new organization, or of the one that is given. */
export async function openPartner(
  options: KeyOptions & { organization?: Organization } = {},
): Promise<PartnerScene> {
  const { organization = await createOrganization(), ...keyOptions } = options;
  const key = await createKey(organization, keyOptions);
  const connect = (dial?: DialOptions) => Partner.connect(organization, key, dial);
  const siteId = keyOptions.allowedPlantIds?.[0] ?? crypto.randomUUID();
  const restart = async (dial?: DialOptions) => {
    await evictDurableObject(vhostOf(key.id), { webSockets: 'close' });
    return await connect(dial);
  };
  return { organization, key, partner: await connect(), siteId, connect, restart };
}

/** The events that a queue gets. */
const EVENTS_OF: Partial<Record<QueueName, EventKind>> = {
  'event.alarm': 'alarm',
  'event.execution': 'execution',
  'event.telemetry': 'telemetry',
};

/**
 * A partner whose consumer got numbered events from `siteId`: all `count`, or as many as its prefetch allows. It has
 * acknowledged none of them.
 */
export async function openHolder(count: number, options: { queue?: QueueName; prefetch?: number } = {}) {
  const { queue = 'event.status', prefetch = 0 } = options;
  const scene = await openPartner();
  const { key, partner, siteId } = scene;
  await partner.consume(queue, { prefetch });
  const receipt = await hand(key, siteId, 1, count, { kind: EVENTS_OF[queue] ?? 'ack' });
  const held = await partner.delivered(Math.min(prefetch || count, count));
  return { ...scene, receipt, held };
}

/** A partner with a plant that it may command; the plant is created before the key and its link. */
export async function openPartnerWithPlant(
  options: KeyOptions & { settings?: Record<string, unknown> } = {},
): Promise<PartnerScene & { plant: Plant }> {
  const { settings, ...keyOptions } = options;
  const organization = await createOrganization(settings);
  const plant = await createPlant(organization);
  return { ...(await openPartner({ ...keyOptions, organization })), siteId: plant.id, plant };
}
