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
