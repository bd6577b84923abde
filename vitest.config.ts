import { cloudflareTest, readD1Migrations } from '@cloudflare/vitest-pool-workers';
import { defineConfig } from 'vitest/config';

/**
 * Two projects: `workerd` runs the objects and the Worker inside the real runtime, with the real D1; `node` runs
 * what a Node process runs: protocol, bridge, tools, and the suites that drive a whole stack from outside.
 */
export default defineConfig({
  test: {
    projects: [
      {
        plugins: [
          cloudflareTest(async () => ({
            wrangler: { configPath: './wrangler.toml' },
            miniflare: {
              bindings: {
                BRIDGE_SECRET: 'test-bridge-secret-of-forty-characters-xx',
                DATA_KEYS: `1:${'5a'.repeat(32)}`,
                // The public half of the key pair in test/support/workerd/tokens.ts.
                TOKEN_PUBLIC_KEY: JSON.stringify({
                  kty: 'OKP',
                  crv: 'Ed25519',
                  x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
                }),
                TEST_MIGRATIONS: await readD1Migrations('migrations/sql'),
              },
            },
          })),
        ],
        test: {
          name: 'workerd',
          include: ['test/{durable-objects,worker}/**/*.test.ts'],
          setupFiles: ['test/support/workerd/setup.ts'],
          testTimeout: 30_000,
        },
      },
      {
        test: {
          name: 'node',
          include: ['test/{protocol,bridge,tools,conformance,system}/**/*.test.ts', 'test/*.test.ts'],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
