/**
 * A client whose object closes its connection is disconnected within a second, idle or busy, with its object awake
 * or asleep.
 */
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Closable, openDevice, openPartner, type Pace } from '#support/closable.ts';
import { eventually } from '#support/stack.ts';
import { suiteStack } from '#support/suite-stack.ts';
import { VhostCaller } from '#support/vhost-caller.ts';
import { siteOf } from '../../tools/objects.ts';

const CLOSED_WITHIN_MS = 1_000;
/** Long enough for an edge that restarts in between. Tokens expire at a whole second. */
const LIFE_MS = 6_000;

type State = 'idle' | 'busy' | 'idle with its object asleep';
const STATES: State[] = ['idle', 'busy', 'idle with its object asleep'];

interface Want {
  pace: Pace;
  sleeps: boolean;
}

/** The client to be closed, and its end: resolves when the object has closed it. */
interface Scene {
  client: Closable;
  sleep(): Promise<void>;
  close(): Promise<void>;
}

describe('a client that its object closes', () => {
  const stack = suiteStack();

  /** Stops the client after the test. */
  const kept = (client: Closable) => {
    onTestFinished(() => client.stop());
    return client;
  };

  /** A bridge with its own name, and the same bridge rebooted while the clients of the first still live. */
  const bridgeTwice = async () => {
    const name = `bridge-${crypto.randomUUID()}`;
    const boot = async () => {
      const bridge = await stack.addBridge(name);
      onTestFinished(() => bridge.stop());
      return bridge;
    };
    return { first: await boot(), second: boot };
  };

  const isOver = (atMs: number) => eventually(() => Date.now() >= atMs || undefined, 2 * LIFE_MS);

  /** The seeding code still holds the object in memory; after a restart of the edge only its clients do. */
  const letGo = async ({ sleeps }: Want) => {
    if (sleeps) await stack.killEdge();
  };

  const partnerOf = async (want: Want, options: { lifeMs?: number; port?: number } = {}) => {
    const { lifeMs, port = stack.bridge.ports.amqps } = options;
    const plant = await stack.addPlant();
    const expiresAtMs = Date.now() + (lifeMs ?? 0);
    const key = await stack.addKey(lifeMs === undefined ? {} : { expiresAtMs });
    await letGo(want);
    const target = { ...stack.partnerOptions(key), port };
    const client = kept(await openPartner(target, plant.id, want.pace));
    return { expiresAtMs, key, plant, target, client, sleep: () => stack.putToSleep('Vhost', key.id) };
  };

  const deviceOf = async (want: Want, options: { lifetimeSeconds?: number; port?: number } = {}) => {
    const plant = await stack.addPlant();
    const other = await stack.addDevice(plant.id);
    await letGo(want);
    const client = kept(await openDevice(stack, plant.gateway, want.pace, options));
    const site = async () => await siteOf(stack.edge.miniflare, plant.id);
    return { plant, other, site, client, sleep: () => stack.putToSleep('Site', plant.id) };
  };

  const PARTNERS: Record<string, (want: Want) => Promise<Scene>> = {
    'its key is revoked': async (want) => {
      const scene = await partnerOf(want);
      return { ...scene, close: async () => (await VhostCaller.of(stack, scene.key.id)).revoke() };
    },
    'its key expires': async (want) => {
      const scene = await partnerOf(want, { lifeMs: LIFE_MS });
      return { ...scene, close: () => isOver(scene.expiresAtMs).then(() => {}) };
    },
    'its bridge has rebooted': async (want) => {
      const { first, second } = await bridgeTwice();
      const scene = await partnerOf(want, { port: first.ports.amqps });
      const close = async () => {
        const { ports } = await second();
        kept(await openPartner({ ...scene.target, port: ports.amqps }, scene.plant.id, 'idle'));
      };
      return { ...scene, close };
    },
  };

  const DEVICES: Record<string, (want: Want) => Promise<Scene>> = {
    'it is suspended': async (want) => {
      const scene = await deviceOf(want);
      const { site, plant } = scene;
      const close = async () => void (await (await site()).setDeviceStatus(plant.gateway.id, 'SUSPENDED'));
      return { ...scene, close };
    },
    'it is decommissioned': async (want) => {
      const scene = await deviceOf(want);
      const { site, plant } = scene;
      const close = async () =>
        void (await (await site()).setDeviceStatus(plant.gateway.id, 'DECOMMISSIONED'));
      return { ...scene, close };
    },
    'its token expires': async (want) => {
      const lifetimeSeconds = LIFE_MS / 1_000;
      const scene = await deviceOf(want, { lifetimeSeconds });
      const expiresAtMs = Math.ceil(Date.now() / 1_000) * 1_000 + LIFE_MS;
      return { ...scene, close: () => isOver(expiresAtMs).then(() => {}) };
    },
    'another session takes over': async (want) => {
      const scene = await deviceOf(want);
      const close = async () => {
        kept(await openDevice(stack, scene.plant.gateway, 'idle'));
      };
      return { ...scene, close };
    },
    'its bridge has rebooted': async (want) => {
      const { first, second } = await bridgeTwice();
      const scene = await deviceOf(want, { port: first.ports.mqtts });
      const close = async () => {
        const { ports } = await second();
        kept(await openDevice(stack, scene.other, 'idle', { port: ports.mqtts }));
      };
      return { ...scene, close };
    },
  };

  const closeReasonOf = async (open: (want: Want) => Promise<Scene>, state: State) => {
    const sleeps = state === 'idle with its object asleep';
    const { client, sleep, close } = await open({ pace: state === 'busy' ? 'busy' : 'idle', sleeps });
    if (state === 'busy') await eventually(() => client.taken > 3 || undefined);
    if (sleeps) await sleep();
    expect(client.end).toBeUndefined();
    await close();
    return await eventually(() => client.end, CLOSED_WITHIN_MS);
  };

  describe.each(Object.keys(PARTNERS))("a partner's client when %s", (why) => {
    it.each(STATES)('receives 320 within a second, %s [C-5.6]', async (state) => {
      const open = PARTNERS[why] as (typeof PARTNERS)[string];
      expect(await closeReasonOf(open, state)).toBe(320);
    });
  });

  describe.each(Object.keys(DEVICES))('a device when %s', (why) => {
    it.each(STATES)('is closed within a second, %s [C-3.6]', async (state) => {
      const open = DEVICES[why] as (typeof DEVICES)[string];
      expect(await closeReasonOf(open, state)).toBe('closed');
    });
  });
});
