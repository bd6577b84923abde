/** What a gateway said of its site stays the site’s when it leaves: as it was meant then, over evictions too [C-3.1]. */
import { describe, expect, it } from 'vitest';
import { holdClock, MINUTE, passTime } from '#workerd/site-clock.ts';
import { connectListening, connectTo, sendTelemetry } from '#workerd/site-devices.ts';
import { newMove, whole } from '#workerd/site-move.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { createDevice, siteOf } from '#workerd/world.ts';

holdClock();

type Move = Awaited<ReturnType<typeof newMove>>;

const WAYS: Record<string, (scene: Move) => Promise<void>> = {
  moved: async ({ move }) => await whole(move),
  'moved, what it left still there': async ({ move }) => {
    await move.release();
    await move.take();
  },
  deleted: async ({ fromId, id }) => await siteOf(fromId).forgetDevice(id),
};

async function valuesOf(siteId: string) {
  return (await siteOf(siteId).readLatestTelemetry(siteId)).payload;
}

/** Its gateway said something of the site, twice, and of the battery. */
async function newTold() {
  const scene = await newMove();
  const link = await connectListening(scene.plant);
  await sendTelemetry(link, scene.gateway, { gridPowerKw: 7, socPercent: 40, 'BESS-1/powerKw': 3 });
  await sendTelemetry(link, scene.gateway, { socPercent: 41 });
  const before = await valuesOf(scene.fromId);
  expect(before.gridPowerKw).toBe(7);
  return { ...scene, before };
}

describe.each(Object.keys(WAYS))('the latest values of a site whose gateway was %s', (name) => {
  const leave = async (scene: Move) => await WAYS[name]?.(scene);

  it.each([true])('stay, and stay after an eviction (one before that: %s)', async (isEvictedBefore) => {
    const scene = await newTold();
    if (isEvictedBefore) await scene.evict();
    await leave(scene);
    const after = await valuesOf(scene.fromId);
    expect(after.gridPowerKw).toBe(7);
    for (let count = 0; count < 2; count++) {
      await evictSite(scene.fromId);
      expect(await valuesOf(scene.fromId)).toEqual(after);
    }
  });

  it('stay beside what the next gateway says, after an eviction too', async () => {
    const scene = await newTold();
    await leave(scene);
    const next = await createDevice(scene.organization, scene.fromId, 'GATEWAY');
    const link = await connectTo(scene.fromId, next.id);
    await sendTelemetry(link, next, { pvPowerKw: 2 });
    const after = await valuesOf(scene.fromId);
    expect(after.gridPowerKw).toBe(7);
    await evictSite(scene.fromId);
    expect(await valuesOf(scene.fromId)).toEqual(after);
    await passTime(scene.fromId, MINUTE);
    await sendTelemetry(await connectTo(scene.fromId, next.id), next, { gridPowerKw: 8 });
    await evictSite(scene.fromId);
    expect((await valuesOf(scene.fromId)).gridPowerKw).toBe(8);
  });

  it('are not those of where it went', async () => {
    const scene = await newTold();
    await leave(scene);
    await evictSite(scene.toId);
    expect((await valuesOf(scene.toId)).gridPowerKw).toBeNull();
  });
});

describe('a gateway that comes back', () => {
  it('finds what it had said, and what it says now is heard, over evictions', async () => {
    const scene = await newTold();
    await whole(scene.move);
    await sendTelemetry(await connectTo(scene.toId, scene.id), scene.gateway, { gridPowerKw: 9 });
    const pack = await siteOf(scene.toId).releaseDevice(scene.id, 'move-2');
    if (pack) await siteOf(scene.fromId).takeDevice(scene.fromId, scene.id, pack);
    await siteOf(scene.toId).dropDevice(scene.id);
    await scene.evict();
    expect((await valuesOf(scene.fromId)).gridPowerKw).toBe(7);
    expect((await valuesOf(scene.toId)).gridPowerKw).toBe(9);
    await sendTelemetry(await connectTo(scene.fromId, scene.id), scene.gateway, { gridPowerKw: 10 });
    await evictSite(scene.fromId);
    expect((await valuesOf(scene.fromId)).gridPowerKw).toBe(10);
  });
});
