/**
 * The one way to set a scene: a test names what it needs, and gets that, in a new organization. Parts are made in the order
 * organization, plant, key, partner, gateway, webhook: a key sees the plant, and the gateway's link finds the key's partner.
 */
import { evictDurableObject } from 'cloudflare:test';
import type { Receipt } from '../../../durable-objects/rpc.ts';
import type { Delivery } from '../../../protocol/link/vhost.ts';
import type { EventKind, QueueName } from '../../../protocol/routing-keys.ts';
import type { WebhookRequest } from '../../../protocol/webhook.ts';
import type { KeyClient } from './client.ts';
import { connectDevice, type DeviceTestLink } from './links.ts';
import { hand } from './outbox-events.ts';
import { Partner } from './partner.ts';
import { PostReceiver } from './post-receiver.ts';
import { answerPings, connectListening } from './site-devices.ts';
import { type Listener, listen } from './site-listener.ts';
import { Submitter } from './site-submissions.ts';
import { modelled } from './telemetry-site.ts';
import { addHook, type HookScene, trust, untilEnabled } from './webhook-scenes.ts';
import {
  createKey,
  createOrganization,
  createPlant,
  type Key,
  type KeyOptions,
  type Organization,
  type Plant,
  type PlantOptions,
  siteOf,
  vhostOf,
} from './world.ts';

export interface SceneOptions {
  /** Instead of a new organization. */
  organization?: Organization;
  /** Settings of the new organization. */
  settings?: Record<string, unknown>;
  /** A plant, and a partner that submits to it. */
  plant?: true | PlantOptions;
  /** The plant's gateway is connected, or also subscribed to commands. */
  gateway?: 'connected' | 'listening';
  /** A key, under which the partner submits: its Vhost gets the events. */
  key?: true | KeyOptions;
  /** The key has a connected client, or a client that consumes all of its events. */
  partner?: 'connected' | 'listening';
  /** All bridges answer the pings of the plant's Site. */
  pings?: 'answered';
  /** The gateway's telemetry is also in a model, to compare the store with. */
  telemetry?: 'modelled';
  /** Numbered events that wait for the key, by default acknowledgements. */
  events?: number | { count: number; kind: EventKind };
  /** The connected partner consumes a queue, after those events have come. */
  consumes?: QueueName | ({ queue: QueueName } & Parameters<Partner['consume']>[1]);
  /** The connected partner holds numbered events: all `count`, or as many as prefetch and limit allow. */
  held?: number | HeldOptions;
  /** A webhook of the key; `trusted`: it has delivered an event. */
  webhook?: 'enabled' | 'trusted' | HookOptions;
}

interface HeldOptions {
  count: number;
  queue?: keyof typeof EVENTS_OF;
  prefetch?: number;
  channelLimit?: number;
}

/** `isPending`: the receiver may not have answered the first message yet. */
type HookOptions = Partial<WebhookRequest> & { receiver?: PostReceiver; isPending?: boolean };
type DialOptions = Parameters<typeof Partner.connect>[2];

/** The events that a queue gets. */
export const EVENTS_OF: Record<Exclude<QueueName, 'dead-letter'>, EventKind> = {
  'event.status': 'ack',
  'event.alarm': 'alarm',
  'event.execution': 'execution',
  'event.telemetry': 'telemetry',
};

interface Anywhere {
  organization: Organization;
  /** The id of a site that the key may see; without a plant a random id, for events that the test sends. */
  siteId: string;
}

export interface SiteScene extends Anywhere {
  plant: Plant;
  gateway: Plant['gateway'];
  site: ReturnType<typeof siteOf>;
  partner: Submitter;
}

export interface LinkedScene extends SiteScene {
  link: DeviceTestLink;
}

export interface ListenedScene extends SiteScene {
  key: KeyClient;
  listener: Listener;
}

export interface PartnerScene extends Anywhere {
  key: KeyClient;
  partner: Partner;
  /** Opens another link of the key. */
  connect(options?: DialOptions): Promise<Partner>;
  /** Closes the link, and lets the object leave memory without a client. */
  leave(): Promise<void>;
  /** Restarts the object after a crash that closed its sockets, and opens a link. */
  restart(options?: DialOptions): Promise<Partner>;
}

type If<Options, Asked, Parts> = Options extends Asked ? Parts : unknown;
type WithPlant = { plant: true | PlantOptions } | { gateway: string };
type WithClient = { partner: 'connected' } | { held: number | HeldOptions } | { consumes: object | string };

type Parts<O> = Anywhere &
  If<O, WithPlant, O extends WithClient ? Omit<SiteScene, 'partner'> : SiteScene> &
  If<O, { gateway: string }, { link: DeviceTestLink }> &
  If<O, { key: true | KeyOptions } | { partner: string }, { key: KeyClient }> &
  If<O, { partner: 'listening' }, { listener: Listener }> &
  If<O, WithClient, PartnerScene> &
  If<O, { telemetry: string }, ReturnType<typeof modelled>> &
  If<O, { held: number | HeldOptions }, { receipt: Receipt; held: Delivery[] }> &
  If<O, { webhook: 'enabled' | 'trusted' | HookOptions }, HookScene>;

