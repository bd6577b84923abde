/** The configuration snapshot of a site: the mode in force, until when, and what stands beside it. */
import { describe, expect, it } from 'vitest';
import { formatInstant } from '../../../../protocol/ids.ts';
import { HOUR, holdClock, MINUTE, START_MS, setClock } from '../../../support/workerd/site-clock.ts';
import { newestCommand, readConfig } from '../../../support/workerd/site-reads.ts';
import { evictSite } from '../../../support/workerd/site-rows.ts';
import { newSite } from '../../../support/workerd/site-scenes.ts';
import { batch, batteryCommand, submission } from '../../../support/workerd/site-submissions.ts';
import { LIMITED, siteOf } from '../../../support/workerd/world.ts';

holdClock();

describe('the mode of a site', () => {
  it('without validUntil sets operatingMode and clears the override [C-7.7]', async () => {
    const { plant, partner } = await newSite();
    const validUntil = formatInstant(START_MS + HOUR);
    await partner.submit(submission('mode', { mode: 'ZERO_EXPORT', validUntil }));
    await partner.submit(submission('mode', { mode: 'PEAK_SHAVING' }));
    await evictSite(plant.id);
    expect(await readConfig(plant.id)).toMatchObject({ operatingMode: 'PEAK_SHAVING', modeOverride: null });
  });

  it('with validUntil is the override, above operatingMode, until that moment [C-2.3]', async () => {
    const { plant, partner } = await newSite();
    const validUntil = formatInstant(START_MS + HOUR);
    const one = submission('mode', { mode: 'MAX_EXPORT', validUntil, reason: 'price' });
    await partner.submit(one);
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
