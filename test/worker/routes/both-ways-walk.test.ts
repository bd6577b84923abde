/** Random commands over AMQP and over HTTPS, many of them: see `both-ways.ts` [C-13.5]. */
import { walkBothWays } from '#workerd/both-ways.ts';
import { it } from '#workerd/worker-test.ts';

it.for(Array.from({ length: 10 }, (_, seed) => seed + 1))(
  'have equal acknowledgements, log rows and events, for 500 commands, seed %d [C-13.5]',
  { timeout: 120_000 },
  async (seed) => {
    await walkBothWays(seed, 500);
  },
);
