/** The environment of a test: that of the objects, and the registry's migrations. */
import type { D1Migration } from 'cloudflare:test';
import type { Env } from '../../../durable-objects/env.ts';
import type { Metrics } from '../../../durable-objects/metrics.ts';
import type { Site } from '../../../durable-objects/site.ts';
import type { Vhost } from '../../../durable-objects/vhost.ts';

declare global {
  namespace Cloudflare {
    interface Env extends TestEnv {}
  }
}

/** Tests access the objects directly, so their namespaces have the types of the classes, not those of their RPC. */
interface TestEnv extends Omit<Env, 'SITE' | 'VHOST' | 'METRICS'> {
  SITE: DurableObjectNamespace<Site>;
  VHOST: DurableObjectNamespace<Vhost>;
  METRICS: DurableObjectNamespace<Metrics>;
  TEST_MIGRATIONS: D1Migration[];
}
