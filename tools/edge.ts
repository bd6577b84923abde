/** The edge on one machine: the real bundle under workerd, with D1 and objects kept in a folder. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';

const ROOT = join(import.meta.dirname, '..');

export interface EdgeSecrets {
  bridgeSecret: string;
  dataKeys: string;
  /** Ed25519 public key, JWK text. */
  tokenPublicKey: string;
}

export interface EdgeOptions {
  /** Where D1 and the objects keep their data; undefined: in memory. */
  dataFolder: string | undefined;
  port: number;
  secrets: EdgeSecrets;
  /** Another entry than the product's own: tests wrap it. */
  entry?: string;
  /** More bindings for such an entry. */
  bindings?: Record<string, string>;
  /** Starts workerd's inspector: `miniflare.getInspectorURL()`. */
  inspector?: boolean;
}

export interface Edge {
  url: string;
  miniflare: Miniflare;
  /** The workerd process now; it is another one after a crash. */
  pid(): number | undefined;
  stop(): Promise<void>;
}

export async function bundle(entry: string): Promise<string> {
  const result = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2024',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    conditions: ['workerd', 'worker', 'import'],
    external: ['cloudflare:*', 'node:*'],
    logLevel: 'error',
  });
  return result.outputFiles[0]?.text ?? '';
}

export async function startEdge(options: EdgeOptions): Promise<Edge> {
  const script = await bundle(options.entry ?? join(ROOT, 'worker', 'index.ts'));
  const wrangler = readFileSync(join(ROOT, 'wrangler.toml'), 'utf8');
  const compatibilityDate = /compatibility_date = "([^"]+)"/.exec(wrangler)?.[1] ?? '';
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: options.port,
      modules: [{ type: 'ESModule', path: 'index.js', contents: script }],
      compatibilityDate,
      compatibilityFlags: ['nodejs_compat'],
      durableObjects: {
        SITE: { className: 'Site', useSQLite: true },
        VHOST: { className: 'Vhost', useSQLite: true },
      },
      d1Databases: { DB: 'sitewire' },
      bindings: {
        BRIDGE_SECRET: options.secrets.bridgeSecret,
        DATA_KEYS: options.secrets.dataKeys,
        TOKEN_PUBLIC_KEY: options.secrets.tokenPublicKey,
        ...options.bindings,
      },
      ...(options.dataFolder ? { resourcePersistencePath: options.dataFolder } : {}),
      ...(options.inspector ? { inspectorPort: 0 } : {}),
    }),
  );
  const url = String(await miniflare.ready).replace(/\/$/, '');
  await migrateD1(miniflare);
  return { url, miniflare, pid: () => workerdPid(), stop: () => miniflare.dispose() };
}

/** Applies what is new of migrations/sql, each file once, as `wrangler d1 migrations apply` does. */
async function migrateD1(miniflare: Miniflare): Promise<void> {
  const database = await miniflare.getD1Database('DB');
  await database.exec(
    'CREATE TABLE IF NOT EXISTS d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE)',
  );
  const { results } = await database.prepare('SELECT name FROM d1_migrations').all<{ name: string }>();
  const applied = new Set(results.map((row) => row.name));
  const folder = join(ROOT, 'migrations', 'sql');
  const files = readdirSync(folder).filter((name) => name.endsWith('.sql'));
  for (const name of files.sort()) {
    if (applied.has(name)) continue;
    const statements = readFileSync(join(folder, name), 'utf8').split('--> statement-breakpoint');
    await database.batch([
      ...statements.map((statement) => database.prepare(statement)),
      database.prepare('INSERT INTO d1_migrations (name) VALUES (?)').bind(name),
    ]);
  }
}

/** The workerd child of this process. */
function workerdPid(): number | undefined {
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const status = readFileSync(`/proc/${entry}/stat`, 'utf8');
      const [name, parent] = [/\((.*)\)/.exec(status)?.[1], Number(status.split(') ')[1]?.split(' ')[1])];
      if (name === 'workerd' && parent === process.pid && !status.includes(') Z ')) return Number(entry);
    } catch {
      // The process ended while we looked.
    }
  }
  return undefined;
}
