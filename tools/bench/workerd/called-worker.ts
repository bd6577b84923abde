/** The product's Worker, whose objects a benchmark can also call from inside the runtime. */
import type { Env } from '../../../durable-objects/env.ts';
import worker from '../../../worker/index.ts';
import { CALLS_PATH } from '../object-calls.ts';
import { runCalls } from './calls.ts';

export { Metrics, RequestCounter, Site, Vhost, Watches } from '../../../worker/index.ts';

export default {
  fetch: (request: Request, env: Env, context: ExecutionContext): Response | Promise<Response> => {
    if (new URL(request.url).pathname !== CALLS_PATH) return worker.fetch(request, env, context);
    const { SITE, VHOST } = env as unknown as Record<'SITE' | 'VHOST', DurableObjectNamespace>;
    return runCalls({ SITE, VHOST }, request);
  },
};
