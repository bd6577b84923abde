/** The entry point that wrangler deploys: HTTP handler, scheduled handler and Durable Object classes. */
import { app } from './app.ts';
import type { Env } from './env.ts';
import { keepHouse } from './lifecycle/housekeeping.ts';

export { Metrics } from '../durable-objects/metrics.ts';
export { RequestCounter } from '../durable-objects/request-counter.ts';
export { Site } from '../durable-objects/site.ts';
export { Vhost } from '../durable-objects/vhost.ts';
export { Watches } from '../durable-objects/watches.ts';

export default {
  fetch: app.fetch,
  /** Runs every minute; lifecycle/housekeeping.ts lists what it does. */
  scheduled: (_event: unknown, env: Env) => keepHouse(env, Date.now()),
};
