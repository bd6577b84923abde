/** A device whose client has gone quiet: its socket stands, the bridge pings, and nobody is there [C-3.10]. */
import { describe, expect, it } from 'vitest';
import { holdClock, MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  commandsOf,
  connectListening,
  connectTo,
  nthCommand,
  sendAck,
  sendStatus,
} from '#workerd/site-devices.ts';
import { newestCommand } from '#workerd/site-reads.ts';
import { evictSite, openSessions, rowsOf, untilRegistered } from '#workerd/site-rows.ts';
import { newListeningSite, newSite } from '#workerd/site-scenes.ts';
import { charge } from '#workerd/site-submissions.ts';
import { createDevice, type Plant } from '#workerd/world.ts';

holdClock();

type Scene = Awaited<ReturnType<typeof newListeningSite>>;

async function plantStatus(plant: Plant): Promise<string> {
  const [fact] = await rowsOf<{ value: string }>(plant.id, `SELECT value FROM fact WHERE name = 'presence'`);
  return (JSON.parse(fact?.value ?? '{}') as { plant: string }).plant;
}

/** The bridge says so; once the acknowledgement behind it is answered, the site knows. */
async function say({ link, gateway }: Pick<Scene, 'link' | 'gateway'>, quiet: boolean): Promise<void> {
  link.send({ kind: 'quiet', quiet });
  await sendAck(link, gateway, 'none', 'RECEIVED');
}

describe('a device that no byte came from for 90 s', () => {
  it('gets no command: it is QUEUED, and goes out when something comes again [C-3.10]', async () => {
    const scene = await newListeningSite();
    const { plant, partner, link } = scene;
    await say(scene, true);
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'QUEUED' });
    expect(commandsOf(link)).toEqual([]);
    await say(scene, false);
    await nthCommand(link, 1);
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'PENDING' });
    expect(commandsOf(link)).toHaveLength(1);
  });

  it('is so over an eviction: what the bridge said stands with the socket [C-3.10]', async () => {
    const scene = await newListeningSite();
    await say(scene, true);
    await evictSite(scene.plant.id);
    expect(await scene.partner.acknowledge(charge())).toMatchObject({ status: 'QUEUED' });
    expect(commandsOf(scene.link)).toEqual([]);
    await evictSite(scene.plant.id);
    await say(scene, false);
    await nthCommand(scene.link, 1);
  });

  it('is no live session: its plant is OFFLINE, and ONLINE when something comes again [C-2.5]', async () => {
    const scene = await newListeningSite();
    const { plant } = scene;
    await untilRegistered('plants', plant.id, { status: 'ONLINE' });
    setClock(START_MS + 90 * SECOND);
    await say(scene, true);
    await passTime(plant.id, SECOND);
    expect(await plantStatus(plant)).toBe('OFFLINE');
    await untilRegistered('plants', plant.id, { status: 'OFFLINE' });
    await untilRegistered('devices', plant.gateway.id, { connection_status: 'OFFLINE' });
    await say(scene, false);
    expect(await plantStatus(plant)).toBe('ONLINE');
    await untilRegistered('devices', plant.gateway.id, { connection_status: 'ONLINE' });
  });

  it('does not make a plant OFFLINE whose other device is there [C-2.5]', async () => {
    const { organization, plant, gateway } = await newSite();
    const sensor = await createDevice(organization, plant.id, 'SENSOR');
    const link = await connectListening(plant);
    await connectTo(plant.id, sensor.id);
    await say({ link, gateway }, true);
    await passTime(plant.id, SECOND);
    expect(await plantStatus(plant)).toBe('ONLINE');
  });

  it('keeps its session: the client may still come, and it does not come twice [C-3.10]', async () => {
    const scene = await newListeningSite();
    await say(scene, true);
    expect(scene.link.closed).toBeUndefined();
    expect(await openSessions(scene.plant.id)).toBe(1);
  });

  it('is heard again in a session of its own: quiet is said of a link, not of a device [C-3.10]', async () => {
    const scene = await newListeningSite();
    await say(scene, true);
    const next = await connectListening(scene.plant);
    expect(await scene.partner.acknowledge(charge())).toMatchObject({ status: 'ACCEPTED' });
    await nthCommand(next, 1);
  });

  it('does not serve while another gateway is there [C-2.4]', async () => {
    const { organization, plant, gateway, partner } = await newSite();
    const controller = await createDevice(organization, plant.id, 'CONTROLLER');
    const other = await connectListening(plant, controller);
    setClock(START_MS + SECOND);
    const link = await connectListening(plant);
    await say({ link, gateway }, true);
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'ACCEPTED' });
    await nthCommand(other, 1);
    expect(commandsOf(link)).toEqual([]);
  });
});

describe('a device that reported OFFLINE', () => {
  it('is ONLINE with its next connect: the report was of the session before [C-3.10]', async () => {
    const { plant } = await newSite();
    const link = await connectTo(plant.id, plant.gateway.id);
    await sendStatus(link, plant.gateway, 'OFFLINE');
    await untilRegistered('devices', plant.gateway.id, { connection_status: 'OFFLINE' });
    setClock(START_MS + MINUTE);
    await connectTo(plant.id, plant.gateway.id);
    await untilRegistered('devices', plant.gateway.id, { connection_status: 'ONLINE' });
    await evictSite(plant.id);
    await passTime(plant.id, SECOND);
    await untilRegistered('devices', plant.gateway.id, { connection_status: 'ONLINE' });
  });

  it.each(['MAINTENANCE', 'ERROR'] as const)(
    'and one that reported %s differ: that stands [C-3.10]',
    async (status) => {
      const { plant } = await newSite();
      await sendStatus(await connectTo(plant.id, plant.gateway.id), plant.gateway, status);
      await connectTo(plant.id, plant.gateway.id);
      await untilRegistered('devices', plant.gateway.id, { connection_status: status });
    },
  );
});
