import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cloudflareTest, readD1Migrations } from '@cloudflare/vitest-pool-workers';
import { configDefaults, defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { TOKEN_PRIVATE_KEY } from './test/support/workerd/tokens.ts';
import { ensureDeviceCa } from './tools/certificates.ts';

/** Rules that take data and a moment: they need no object, so they run in Node, wherever they stand in the tree. */
const PURE = 'test/**/*.pure.test.ts';

/** Suites with a runtime of their own: what watches or changes a whole one, its timers, turns, reads of D1 or modules. */
const APART = 'test/{worker,durable-objects}/**/*.apart.test.ts';

/** Suites with a process of their own: they measure its memory, or change what it trusts. */
const ALONE = ['test/bridge/amqp/content-memory.test.ts', 'test/bridge/edge-tls.test.ts'];

/** What takes longest begins first: at the end it would run alone. */
const LONG = /plan\/model-|tools\/(lifecycle|dev|behaviour)|conformance\/(week|examples|amqp\/)|system\//;

/** Libraries of many files, each of which every runtime would ask for: they are bundled, once for all. */
const BUNDLED = [
  '@peculiar/x509',
  'drizzle-orm',
  'drizzle-orm/batch',
  'drizzle-orm/d1',
  'drizzle-orm/sqlite-core',
  'fast-check',
  'hono',
  'hono/cookie',
  'hono/factory',
  'hono/http-exception',
  'hono/request-id',
  'hono/secure-headers',
  'jose',
  'zod',
];

/** Some hundred processes of Node begin in a run: what one has compiled, the next ones need not. */
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules', '.cache', 'compiled');

/** An authority for device certificates, new for each run. */
async function deviceAuthority() {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-device-ca-'));
  const { certificate, key } = await ensureDeviceCa(folder);
  const pem = {
    DEVICE_CA_CERTIFICATE: readFileSync(certificate, 'utf8'),
    DEVICE_CA_KEY: readFileSync(key, 'utf8'),
  };
  rmSync(folder, { recursive: true });
  return pem;
}

/** The objects and the Worker inside the real runtime, with the real D1. */
function inWorkerd() {
  return cloudflareTest(async () => ({
    wrangler: { configPath: './wrangler.toml' },
    miniflare: {
      bindings: {
        BRIDGE_SECRET: 'test-bridge-secret-of-forty-characters-xx',
        DATA_KEYS: `1:${'5a'.repeat(32)}`,
        SESSION_SECRET: 'test-session-secret-of-forty-characters-xx',
        METRICS_TOKEN: 'test-metrics-token-of-forty-characters-xxxx',
        TOKEN_KEYS: JSON.stringify({ keys: [TOKEN_PRIVATE_KEY] }),
        MQTT_HOST: 'mqtt.example.org',
        ...(await deviceAuthority()),
        TEST_MIGRATIONS: await readD1Migrations('migrations/sql'),
      },
    },
  }));
}

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => LONG.test(moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

/**
 * Projects: `workerd` and `workerd apart` run the objects and the Worker inside the real runtime, with the real D1;
 * `light` and `node` run what a Node process runs: protocol, bridge and the pure rules of the objects; and, each file in a
 * process of its own, tools and the suites that drive a whole stack from outside.
 */
export default defineConfig({
  test: {
    // By default a machine of two cores gets one: many of the suites wait for sockets, not for the processor.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    // How far the model of the plan is walked, and where it begins: `npm run model` takes another walk each time.
    provide: {
      modelSteps: Number(process.env.SITEWIRE_MODEL_STEPS ?? 10_000),
      modelSeed: Number(process.env.SITEWIRE_MODEL_SEED ?? 1),
    },
    projects: [
      {
        plugins: [inWorkerd()],
        test: {
          name: 'workerd',
          deps: { optimizer: { ssr: { enabled: true, include: BUNDLED } } },
          // Files share a runtime and tell their plants and keys apart: one for each would take two seconds more.
          isolate: false,
          include: ['test/{worker,durable-objects}/**/*.test.ts'],
          exclude: [...configDefaults.exclude, PURE, APART],
          setupFiles: ['test/support/workerd/setup.ts'],
          testTimeout: 30_000,
        },
      },
      {
        plugins: [inWorkerd()],
        test: {
          name: 'workerd apart',
          deps: { optimizer: { ssr: { enabled: true, include: BUNDLED } } },
          include: [APART],
          exclude: [...configDefaults.exclude, PURE],
          setupFiles: ['test/support/workerd/setup.ts'],
          testTimeout: 30_000,
        },
      },
      {
        test: {
          name: 'node',
          include: ['test/{tools,conformance,system}/**/*.test.ts', ...ALONE],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'light',
          // Files share a process, which is half of what they cost: each closes what it opens.
          isolate: false,
          include: ['test/{protocol,bridge}/**/*.test.ts', 'test/*.test.ts', PURE],
          exclude: [...configDefaults.exclude, ...ALONE],
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
