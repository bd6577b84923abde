/** The configuration snapshot of a site: the mode in force, until when, and what stands beside it. */
import { describe, expect, it } from 'vitest';
import { HOUR, holdClock, MINUTE, START_MS, setClock } from '#workerd/site-clock.ts';
import { commandsOf, nthCommand, sendAck, stayConnected } from '#workerd/site-devices.ts';
import { newestCommand, readConfig } from '#workerd/site-reads.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { newListeningSite, newSite } from '#workerd/site-scenes.ts';
import { batch, batteryCommand, submission } from '#workerd/site-submissions.ts';
import { LIMITED, siteOf } from '#workerd/world.ts';
import type { DeviceAckStatus } from '../../../../protocol/enums.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

holdClock();

type Scene = Awaited<ReturnType<typeof newListeningSite>>;

/** Submits a mode, and has the plant's device acknowledge it. */
async function obeyMode(
  { plant, partner, link }: Scene,
  payload: object,
  status: DeviceAckStatus = 'RECEIVED',
) {
  const n = commandsOf(link).length + 1;
  await partner.submit(submission('mode', payload));
  await sendAck(link, plant.gateway, (await nthCommand(link, n)).cmdId, status);
}

describe('the mode of a site', () => {
  it('without validUntil sets operatingMode and clears the override [C-7.7]', async () => {
    const scene = await newListeningSite();
    const { plant } = scene;
    const validUntil = formatInstant(START_MS + HOUR);
    await obeyMode(scene, { mode: 'ZERO_EXPORT', validUntil });
    await obeyMode(scene, { mode: 'PEAK_SHAVING' });
    await evictSite(plant.id);
    expect(await readConfig(plant.id)).toMatchObject({ operatingMode: 'PEAK_SHAVING', modeOverride: null });
  });

  it('with validUntil is the override, above operatingMode, until that moment [C-2.3]', async () => {
    const scene = await newListeningSite();
    const { plant } = scene;
    const validUntil = formatInstant(START_MS + HOUR);
    await obeyMode(scene, { mode: 'MAX_EXPORT', validUntil, reason: 'price' });
    const { id: commandId } = await newestCommand(plant.id);
    const expected = {
      operatingMode: 'STANDARD',
      modeOverride: {
        mode: 'MAX_EXPORT',
        reason: 'price',
        validFrom: formatInstant(START_MS),
        validUntil,
        commandId,
        setBy: 'sw_test',
      },
    };
    expect(await readConfig(plant.id)).toMatchObject(expected);
    await evictSite(plant.id);
    expect(await readConfig(plant.id)).toMatchObject(expected);
    const { payload } = await siteOf(plant.id).readLatestTelemetry(plant.id);
    expect(payload.currentOperatingMode).toBe('MAX_EXPORT');
    setClock(START_MS + HOUR);
    expect((await readConfig(plant.id)).modeOverride).toBeNull();
    expect((await siteOf(plant.id).readLatestTelemetry(plant.id)).payload.currentOperatingMode).toBe(
      'STANDARD',
    );
  });

  it.each(['RECEIVED', 'IN_PROGRESS', 'COMPLETED'] as const)(
    "acts from its device's first acknowledgement, %s, not from its acceptance [C-7.7]",
    async (status) => {
      const scene = await newListeningSite();
      const { plant, partner, link } = scene;
      await partner.submit(submission('mode', { mode: 'MAX_EXPORT' }));
      const { cmdId } = await nthCommand(link, 1);
      expect((await readConfig(plant.id)).operatingMode).toBe('STANDARD');
      await sendAck(link, plant.gateway, cmdId, status);
      expect((await readConfig(plant.id)).operatingMode).toBe('MAX_EXPORT');
    },
  );

  it('that waits for its device, that it refuses, or that it never answers changes nothing [C-7.7]', async () => {
    const scene = await newListeningSite();
    const { plant, partner, link } = scene;
    await obeyMode(scene, { mode: 'MAX_EXPORT' }, 'FAILED');
    await partner.submit(
      submission('mode', { mode: 'ZERO_EXPORT', validUntil: formatInstant(START_MS + HOUR) }),
    );
    await stayConnected(plant, link, 2 * MINUTE);
    link.send({ kind: 'subscribed', commands: false });
    expect(await partner.acknowledge(submission('mode', { mode: 'PEAK_SHAVING' }))).toMatchObject({
      status: 'QUEUED',
    });
    expect(await readConfig(plant.id)).toMatchObject({ operatingMode: 'STANDARD', modeOverride: null });
  });

  it('set by an administrator between acceptance and acknowledgement gives way to the newer command [C-7.7]', async () => {
    const { plant, partner, link, site } = await newListeningSite();
    await partner.submit(submission('mode', { mode: 'MAX_EXPORT' }));
    const { cmdId } = await nthCommand(link, 1);
    await site.configure(plant.id, { ...LIMITED, operatingMode: 'ZERO_EXPORT' });
    await sendAck(link, plant.gateway, cmdId, 'RECEIVED');
    const config = await readConfig(plant.id);
    expect(config).toMatchObject({ operatingMode: 'MAX_EXPORT', constraints: LIMITED.constraints });
  });

  it('acknowledged again later does not undo a newer one [C-7.7]', async () => {
    const scene = await newListeningSite();
    const { plant, link } = scene;
    await obeyMode(scene, { mode: 'MAX_EXPORT' });
    const { cmdId } = await nthCommand(link, 1);
    await obeyMode(scene, { mode: 'ZERO_EXPORT' });
    await sendAck(link, plant.gateway, cmdId, 'COMPLETED');
    expect((await readConfig(plant.id)).operatingMode).toBe('ZERO_EXPORT');
  });

  it('that is rejected changes nothing [C-7.4]', async () => {
    const { plant, partner } = await newSite();
    await partner.submit(
      submission('mode', { mode: 'MAX_EXPORT', validUntil: formatInstant(START_MS - MINUTE) }),
      submission('mode', { mode: 'MAX_EXPORT' }, { signature: 'missing' }),
    );
    expect(await readConfig(plant.id)).toMatchObject({ operatingMode: 'STANDARD', modeOverride: null });
  });

  it('stands beside the constraints, the fallback and what is pending [C-2.3]', async () => {
    const { plant, partner } = await newSite();
    await partner.submit(submission('device', batch(batteryCommand(1))));
    const config = await readConfig(plant.id);
    expect(config).toMatchObject({ siteId: plant.id, constraints: LIMITED.constraints, fallback: null });
    expect(config.pendingCommands).toMatchObject([{ commandType: 'DEVICE_COMMAND', target: 'BESS-1' }]);
  });
});
