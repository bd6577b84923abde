/**
 * Random pairs of a key and an object of another partner: see `sight-walk.ts` [C-15.1]. 10 000 pairs:
 * `SITEWIRE_SIGHT_PAIRS=10000 SITEWIRE_SIGHT_SEED=7 npm exec vitest -- run test/worker/command-sight-walk.test.ts`.
 */
import { inject } from 'vitest';
import { walkSight } from '#workerd/sight-walk.ts';
import { describe, test as it } from '#workerd/worker-test.ts';

const TIMEOUT_MS = 30_000 + inject('sightPairs') * 100;

describe('a walk over keys and objects of other partners', () => {
  it('finds nothing of another partner in any answer [C-15.1]', { timeout: TIMEOUT_MS }, async () => {
    await walkSight();
  });
});
