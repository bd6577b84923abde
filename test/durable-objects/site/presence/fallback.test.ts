/**
 * FALLBACK_ENGAGED: a plant without a session for the configured time, or one that reports its fallback
 * [C-2.3], [C-8.3].
 */
import { RUNNING, setScene } from '#workerd/scene.ts';
import { HOUR, MINUTE, passTime, passUntilSent, SECOND, setClock } from '#workerd/site-clock.ts';
import { connectListening, sendTelemetry, stayConnected } from '#workerd/site-devices.ts';
import { type Listener, listen } from '#workerd/site-listener.ts';
import { readConfig } from '#workerd/site-reads.ts';
import { crashSite, evictSite } from '#workerd/site-rows.ts';
import { submission } from '#workerd/site-submissions.ts';
import { expect, it } from '#workerd/site-test.ts';
import { DEFAULT_SITE_CONFIG, type SiteConfig } from '../../../../protocol/site-config.ts';

const FALLBACK = { mode: 'STANDARD', afterSeconds: 120, action: 'HOLD', setpointKw: null } as const;
const config: SiteConfig = { ...DEFAULT_SITE_CONFIG, fallback: FALLBACK };

/** The fallback alarms that listeners received, in order. */
const statusesOf = (...listeners: Listener[]) =>
  listeners
    .flatMap((listener) => listener.events('alarm'))
    .filter(({ payload }) => payload.type === 'FALLBACK_ENGAGED')
    .map(({ payload }) => payload.status);

it('FALLBACK_ENGAGED is raised once after afterSeconds without a session, and cleared by the next session [C-2.3]', async () => {
  const { organization, key, plant } = await setScene({ ...RUNNING, plant: { config } });
  await crashSite(plant.id);
  await passTime(plant.id, 119 * SECOND);
  const listener = await listen(organization, key);
  await listener.quiet();
  expect(statusesOf(listener)).toEqual([]);
  await passTime(plant.id, 3 * SECOND);
  await passUntilSent(plant.id);
  await listener.quiet();
  expect(statusesOf(listener)).toEqual(['RAISED']);
  await evictSite(plant.id);
  await passTime(plant.id, HOUR);
  await connectListening(plant);
  await passTime(plant.id, 10 * SECOND);
  const later = await listen(organization, key);
  await later.event('alarm', 'CLEARED');
  await later.quiet();
  expect(statusesOf(listener, later)).toEqual(['RAISED', 'CLEARED']);
});

it('FALLBACK_ENGAGED is raised by a site that slept past afterSeconds, even if a read wakes it before its alarm [C-2.3]', async () => {
  const { organization, key, plant, partner, link } = await setScene({ ...RUNNING, plant: { config } });
  link.socket.close(1000, 'bye');
  // The waiting command is due tomorrow.
  await partner.submit(submission('mode', { mode: 'STANDARD' }));
  await passTime(plant.id, 110 * SECOND);
  setClock(Date.now() + HOUR);
  await evictSite(plant.id);
  await readConfig(plant.id);
  await passTime(plant.id, 10 * SECOND);
  const listener = await listen(organization, key);
  await listener.event('alarm', 'RAISED');
  await listener.quiet();
  expect(statusesOf(listener)).toEqual(['RAISED']);
});

it.each<[string, SiteConfig, boolean]>([
  ['without a configured fallback', DEFAULT_SITE_CONFIG, true],
  ['that never connected', config, false],
])('FALLBACK_ENGAGED is not raised for a plant %s [C-2.3]', async (_what, agreed, wasThere) => {
  const { plant, listener, partner } = await setScene({ plant: { config: agreed }, partner: 'listening' });
  if (wasThere) (await connectListening(plant)).socket.close(1000, 'bye');
  await partner.submit(submission('mode', { mode: 'STANDARD' }));
  await passTime(plant.id, HOUR);
  await listener.quiet();
  expect(statusesOf(listener)).toEqual([]);
});

it('FALLBACK_ENGAGED is raised while a connected plant reports its fallback [C-2.3]', async () => {
  const { plant, listener, link } = await setScene({ ...RUNNING, plant: { config: DEFAULT_SITE_CONFIG } });
  await sendTelemetry(link, plant.gateway, { fallbackActive: 1 });
  await stayConnected(plant, link, MINUTE);
  await listener.quiet();
  expect(statusesOf(listener)).toEqual(['RAISED']);
  link.socket.close(1000, 'bye');
  await passTime(plant.id, SECOND);
  const again = await connectListening(plant);
  await stayConnected(plant, again, MINUTE);
  await listener.quiet();
  expect(statusesOf(listener)).toEqual(['RAISED']);
  await sendTelemetry(again, plant.gateway, { fallbackActive: 0 });
  await stayConnected(plant, again, MINUTE);
  await listener.quiet();
  expect(statusesOf(listener)).toEqual(['RAISED', 'CLEARED']);
});

it('FALLBACK_ENGAGED follows the current configuration: raised by a shorter time, cleared if no fallback is set [C-2.3]', async () => {
  const { plant, listener, partner, link } = await setScene({
    plant: {
      config: { ...config, fallback: { ...FALLBACK, afterSeconds: 3_600 } },
    },
    gateway: 'listening',
    partner: 'listening',
  });
  link.socket.close(1000, 'bye');
  await passTime(plant.id, 10 * MINUTE);
  const statusesAfter = async (patch: object) => {
    await partner.submit(submission('config', patch));
    await passTime(plant.id, 10 * SECOND);
    await passUntilSent(plant.id);
    await listener.quiet();
    return statusesOf(listener);
  };
  expect(await statusesAfter({ fallback: { afterSeconds: 900 } })).toEqual([]);
  expect(await statusesAfter({ fallback: { afterSeconds: 300 } })).toEqual(['RAISED']);
  expect(await statusesAfter({ fallback: null })).toEqual(['RAISED', 'CLEARED']);
});
