/** Applies all migrations before each file. After each test, checks sent messages and resets mocks and clock. */
import './pool.ts';
import { applyD1Migrations } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, expect, vi } from 'vitest';
import { takeMisfits } from './schema-check.ts';

await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);

afterEach(() => expect(takeMisfits()).toEqual([]));

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});