/** The queue of acknowledgements, whose partner needs not acknowledge them. */
export const ACKS = { queue: 'event.status', noAck: true } as const;

/** Options of a site whose gateway listens, and whose partner consumes all events. */
export const RUNNING = { gateway: 'listening', partner: 'listening' } as const;

/** What was asked for; `scene` is all of it, for helpers that take a whole scene. */
export type Scene<O extends SceneOptions> = Parts<O> & { scene: Parts<O> };

export type TelemetrySite = Parts<{ plant: true; telemetry: 'modelled' }>;

export async function setScene<const O extends SceneOptions>(options: O): Promise<Scene<O>> {
  const { organization = await createOrganization(options.settings), held, consumes, events } = options;
  const plant = (options.plant ?? options.gateway) && (await createPlant(organization, given(options.plant)));
  const keyOptions = given(options.key) ?? {};
  const hasKey = options.key ?? options.partner ?? held ?? consumes ?? options.webhook;
  const key = hasKey === undefined ? undefined : await createKey(organization, keyOptions);
  const siteId = plant?.id ?? keyOptions.allowedPlantIds?.[0] ?? crypto.randomUUID();
  const scene = { organization, siteId, key };
  if (plant) {
    const partner = new Submitter(plant.id, key?.id);
    Object.assign(scene, { plant, gateway: plant.gateway, site: siteOf(plant.id), partner });
  }
  if (key && (options.partner === 'connected' || held !== undefined || consumes)) {
    Object.assign(scene, await clientOf(organization, key));
  }
  if (key && options.partner === 'listening') {
    Object.assign(scene, { listener: await listen(organization, key) });
  }
  if (options.pings) await answerPings(siteId);
  if (plant && options.gateway) {
    const connect = options.gateway === 'connected' ? connectDevice : connectListening;
    Object.assign(scene, { link: await connect(plant) });
  }
  if (plant && options.telemetry) Object.assign(scene, modelled(plant));
  const parts = scene as unknown as PartnerScene & HookScene;
  if (events) {
    const { count, ...kind } = typeof events === 'number' ? { count: events } : events;
    await hand(parts.key, siteId, 1, count, kind);
  }
  if (consumes) {
    const { queue, ...consuming } = typeof consumes === 'string' ? { queue: consumes } : consumes;
    await parts.partner.consume(queue, consuming);
  }
  if (held !== undefined) Object.assign(scene, await hold(parts, held));
  if (options.webhook) Object.assign(scene, await hookOf(parts, options.webhook));
  if (options.webhook === 'trusted') await trust(parts);
  return whole(scene) as unknown as Scene<O>;
}

/** A scene that also has itself as `scene`. */
export function whole<Made extends object>(scene: Made): Made & { scene: Made } {
  return { ...scene, scene };
}

function given<Options extends object>(option: true | Options | undefined): Options | undefined {
  return option === true ? undefined : option;
}

async function clientOf(organization: Organization, key: Key) {
  const connect = (dial?: DialOptions) => Partner.connect(organization, key, dial);
  const crash = () => evictDurableObject(vhostOf(key.id), { webSockets: 'close' });
  const partner = await connect();
  const restart = async (dial?: DialOptions) => {
    await crash();
    return await connect(dial);
  };
  const leave = async () => {
    partner.link.socket.close();
    await partner.link.untilClosed();
    await crash();
  };
  return { partner, connect, leave, restart };
}

/** The client acknowledges none of the events. */
async function hold({ key, partner, siteId }: PartnerScene, held: number | HeldOptions) {
  const options = typeof held === 'number' ? { count: held } : held;
  const { count, queue = 'event.status', prefetch = 0, channelLimit = 0 } = options;
  if (channelLimit > 0) partner.link.send({ kind: 'qos', channel: 1, prefetch: channelLimit });
  await partner.consume(queue, { prefetch });
  const receipt = await hand(key, siteId, 1, count, { kind: EVENTS_OF[queue] });
  const most = Math.min(prefetch || count, channelLimit || count, count);
  return { receipt, held: await partner.delivered(most) };
}

async function hookOf({ organization, key }: HookScene, webhook: 'enabled' | 'trusted' | HookOptions) {
  const options: HookOptions = typeof webhook === 'string' ? {} : webhook;
  const { receiver = new PostReceiver(), isPending = false, ...request } = options;
  const hook = await addHook(organization, key, { url: receiver.url, ...request });
  receiver.secret = hook.secret;
  if (!isPending) await untilEnabled({ id: hook.id, key });
  return { ...hook, receiver };
}
