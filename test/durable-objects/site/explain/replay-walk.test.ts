/** The replay of whole days that today's code records [C-13.4]. */
import { RECORDED_DAYS, recordDay } from '#workerd/recorded-days.ts';
import { expect, it } from '#workerd/site-test.ts';
import { replay } from '../../../../tools/replay/replay.ts';

it.for(RECORDED_DAYS)(
  '%s, recorded now, derives every decision alike [C-13.4]',
  { timeout: 120_000 },
  async (day, { clock: _clock }) => {
    const { differences, judgements, plans, skipped } = replay(await recordDay(day));
    expect(differences).toEqual([]);
    expect(skipped).toBe(0);
    expect(Math.min(judgements, plans)).toBeGreaterThan(4);
  },
);
