/** Before each test file: a registry with all migrations applied. After each test: what was sent was as it is documented. */
import './pool.ts';
import { applyD1Migrations } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { afterEach, expect } from 'vitest';
import { takeMisfits } from './told.ts';

await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);

afterEach(() => expect(takeMisfits()).toEqual([]));
