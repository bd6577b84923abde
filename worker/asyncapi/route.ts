/** `GET /api/v1/asyncapi.json`: describes AMQP and MQTT, as openapi.json describes REST. */
import { z } from 'zod';
import { type AnyRoute, route } from '../route.ts';

export const readAsyncApi: AnyRoute = route({
  method: 'GET',
  path: '/api/v1/asyncapi.json',
  summary: 'Get the AsyncAPI document of AMQP and MQTT, with schemas and signed examples',
  who: { door: 'public' },
  params: z.object({}),
  query: z.object({}),
  answer: { status: 200, description: 'The AsyncAPI 3.0 document', body: z.record(z.string(), z.unknown()) },
  errors: [],
  // Imported on the first request, so that the Worker does not build schemas and signatures at its start.
  handler: async () => (await import('./document.ts')).asyncApiDocument(),
});
