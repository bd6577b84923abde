/** `GET /api/v1/asyncapi.json`: AMQP and MQTT as data, beside what openapi.json says of REST. */
import { z } from 'zod';
import { type AnyRoute, route } from '../route.ts';

export const readAsyncApi: AnyRoute = route({
  method: 'GET',
  path: '/api/v1/asyncapi.json',
  summary: 'AMQP and MQTT: channels, messages, schemas and signed examples',
  who: { door: 'public' },
  params: z.object({}),
  query: z.object({}),
  answer: { status: 200, description: 'AsyncAPI 3.0', body: z.record(z.string(), z.unknown()) },
  errors: [],
  // Loaded when it is asked for: a start need not wait for its schemas and signatures.
  handler: async () => (await import('./document.ts')).asyncApiDocument(),
});
