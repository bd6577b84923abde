/** The configuration snapshot of a site: the mode in force, its end, and the fields next to it. */
import { type LinkedScene, setScene } from '#workerd/scene.ts';
import { HOUR, MINUTE, START_MS, setClock } from '#workerd/site-clock.ts';
import { commandsOf, nthCommand, sendAck, stayConnected } from '#workerd/site-devices.ts';
import { newestCommand, readConfig } from '#workerd/site-reads.ts';
import { evictSite } from '#workerd/site-rows.ts';
import { batch, batteryCommand, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { LIMITED, siteOf } from '#workerd/world.ts';
import type { DeviceAckStatus } from '../../../../protocol/enums.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

/** Submits a mode, and acknowledges it as the plant's device. */
async function obeyMode(
  { plant, partner, link }: LinkedScene,
  payload: object,
  status: DeviceAckStatus = 'RECEIVED',
) {
  const n = commandsOf(link).length + 1;
  await partner.submit(submission('mode', payload));
  await sendAck(link, plant.gateway, (await nthCommand(link, n)).cmdId, status);
}

describe('the mode of a site', () => {
  it('a mode without validUntil sets operatingMode and clears the override [C-7.7]', async () => {
    const { scene, plant } = await setScene({ gateway: 'listening' });
    const validUntil = formatInstant(START_MS + HOUR);
    await obeyMode(scene, { mode: 'ZERO_EXPORT', validUntil });
    await obeyMode(scene, { mode: 'PEAK_SHAVING' });
    await evictSite(plant.id);
    expect(await readConfig(plant.id)).toMatchObject({ operatingMode: 'PEAK_SHAVING', modeOverride: null });
  });

  it('a mode with validUntil is an override of operatingMode until that moment [C-2.3]', async () => {
    const { scene, plant } = await setScene({ gateway: 'listening' });
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

  it.for(['RECEIVED', 'IN_PROGRESS', 'COMPLETED'] as const)(
    "a mode takes effect with its device's first acknowledgement, %s, not when it is accepted [C-7.7]",
    async (status, { listeningSite: { plant, partner, link } }) => {
      await partner.submit(submission('mode', { mode: 'MAX_EXPORT' }));
      const { cmdId } = await nthCommand(link, 1);
      expect((await readConfig(plant.id)).operatingMode).toBe('STANDARD');
      await sendAck(link, plant.gateway, cmdId, status);
      expect((await readConfig(plant.id)).operatingMode).toBe('MAX_EXPORT');
    },
  );

  it('a mode that is waiting, rejected by its device or never acknowledged changes nothing [C-7.7]', async () => {
    const { scene, plant, partner, link } = await setScene({ gateway: 'listening' });
    await obeyMode(scene, { mode: 'MAX_EXPORT' }, 'FAILED');
    await partner.submit(
      submission('mode', { mode: 'ZERO_EXPORT', validUntil: formatInstant(START_MS + HOUR) }),
    );
    await stayConnected(plant, link, 2 * MINUTE);
    link.send({ kind: 'subscribed', commands: false });
    expect((await partner.acknowledge(submission('mode', { mode: 'PEAK_SHAVING' }))).status).toBe('QUEUED');
    expect(await readConfig(plant.id)).toMatchObject({ operatingMode: 'STANDARD', modeOverride: null });
  });

  it('a mode that an administrator sets before the acknowledgement is replaced by the acknowledged command [C-7.7]', async () => {
    const { plant, partner, link, site } = await setScene({ gateway: 'listening' });
    await partner.submit(submission('mode', { mode: 'MAX_EXPORT' }));
    const { cmdId } = await nthCommand(link, 1);
    await site.configure(plant.id, { ...LIMITED, operatingMode: 'ZERO_EXPORT' });
    await sendAck(link, plant.gateway, cmdId, 'RECEIVED');
    const config = await readConfig(plant.id);
    expect(config).toMatchObject({ operatingMode: 'MAX_EXPORT', constraints: LIMITED.constraints });
  });

  it('a later acknowledgement of an older mode does not undo a newer mode [C-7.7]', async () => {
    const { scene, plant, link } = await setScene({ gateway: 'listening' });
    await obeyMode(scene, { mode: 'MAX_EXPORT' });
    const { cmdId } = await nthCommand(link, 1);
    await obeyMode(scene, { mode: 'ZERO_EXPORT' });
    await sendAck(link, plant.gateway, cmdId, 'COMPLETED');
    expect((await readConfig(plant.id)).operatingMode).toBe('ZERO_EXPORT');
  });

  it('a mode command that is rejected for its window or its signature changes nothing [C-7.4]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(
      submission('mode', { mode: 'MAX_EXPORT', validUntil: formatInstant(START_MS - MINUTE) }),
      submission('mode', { mode: 'MAX_EXPORT' }, { signature: 'missing' }),
    );
    expect(await readConfig(plant.id)).toMatchObject({ operatingMode: 'STANDARD', modeOverride: null });
  });

  it('the snapshot has the constraints, the fallback and the pending commands [C-2.3]', async () => {
    const { plant, partner } = await setScene({ plant: true });
    await partner.submit(submission('device', batch(batteryCommand(1))));
    const config = await readConfig(plant.id);
    expect(config).toMatchObject({ siteId: plant.id, constraints: LIMITED.constraints, fallback: null });
    expect(config.pendingCommands).toMatchObject([{ commandType: 'DEVICE_COMMAND', target: 'BESS-1' }]);
  });
});
