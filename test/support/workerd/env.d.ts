/** The environment of a test: that of the objects, and the registry's migrations. */
import type { D1Migration } from 'cloudflare:test';
import type { Env } from '../../../durable-objects/env.ts';

declare global {
  namespace Cloudflare {
    interface Env extends TestEnv {}
  }
}

interface TestEnv extends Env {
  TEST_MIGRATIONS: D1Migration[];
}
