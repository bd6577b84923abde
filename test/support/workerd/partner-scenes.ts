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
  /** Closes the link, and lets the object leave memory without a client. */
  leave(): Promise<void>;
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
  const crash = () => evictDurableObject(vhostOf(key.id), { webSockets: 'close' });
  const restart = async (dial?: DialOptions) => {
    await crash();
    return await connect(dial);
  };
  const partner = await connect();
  const leave = async () => {
    partner.link.socket.close();
    await partner.link.untilClosed();
    await crash();
  };
  return { organization, key, partner, siteId, connect, leave, restart };
}

/** The events that a queue gets. */
export const EVENTS_OF: Record<Exclude<QueueName, 'dead-letter'>, EventKind> = {
  'event.status': 'ack',
  'event.alarm': 'alarm',
  'event.execution': 'execution',
  'event.telemetry': 'telemetry',
};

/**
 * A partner whose consumer got numbered events from `siteId`: all `count`, or as many as prefetch and limit allow. It has
 * acknowledged none of them.
 */
export async function openHolder(
  count: number,
  options: { queue?: keyof typeof EVENTS_OF; prefetch?: number; channelLimit?: number } = {},
) {
  const { queue = 'event.status', prefetch = 0, channelLimit = 0 } = options;
  const scene = await openPartner();
  const { key, partner, siteId } = scene;
  if (channelLimit > 0) partner.link.send({ kind: 'qos', channel: 1, prefetch: channelLimit });
  await partner.consume(queue, { prefetch });
  const receipt = await hand(key, siteId, 1, count, { kind: EVENTS_OF[queue] });
  const held = await partner.delivered(Math.min(prefetch || count, channelLimit || count, count));
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
