/** Random commands over AMQP and over HTTPS: see `both-ways.ts` [C-13.5]. */
import { walkBothWays } from '#workerd/both-ways.ts';
import { it } from '#workerd/worker-test.ts';

it('have equal acknowledgements, log rows and events, for 200 commands [C-13.5]', async () => {
  await walkBothWays(0, 200);
});
