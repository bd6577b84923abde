/** FALLBACK_ENGAGED: a plant that nobody reaches for as long as was agreed, or that says so itself [C-2.3], [C-8.3]. */
import { expect, it } from 'vitest';
import { HOUR, holdClock, MINUTE, passTime, passUntilTold, SECOND, setClock } from '#workerd/site-clock.ts';
import { connectListening, sendTelemetry, stayConnected } from '#workerd/site-devices.ts';
import { type Listener, listen } from '#workerd/site-listener.ts';
import { readConfig } from '#workerd/site-reads.ts';
import { crashSite, evictSite } from '#workerd/site-rows.ts';
import { newHeardSite } from '#workerd/site-scenes.ts';
import { submission } from '#workerd/site-submissions.ts';
import { DEFAULT_SITE_CONFIG, type SiteConfig } from '../../../../protocol/site-config.ts';

holdClock();

const FALLBACK = { mode: 'STANDARD', afterSeconds: 120, action: 'HOLD', setpointKw: null } as const;
const config: SiteConfig = { ...DEFAULT_SITE_CONFIG, fallback: FALLBACK };

/** What listeners were told of the fallback, in order. */
const toldBy = (...listeners: Listener[]) =>
  listeners
    .flatMap((listener) => listener.events('alarm'))
    .filter(({ payload }) => payload.type === 'FALLBACK_ENGAGED')
    .map(({ payload }) => payload.status);

it('is raised after afterSeconds without a session, once, through an eviction, and cleared by the next [C-2.3]', async () => {
  const { organization, key, plant } = await newHeardSite({ config });
  await connectListening(plant);
  await crashSite(plant.id);
  await passTime(plant.id, 119 * SECOND);
  const listener = await listen(organization, key);
  await listener.quiet();
  expect(toldBy(listener)).toEqual([]);
  await passTime(plant.id, 3 * SECOND);
  await passUntilTold(plant.id);
  await listener.quiet();
  expect(toldBy(listener)).toEqual(['RAISED']);
  await evictSite(plant.id);
  await passTime(plant.id, HOUR);
  await connectListening(plant);
  await passTime(plant.id, 10 * SECOND);
  const later = await listen(organization, key);
  await later.event('alarm', 'CLEARED');
  await later.quiet();
  expect(toldBy(listener, later)).toEqual(['RAISED', 'CLEARED']);
});

it('is raised by a site that slept past that time, though it wakes for something else before its alarm [C-2.3]', async () => {
  const { organization, key, plant, partner } = await newHeardSite({ config });
  (await connectListening(plant)).socket.close(1000, 'bye');
  // What waits is due tomorrow.
  await partner.submit(submission('mode', { mode: 'STANDARD' }));
  await passTime(plant.id, 110 * SECOND);
  setClock(Date.now() + HOUR);
  await evictSite(plant.id);
  await readConfig(plant.id);
  await passTime(plant.id, 10 * SECOND);
  const listener = await listen(organization, key);
  await listener.event('alarm', 'RAISED');
  await listener.quiet();
  expect(toldBy(listener)).toEqual(['RAISED']);
});

it.each<[string, SiteConfig, boolean]>([
  ['without an agreed fallback', DEFAULT_SITE_CONFIG, true],
  ['that was never there', config, false],
])('is not raised of a plant %s [C-2.3]', async (_what, agreed, wasThere) => {
  const { plant, listener, partner } = await newHeardSite({ config: agreed });
  if (wasThere) (await connectListening(plant)).socket.close(1000, 'bye');
  await partner.submit(submission('mode', { mode: 'STANDARD' }));
  await passTime(plant.id, HOUR);
  await listener.quiet();
  expect(toldBy(listener)).toEqual([]);
});

it('is raised while the plant says so, though it is there [C-2.3]', async () => {
  const { plant, listener } = await newHeardSite({ config: DEFAULT_SITE_CONFIG });
  const link = await connectListening(plant);
  await sendTelemetry(link, plant.gateway, { fallbackActive: 1 });
  await stayConnected(plant, link, MINUTE);
  await listener.quiet();
  expect(toldBy(listener)).toEqual(['RAISED']);
  link.socket.close(1000, 'bye');
  await passTime(plant.id, SECOND);
  const again = await connectListening(plant);
  await stayConnected(plant, again, MINUTE);
  await listener.quiet();
  expect(toldBy(listener)).toEqual(['RAISED']);
  await sendTelemetry(again, plant.gateway, { fallbackActive: 0 });
  await stayConnected(plant, again, MINUTE);
  await listener.quiet();
  expect(toldBy(listener)).toEqual(['RAISED', 'CLEARED']);
});

it('goes by what is agreed now: raised by a shorter time, cleared where there is none any more [C-2.3]', async () => {
  const { plant, listener, partner } = await newHeardSite({
    config: { ...config, fallback: { ...FALLBACK, afterSeconds: 3_600 } },
  });
  (await connectListening(plant)).socket.close(1000, 'bye');
  await passTime(plant.id, 10 * MINUTE);
  const told = async (patch: object) => {
    await partner.submit(submission('config', patch));
    await passTime(plant.id, 10 * SECOND);
    await passUntilTold(plant.id);
    await listener.quiet();
    return toldBy(listener);
  };
  expect(await told({ fallback: { afterSeconds: 900 } })).toEqual([]);
  expect(await told({ fallback: { afterSeconds: 300 } })).toEqual(['RAISED']);
  expect(await told({ fallback: null })).toEqual(['RAISED', 'CLEARED']);
});
