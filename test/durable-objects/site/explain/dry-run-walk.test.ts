/** A dry run and the publish of the same bytes are answered alike: see `dry-run-walk.ts` [C-13.1]. */
import { walkDryRun } from '#workerd/dry-run-walk.ts';
import { it } from '#workerd/site-test.ts';

it.for(Array.from({ length: 10 }, (_, seed) => seed + 1))(
  'for 500 random commands in random states, seed %d [C-13.1]',
  async (seed, { clock: _clock }) => {
    await walkDryRun(seed, 500);
  },
);
