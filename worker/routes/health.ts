/** Whether the edge answers, for whoever watches it. */
import { z } from 'zod';
import { noParameters } from '../http/query.ts';
import { route } from '../route.ts';

export const readHealth = route({
  method: 'GET',
  path: '/healthz',
  summary: 'Whether the edge answers',
  who: { door: 'public' },
  params: noParameters,
  query: noParameters,
  answer: { status: 200, description: 'It does', body: z.strictObject({ status: z.literal('ok') }) },
  errors: [],
  handler: () => ({ status: 'ok' as const }),
});
