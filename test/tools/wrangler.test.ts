/** wrangler.toml: what a deployment costs, where it can be reached, and what its runtime is given. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import { describe, expect, it } from 'vitest';
import { unstable_readConfig } from 'wrangler';

const ROOT = join(import.meta.dirname, '..', '..');
const FILE = join(ROOT, 'wrangler.toml');
/** Production is the top level of the file. */
const ENVIRONMENTS = [undefined, 'staging'];

/** The configuration as wrangler deploys it: with what an environment inherits, and without what it does not. */
function configOf(env: string | undefined): Config {
  return unstable_readConfig({ config: FILE, env }, { hideWarnings: true }) as Config;
}

/** The part of it that this suite reads. */
interface Config {
  observability: unknown;
  workers_dev?: boolean;
  preview_urls?: boolean;
  exports: unknown;
  migrations: unknown[];
  durable_objects: { bindings: { class_name?: string }[] };
  compatibility_date?: string;
  compatibility_flags: string[];
}

/** The compatibility flags that a Worker has which names only the compatibility date. */
async function flagsByDate(date: string): Promise<Record<string, boolean>> {
  const { convertV4MiniflareOptions } = await import('miniflare');
  const script = 'export default { fetch: () => Response.json(Cloudflare.compatibilityFlags) }';
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({ modules: true, script, compatibilityDate: date }),
  );
  try {
    return (await (await miniflare.dispatchFetch('http://edge/')).json()) as Record<string, boolean>;
  } finally {
    await miniflare.dispose();
  }
}

describe.each(ENVIRONMENTS)('wrangler.toml, environment %s', (env) => {
  it('logs what the code logs, and writes no line of its own for each message of a WebSocket', () => {
    expect(configOf(env).observability).toEqual({
      enabled: true,
      logs: { enabled: true, invocation_logs: false, head_sampling_rate: 1 },
    });
  });

  it('is reachable only by its own domain: not by workers.dev, and not by a URL for each version', () => {
    const { workers_dev, preview_urls } = configOf(env);
    expect({ workers_dev, preview_urls }).toEqual({ workers_dev: false, preview_urls: false });
  });

  it('declares each class of objects with its storage, and has no list of migrations', () => {
    const { exports: declared, migrations, durable_objects } = configOf(env);
    const bound = durable_objects.bindings.map(({ class_name }) => class_name ?? '');
    expect(declared).toEqual(
      Object.fromEntries(bound.map((name) => [name, { type: 'durable-object', storage: 'sqlite' }])),
    );
    expect(migrations).toEqual([]);
    const entry = readFileSync(join(ROOT, 'worker', 'index.ts'), 'utf8');
    expect(bound.filter((name) => !new RegExp(`export \\{[^}]*\\b${name}\\b`).test(entry))).toEqual([]);
  });

  it('names exactly the flags that its compatibility date does not set', async () => {
    const { compatibility_date = '', compatibility_flags } = configOf(env);
    const byDate = await flagsByDate(compatibility_date);
    expect(compatibility_flags.filter((flag) => byDate[flag] !== false)).toEqual([]);
    expect(compatibility_flags).toEqual([
      'nodejs_compat',
      'enable_request_signal',
      'global_fetch_strictly_public',
    ]);
  });
});
