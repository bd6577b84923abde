/**
 * A device whose client sends nothing for 90 s: its socket is open, but the client does not answer the
 * bridge's pings [C-3.10].
 */
import { type LinkedScene, setScene } from '#workerd/scene.ts';
import { MINUTE, passTime, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import {
  commandsOf,
  connectListening,
  connectTo,
  nthCommand,
  sendAck,
  sendStatus,
} from '#workerd/site-devices.ts';
import { newestCommand } from '#workerd/site-reads.ts';
import { evictSite, factOf, openSessions, untilRegistered } from '#workerd/site-rows.ts';
import { charge } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { createDevice, type Plant } from '#workerd/world.ts';

async function plantStatus(plant: Plant): Promise<string> {
  return (await factOf<{ plant: string }>(plant.id, 'presence'))?.plant ?? 'PENDING';
}

/**
 * Sends the `quiet` frame of the bridge. Once the following acknowledgement is answered, the site has handled
 * it.
 */
async function say({ link, gateway }: Pick<LinkedScene, 'link' | 'gateway'>, quiet: boolean): Promise<void> {
  link.send({ kind: 'quiet', quiet });
  await sendAck(link, gateway, 'none', 'RECEIVED');
}

describe('a device that has sent no byte for 90 s', () => {
  it('a quiet device gets no command: the command is QUEUED, and sent when the device sends again [C-3.10]', async () => {
    const { scene, plant, partner, link } = await setScene({ gateway: 'listening' });
    await say(scene, true);
    expect(await partner.acknowledge(charge())).toMatchObject({ status: 'QUEUED' });
    expect(commandsOf(link)).toEqual([]);
    await say(scene, false);
    await nthCommand(link, 1);
    expect(await newestCommand(plant.id)).toMatchObject({ status: 'PENDING' });
    expect(commandsOf(link)).toHaveLength(1);
  });

  it('a quiet device stays quiet over an eviction, because the state is kept with the socket [C-3.10]', async () => {
    const scene = await setScene({ gateway: 'listening' });
    await say(scene, true);
    await evictSite(scene.plant.id);
    expect(await scene.partner.acknowledge(charge())).toMatchObject({ status: 'QUEUED' });
    expect(commandsOf(scene.link)).toEqual([]);
    await evictSite(scene.plant.id);
    await say(scene, false);
    await nthCommand(scene.link, 1);
  });

  it('a plant with only a quiet device is OFFLINE, and ONLINE when the device sends again [C-2.5]', async () => {
    const { scene, plant } = await setScene({ gateway: 'listening' });
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

  it('a quiet device does not make a plant OFFLINE whose other device is connected [C-2.5]', async () => {
    const { organization, plant, gateway } = await setScene({ plant: true });
    const sensor = await createDevice(organization, plant.id, 'SENSOR');
    const link = await connectListening(plant);
    await connectTo(plant.id, sensor.id);
    await say({ link, gateway }, true);
    await passTime(plant.id, SECOND);
    expect(await plantStatus(plant)).toBe('ONLINE');
  });

  it('a quiet device keeps its session, because its client may send again [C-3.10]', async () => {
    const scene = await setScene({ gateway: 'listening' });
    await say(scene, true);
    expect(scene.link.closed).toBeUndefined();
    expect(await openSessions(scene.plant.id)).toBe(1);
  });

  it('a new session of a quiet device is not quiet [C-3.10]', async () => {
    const scene = await setScene({ gateway: 'listening' });
    await say(scene, true);
    const next = await connectListening(scene.plant);
    expect(await scene.partner.acknowledge(charge())).toMatchObject({ status: 'ACCEPTED' });
    await nthCommand(next, 1);
  });

  it('a quiet gateway does not serve while another gateway is connected [C-2.4]', async () => {
    const { organization, plant, gateway, partner } = await setScene({ plant: true });
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

describe('the status that a device reported', () => {
  it('a device that reported OFFLINE is ONLINE after its next connect [C-3.10]', async () => {
    const { plant, link } = await setScene({ gateway: 'connected' });
    await sendStatus(link, plant.gateway, 'OFFLINE');
    await untilRegistered('devices', plant.gateway.id, { connection_status: 'OFFLINE' });
    setClock(START_MS + MINUTE);
    await connectTo(plant.id, plant.gateway.id);
    await untilRegistered('devices', plant.gateway.id, { connection_status: 'ONLINE' });
    await evictSite(plant.id);
    await passTime(plant.id, SECOND);
    await untilRegistered('devices', plant.gateway.id, { connection_status: 'ONLINE' });
  });

  it.for(['MAINTENANCE', 'ERROR'] as const)(
    'a device that reported %s still has that status after its next connect [C-3.10]',
    async (status, { plainSite: { plant } }) => {
      await sendStatus(await connectTo(plant.id, plant.gateway.id), plant.gateway, status);
      await connectTo(plant.id, plant.gateway.id);
      await untilRegistered('devices', plant.gateway.id, { connection_status: status });
    },
  );
});
