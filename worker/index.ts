/** What wrangler deploys: the HTTP handler and the object classes. */
import { app } from './app.ts';
import type { Env } from './env.ts';
import { keepHouse } from './lifecycle/housekeeping.ts';

export { Figures } from '../durable-objects/figures.ts';
export { RequestCounter } from '../durable-objects/request-counter.ts';
export { Site } from '../durable-objects/site.ts';
export { Vhost } from '../durable-objects/vhost.ts';

export default {
  fetch: app.fetch,
  /** Each minute: what was left under way, and what is over. */
  scheduled: (_event: unknown, env: Env) => keepHouse(env, Date.now()),
};
