/** The Workers of a local edge, as Miniflare takes them: the product, its static files, and the API documents. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DOCUMENT_PATHS, DOCUMENT_SETTINGS } from './reference/documents.ts';
import type { WorkerModule } from './worker-build.ts';

const ROOT = join(import.meta.dirname, '..');

/** Modules as Miniflare takes them. */
export function moduleOptions(modules: readonly WorkerModule[]) {
  return modules.map(({ name, text }) => ({ type: 'ESModule' as const, path: name, contents: text }));
}

/** The compatibility date of the deployed Worker. */
export function compatibilityDate(): string {
  return /compatibility_date = "([^"]+)"/.exec(wranglerToml())?.[1] ?? '';
}

function compatibilityFlags(): string[] {
  const list = /compatibility_flags = (\[.+\])/.exec(wranglerToml())?.[1] ?? '[]';
  return JSON.parse(list) as string[];
}

function wranglerToml(): string {
  return readFileSync(join(ROOT, 'wrangler.toml'), 'utf8');
}

/** The Worker for Miniflare, with what wrangler.toml says about its runtime. */
export function workerOptions(modules: readonly WorkerModule[]) {
  return {
    modules: moduleOptions(modules),
    compatibilityDate: compatibilityDate(),
    compatibilityFlags: compatibilityFlags(),
    durableObjects: {
      SITE: { className: 'Site', useSQLite: true },
      VHOST: { className: 'Vhost', useSQLite: true },
      REQUESTS: { className: 'RequestCounter', useSQLite: true },
      METRICS: { className: 'Metrics', useSQLite: true },
      WATCHES: { className: 'Watches', useSQLite: true },
    },
    d1Databases: { DB: 'sitewire' },
  };
}

/**
 * The static files in a Worker of their own: in front of the product's Worker, Miniflare's router for them would take
 * half of its requests a second.
 */
export function assetsWorker() {
  return {
    name: 'assets',
    compatibilityDate: compatibilityDate(),
    modules: [{ type: 'ESModule' as const, path: 'assets.js', contents: 'export default {}' }],
    assets: {
      directory: join(ROOT, 'dist', 'assets'),
      routerConfig: { has_user_worker: false },
      assetConfig: {
        html_handling: 'none' as const,
        not_found_handling: 'none' as const,
        ...DOCUMENT_SETTINGS,
      },
    },
  };
}

/** Answers a request in Node. */
export type Answer = (request: { method: string; text(): Promise<string> }) => Promise<Response>;

/** Answers the paths of the documents without the product's Worker. */
export function documentsWorker(allowedHosts: string | undefined) {
  return workerBeside('documents', DOCUMENT_PATHS, 'assets', allowedHosts);
}

/** Answers the console about the simulated plant, which only a development stack has. */
export function simulatorWorker(answer: Answer, allowedHosts: string | undefined) {
  return workerBeside('simulator', ['/dev/simulator'], answer, allowedHosts);
}

/** A Worker that answers these paths beside the product, except for hosts that the product must refuse. */
function workerBeside(name: string, paths: string[], answer: string | Answer, allowedHosts?: string) {
  return {
    name,
    compatibilityDate: compatibilityDate(),
    routes: paths.map((path) => `*${path}`),
    bindings: { HOSTS: allowedHosts?.split(',') ?? null },
    // The product has no name, because the ids of its objects and the folders of its data have that name in them.
    serviceBindings: { ANSWER: answer, PRODUCT: '' },
    modules: [{ type: 'ESModule' as const, path: `${name}.js`, contents: BESIDE_SCRIPT }],
  };
}

const BESIDE_SCRIPT = `export default {
  fetch(request, { ANSWER, HOSTS, PRODUCT }) {
    const isAllowed = HOSTS === null || HOSTS.includes(new URL(request.url).hostname);
    return (isAllowed ? ANSWER : PRODUCT).fetch(request);
  },
};`;

/**
 * Where webhooks may be sent: as on Cloudflare only to public addresses, whatever a name resolves to, unless the stack
 * allows this machine.
 */
export function webhookEgress(mayBePrivate: boolean) {
  const allow = mayBePrivate ? ['public', 'private'] : ['public'];
  return { network: { allow, tlsOptions: { trustBrowserCas: true } } };
}
