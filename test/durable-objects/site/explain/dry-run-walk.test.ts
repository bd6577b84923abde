/** A dry run and the publish of the same bytes are answered alike, and dry runs leave nothing behind: see `dry-run-walk.ts` [C-13.1]. */
import { ask, askOne, walkDryRun } from '#workerd/dry-run-walk.ts';
import { alarmAt, HOUR, MINUTE, passTime } from '#workerd/site-clock.ts';
import { commandsOf } from '#workerd/site-devices.ts';
import { obey, planned } from '#workerd/site-plan.ts';
import { rowsOf } from '#workerd/site-rows.ts';
import { batch, batteryCommand, charge, powerSetpoint, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import type { Plant } from '#workerd/world.ts';
import { formatInstant } from '../../../../protocol/ids.ts';

/** Everything that a site stores, except the readings' own places. */
async function stored({ id }: Plant): Promise<unknown> {
  const tables = await rowsOf<{ name: string }>(
    id,
    `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\' ORDER BY name`,
  );
  const all = await Promise.all(
    tables.map(async ({ name }) => [name, await rowsOf(id, `SELECT * FROM ${name}`)]),
  );
  return Object.fromEntries(all);
}

it.for(Array.from({ length: 10 }, (_, seed) => seed + 1))(
  'for 500 random commands in random states, seed %d [C-13.1]',
  async (seed, { clock: _clock }) => {
    await walkDryRun(seed, 500);
  },
);

describe('after 10 000 dry runs', () => {
  it('the site has the same rows, alarm and sequence, and its gateway and partner got nothing [C-13.1]', async ({
    plannedSite: { plant, partner, link, listener },
  }) => {
    await partner.submit(planned(20, 'HIGH', { forMs: HOUR }));
    await obey({ plant, link }, 1);
    await partner.submit(submission('device', batch(batteryCommand(30))));
    await passTime(plant.id, 10 * MINUTE);
    const inbox = commandsOf(link).length;
    const events = listener.link.received.length;
    const state = async () => [await stored(plant), await alarmAt(plant.id)];
    const before = await state();
    const { asOf } = await askOne(partner, planned(1, 'NORMAL'));
    const all = [
      ...[planned(30, 'HIGH'), planned(101, 'HIGH'), planned(30, 'NORMAL'), charge(5), charge(51)],
      ...[submission('emergency', { type: 'STOP' }), submission('mode', { mode: 'PEAK_SHAVING' })],
      submission('config', { constraints: { maxImportKw: 10 } }),
      submission('site-setpoint', powerSetpoint(30, { priority: 'EMERGENCY' })),
      submission('schedule', {
        startTime: formatInstant(Date.now()),
        slots: [{ slotIndex: 0, mode: 'STANDARD' }],
      }),
    ];
    for (let round = 0; round < 500; round++) await ask(partner, ...all, ...all);
    const after = await askOne(partner, planned(1, 'NORMAL'));
    expect(after.asOf).toEqual(asOf);
    expect(await state()).toEqual(before);
    expect(commandsOf(link)).toHaveLength(inbox);
    expect(listener.link.received).toHaveLength(events);
    // The site works on as if nothing had been asked.
    await partner.submit(submission('device', batch(batteryCommand(30))));
    expect(await partner.acknowledge(planned(30, 'HIGH'))).toMatchObject({ status: 'ACCEPTED' });
  });
});
