/** The product's Worker with Sites that restart at each read of their configuration, as after a failed write. */
import { Site as ProductSite } from '../../../durable-objects/site.ts';
import worker from '../../../worker/index.ts';

export { Metrics } from '../../../durable-objects/metrics.ts';
export { RequestCounter } from '../../../durable-objects/request-counter.ts';
export { Vhost } from '../../../durable-objects/vhost.ts';
export { Watches } from '../../../durable-objects/watches.ts';

export class Site extends ProductSite {
  override async readConfig(): Promise<string> {
    this.ctx.abort('write failed');
    throw new Error('write failed');
  }
}

export default worker;
