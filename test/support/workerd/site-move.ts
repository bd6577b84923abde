/** The steps of a device's move between two objects, one function each: a test can repeat a step as a crash would. */
import type { DevicePack } from '../../../durable-objects/rpc.ts';
import { dialSite } from './links.ts';
import { setScene } from './scene.ts';
import { answerPings } from './site-devices.ts';
import { evictSite, numberOf } from './site-rows.ts';
import { createPlant, siteOf } from './world.ts';

/** A command over REST, under a key. */
export const PING = { action: 'PING', payload: {}, validUntilMs: null, idempotencyKey: 'key-1' };

const OWN_TABLES = {
  device: 'id',
  device_secret: 'device_id',
  dropped_message: 'device_id',
  recent_drop: 'device_id',
  recent_connect: 'device_id',
  takeover: 'device_id',
  rest_command: 'device_id',
  dispatch: 'device_id',
};
/** Two plants, and the steps that move the gateway of the first one to the second. */
export async function newMove() {
  const scene = await setScene({ plant: true });
  const { organization, plant, gateway } = scene;
  const target = await createPlant(organization);
  const [fromId, toId, { id }] = [plant.id, target.id, gateway];
  for (const siteId of [fromId, toId]) await answerPings(siteId);
  let pack: DevicePack | undefined;
  const move = {
    release: async () => {
      const released = await siteOf(fromId).releaseDevice(id, 'move-1');
      pack ??= released;
      return released;
    },
    take: async () => {
      if (pack) await siteOf(toId).takeDevice(toId, id, pack);
    },
    drop: async () => await siteOf(fromId).dropDevice(id),
  };
  const evict = async () => {
    for (const siteId of [fromId, toId]) await evictSite(siteId);
  };
  return { ...scene, target, fromId, toId, id, move, evict, pack: () => pack };
}

/** Runs all steps of a move. */
export async function whole({
  release,
  take,
  drop,
}: Awaited<ReturnType<typeof newMove>>['move']): Promise<void> {
  await release();
  await take();
  await drop();
}

/** Moves a device in one go, without the steps of a scene. */
export async function moveDevice(fromId: string, toId: string, id: string, name: string): Promise<void> {
  const pack = await siteOf(fromId).releaseDevice(id, name);
  if (pack) await siteOf(toId).takeDevice(toId, id, pack);
  await siteOf(fromId).dropDevice(id);
}

/** The rows that an object has of a device, by table. */
export async function leftOf(siteId: string, deviceId: string): Promise<Record<string, number>> {
  const left: Record<string, number> = {};
  for (const [table, column] of Object.entries(OWN_TABLES)) {
    left[table] = await numberOf(siteId, `SELECT count(*) FROM ${table} WHERE ${column} = '${deviceId}'`);
  }
  return left;
}

/** Of a device that an object has nothing of. */
export const NOTHING = Object.fromEntries(Object.keys(OWN_TABLES).map((table) => [table, 0]));

/** What a device that dials an object is answered. */
export async function statusOfDial(siteId: string, deviceId: string): Promise<number> {
  const response = await dialSite(siteId, deviceId);
  response.webSocket?.accept();
  return response.status;
}
