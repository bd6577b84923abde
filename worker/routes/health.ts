/** Health check for external monitoring. It reads no storage: a 200 shows only that the Worker runs. */
import { z } from 'zod';
import { noParameters } from '../http/query.ts';
import { route } from '../route.ts';

export const readHealth = route({
  method: 'GET',
  path: '/healthz',
  summary: 'Check the health of the edge',
  who: { door: 'public' },
  params: noParameters,
  query: noParameters,
  answer: {
    status: 200,
    description: 'The edge is healthy',
    body: z.strictObject({ status: z.literal('ok') }),
  },
  errors: [],
  handler: () => ({ status: 'ok' as const }),
});
