import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cloudflareTest, readD1Migrations } from '@cloudflare/vitest-pool-workers';
import { configDefaults, defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { memoryFolder } from './test/support/memory-folder.ts';
import { StallReporter } from './test/support/stall-reporter.ts';
import { TOKEN_PRIVATE_KEY } from './test/support/workerd/tokens.ts';
import { ensureDeviceCa } from './tools/certificates.ts';

/** Tests of pure rules: they need no object, so they run in Node, wherever they are in the tree. */
const PURE = 'test/**/*.pure.test.ts';

/** Suites with a workerd runtime of their own: they watch or change its timers, turns, D1 reads or modules. */
const APART = 'test/{worker,durable-objects}/**/*.apart.test.ts';

/** Suites with a process of their own: they measure its memory or change which authorities it trusts. */
const ALONE = ['test/bridge/amqp/content-memory.test.ts', 'test/bridge/edge-tls.test.ts'];

/**
 * Long walks: minutes together, and seldom broken by a change elsewhere. `npm run test:long` runs only these, `npm test`
 * neither these nor comparisons of times nor the console; CI runs all but the comparisons. `npm test` should take at most
 * five minutes on two quiet cores. `SITEWIRE_TESTS=all` runs both, for example one long suite by its name.
 */
const LONG = [
  'test/durable-objects/site/plan/model-*.test.ts',
  'test/durable-objects/site/explain/{dry-run-walk,replay-walk,rows-read}.test.ts',
  'test/durable-objects/site/telemetry/store-{bounds,cost,model}.test.ts',
  'test/durable-objects/site/{retention,event/outbox,plan/verdict,device/move-parts}.test.ts',
  'test/worker/{address-rate,body-credential,command-sight,command-sight-walk,foreign-as-absent,mail-shares,security-matrix}.test.ts',
  'test/worker/auth/{hash-turn-fair,password}.apart.test.ts',
  'test/worker/routes/{accounts,auth-browser,auth-change-password,auth-lock,auth-login,auth-register,backups,both-ways-walk,email-changes-refused,operator-release,plant-stream-ends}.test.ts',
  'test/durable-objects/site/schedule/bounds.test.ts',
  'test/durable-objects/vhost/queue/{limits,partner-queue-limits,telemetry-limits}.test.ts',
  'test/tools/{lifecycle,dev,edge-restart,behaviour,behaviour-schedules,show-help}.test.ts',
  'test/conformance/{amqp-tools,docs-programs,python-clients,week,examples,clients,reference-devices,rest-calls}.test.ts',
  'test/conformance/amqp/*.test.ts',
  'test/system/{agenda,api-key-ends,api-keys,backlog,backup,body,check,closing,code-samples,configuration-check,d1-restored,d1-rewound,data-keys,disk,docs-page,documents,door,encoding,epoch,first-tenant,flood,hostile-receivers,kill-*,lanes,leases,logins,mail,mtls,restart,slow,snippets,streams,takeovers,trouble,wake,webhooks}.test.ts',
];
/** Suites that compare times, so nothing else may run beside them: `SITEWIRE_TESTS=timed npm test`. */
const TIMED = ['test/system/{account-timing,hostile-account}.test.ts'];
const TESTS = process.env.SITEWIRE_TESTS ?? 'short';
const EXCLUDED = [
  ...configDefaults.exclude,
  ...(TESTS === 'short' ? LONG : []),
  ...(TESTS === 'timed' ? [] : TIMED),
];

/** The suites of a project in this run. `folders`: where its long suites are. */
function suites(globs: string[], ...folders: string[]): string[] {
  if (TESTS !== 'long' && TESTS !== 'timed') return globs;
  const long = (TESTS === 'long' ? LONG : TIMED).filter((glob) =>
    folders.some((folder) => glob.startsWith(`test/${folder}/`)),
  );
  return long.length > 0 ? long : ['test/no-long-suites'];
}

/** The slowest suites start first; at the end they would run with no other suite beside them. */
const SLOW =
  /plan\/model-|tools\/(lifecycle|dev|edge-restart|behaviour)|conformance\/(week|examples|amqp\/)|system\//;

/** Libraries of many files, bundled once; otherwise each runtime would load every file. */
const BUNDLED = [
  '@peculiar/x509',
  'drizzle-orm',
  'drizzle-orm/batch',
  'drizzle-orm/d1',
  'drizzle-orm/sqlite-core',
  'fast-check',
  'hono',
  'hono/cookie',
  'hono/etag',
  'hono/factory',
  'hono/http-exception',
  'hono/request-id',
  'hono/secure-headers',
  'jose',
  'zod',
];

/** A run starts about a hundred Node processes; they share compiled code through this cache. */
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules', '.cache', 'compiled');

// The Worker serves these files.
execFileSync(process.execPath, [join(import.meta.dirname, 'tools', 'assets.ts')], { stdio: 'inherit' });

/**
 * The runtimes of the workerd projects are children of this process. The suites of `node`, which kill processes,
 * use the disk.
 */
const DISK = tmpdir();
process.env.TMPDIR = memoryFolder() ?? DISK;

/** Creates an authority for device certificates, new for each run. */
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

/** Configures workerd with the real D1 for the objects and the Worker. */
function inWorkerd() {
  return cloudflareTest(async () => ({
    // wrangler.toml names the built modules, but tests replace parts of the sources.
    main: './worker/index.ts',
    wrangler: { configPath: './wrangler.toml' },
    miniflare: {
      bindings: {
        BRIDGE_SECRET: 'test-bridge-secret-of-forty-characters-xx',
        DATA_KEYS: `2:${'3c'.repeat(32)},1:${'5a'.repeat(32)}`,
        SESSION_SECRET: 'test-session-secret-of-forty-characters-xx',
        METRICS_TOKEN: 'test-metrics-token-of-forty-characters-xxxx',
        OPERATOR_TOKEN: 'test-operator-token-of-forty-characters-xx',
        REGISTRATION: 'open',
        TOKEN_KEYS: JSON.stringify({ keys: [TOKEN_PRIVATE_KEY] }),
        MQTT_HOST: 'mqtt.example.org',
        ...(await deviceAuthority()),
        TEST_MIGRATIONS: await readD1Migrations('registry/sql'),
      },
    },
  }));
}

/**
 * The console of tests in workerd writes straight to the runtime's output. Otherwise Vitest waits for ever for a line
 * that an object writes while the last file of its runtime ends: the pool sends such a line only with its next message,
 * and none follows (cloudflare/workers-sdk issue 15719).
 */
const PLAIN_CONSOLE = { disableConsoleIntercept: true };

const ONE_CONNECTION_EACH = ['test/support/one-connection-each.ts'];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => SLOW.test(moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

/**
 * Projects: `workerd` and `workerd apart` run the objects and the Worker inside workerd, with the real D1.
 * `light` runs protocol, bridge and the pure rules of the objects in Node. `node` runs the tools and the
 * suites that drive a whole stack from outside, each file in a process of its own.
 */
export default defineConfig({
  test: {
    // By default a machine with two cores gets one worker, but many suites wait for sockets, not for the processor.
    maxWorkers: TESTS === 'timed' ? 1 : 4,
    sequence: { sequencer: LongestFirst },
    reporters: ['default', new StallReporter()],
    // Steps and seed of the plan's model test; `npm run sitewire -- model` sets both and uses another seed each time.
    provide: {
      modelSteps: Number(process.env.SITEWIRE_MODEL_STEPS ?? 10_000),
      modelSeed: Number(process.env.SITEWIRE_MODEL_SEED ?? 1),
      // Pairs and seed of the walk over what one partner sees of another; 10 000 pairs take a few minutes.
      sightPairs: Number(process.env.SITEWIRE_SIGHT_PAIRS ?? 2_000),
      sightSeed: Number(process.env.SITEWIRE_SIGHT_SEED ?? 1),
    },
    projects: [
      {
        plugins: [inWorkerd()],
        test: {
          name: 'workerd',
          ...PLAIN_CONSOLE,
          deps: { optimizer: { ssr: { enabled: true, include: BUNDLED } } },
          // Files share a runtime and use different plants and keys: a runtime per file would take two
          // seconds more each.
          isolate: false,
          include: suites(['test/{worker,durable-objects}/**/*.test.ts'], 'worker', 'durable-objects'),
          exclude: [...EXCLUDED, PURE, APART],
          setupFiles: ['test/support/workerd/setup.ts'],
          testTimeout: 30_000,
        },
      },
      {
        plugins: [inWorkerd()],
        test: {
          name: 'workerd apart',
          ...PLAIN_CONSOLE,
          deps: { optimizer: { ssr: { enabled: true, include: BUNDLED } } },
          include: TESTS === 'long' ? LONG.filter((glob) => glob.includes('.apart.')) : suites([APART]),
          exclude: [...EXCLUDED, PURE],
          setupFiles: ['test/support/workerd/setup.ts'],
          testTimeout: 30_000,
        },
      },
      {
        test: {
          name: 'node',
          env: { TMPDIR: DISK },
          include: suites(
            ['test/{tools,conformance,system}/**/*.test.ts', ...ALONE],
            'tools',
            'conformance',
            'system',
          ),
          exclude: EXCLUDED,
          setupFiles: ONE_CONNECTION_EACH,
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
      // The console in a browser: only `npm run test:console` runs them.
      ...(TESTS === 'console'
        ? [
            {
              test: {
                name: 'console',
                env: { TMPDIR: DISK },
                include: ['test/console/**/*.test.ts'],
                exclude: [...EXCLUDED, PURE],
                setupFiles: ONE_CONNECTION_EACH,
                testTimeout: 60_000,
                hookTimeout: 90_000,
              },
            },
          ]
        : []),
      {
        test: {
          name: 'light',
          // Files share a process, which halves their time: each file must close what it opens.
          isolate: false,
          include: suites(['test/{protocol,bridge}/**/*.test.ts', 'test/*.test.ts', PURE]),
          exclude: [...EXCLUDED, ...ALONE],
          setupFiles: ONE_CONNECTION_EACH,
          testTimeout: 30_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
