/** Values stand by the time of the device that sent them, in whatever order they come: awake, woken, and stored [C-3.13]. */
import { describe, expect, it } from 'vitest';
import { holdClock, MINUTE, SECOND, START_MS, setClock } from '#workerd/site-clock.ts';
import { publish, publishAll, rawTelemetry } from '#workerd/site-devices.ts';
import { gridPowerKw } from '#workerd/site-reads.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { newConnectedSite } from '#workerd/site-scenes.ts';
import { siteOf } from '#workerd/world.ts';

holdClock();

type Scene = Awaited<ReturnType<typeof newConnectedSite>>;

const reading = ({ gateway }: Scene, ts: number, kw: number) =>
  rawTelemetry(gateway, { ts, data: `{"gridPowerKw":${kw}}` });

/** The grid power as it is, and as it is after a wake. */
async function awakeAndWoken({ plant }: Scene): Promise<unknown[]> {
  const awake = await gridPowerKw(plant);
  await evictSite(plant.id);
  return [awake, await gridPowerKw(plant)];
}

describe('a reading', () => {
  it('that is older than what stands does not overwrite it, though it came later [C-3.13]', async () => {
    const scene = await newConnectedSite();
    await publish(scene.link, reading(scene, START_MS, 1));
    setClock(START_MS + 10 * SECOND);
    await publish(scene.link, reading(scene, START_MS - MINUTE, 2));
    expect(await awakeAndWoken(scene)).toEqual([1, 1]);
  });

  it('that is of the same moment, and came later, does [C-4.5]', async () => {
    const scene = await newConnectedSite();
    await publishAll(scene.link, [reading(scene, START_MS, 1), reading(scene, START_MS, 2)]);
    setClock(START_MS + 10 * SECOND);
    await publish(scene.link, reading(scene, START_MS, 3));
    expect(await awakeAndWoken(scene)).toEqual([3, 3]);
  });

  it('of a backlog that is sent newest first leaves the newest standing, each signal for itself [C-3.13]', async () => {
    const scene = await newConnectedSite();
    const ages = [0, 1, 2, 3, 4];
    const backlog = ages.map((age) => reading(scene, START_MS - age * MINUTE, age));
    backlog.push(
      rawTelemetry(scene.gateway, { ts: START_MS - 4 * MINUTE, data: '{"fvePowerKw":8,"gridPowerKw":99}' }),
    );
    await publishAll(scene.link, backlog);
    expect(await awakeAndWoken(scene)).toEqual([0, 0]);
    expect((await siteOf(scene.plant.id).readLatestTelemetry(scene.plant.id)).payload.fvePowerKw).toBe(8);
  });

  it('older than what the stored latest values hold does not overwrite them after a wake [C-3.13]', async () => {
    const scene = await newConnectedSite();
    for (const minute of [0, 6, 12]) {
      setClock(START_MS + minute * MINUTE);
      await publish(scene.link, reading(scene, START_MS + minute * MINUTE, minute));
    }
    await evictSite(scene.plant.id);
    await publish(scene.link, reading(scene, START_MS + 8 * MINUTE, 99));
    expect(await awakeAndWoken(scene)).toEqual([12, 12]);
  });

  it('dated ahead stands until something newer comes, not for good [C-3.13]', async () => {
    const scene = await newConnectedSite();
    await publish(scene.link, reading(scene, START_MS + 5 * MINUTE, 1));
    setClock(START_MS + MINUTE);
    await publish(scene.link, reading(scene, START_MS + MINUTE, 2));
    expect(await awakeAndWoken(scene)).toEqual([1, 1]);
    setClock(START_MS + 6 * MINUTE);
    await publish(scene.link, reading(scene, START_MS + 6 * MINUTE, 3));
    expect(await awakeAndWoken(scene)).toEqual([3, 3]);
  });

  it('tells when it was made: the timestamp of the latest values is the newest ts [C-4.1]', async () => {
    const scene = await newConnectedSite();
    await publish(scene.link, reading(scene, START_MS - 30 * SECOND, 1));
    const { timestamp } = await siteOf(scene.plant.id).readLatestTelemetry(scene.plant.id);
    expect(timestamp).toBe(new Date(START_MS - 30 * SECOND).toISOString());
  });
});
