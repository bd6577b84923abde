/** What wrangler deploys: the HTTP handler and the two object classes. */
import { app } from './app.ts';

export { Site } from '../durable-objects/site.ts';
export { Vhost } from '../durable-objects/vhost.ts';

export default { fetch: app.fetch };
