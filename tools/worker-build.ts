/**
 * Bundles the Worker into modules. The first one, `index.mjs`, holds what every isolate needs; each library that the
 * code imports with `import()` gets a module of its own, which the runtime evaluates only when it is used. Wrangler
 * puts everything into one file, so its build command runs this file instead, and `npm start` and the tests use the
 * same function.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { build, type Plugin } from 'esbuild';

const ROOT = join(import.meta.dirname, '..');
/** `main` in wrangler.toml is in this folder. */
const FOLDER = join(ROOT, 'dist', 'worker');

export const WORKER_ENTRY = join(ROOT, 'worker', 'index.ts');

export interface WorkerModule {
  /** The first module of a Worker is its entry, `index.mjs`. */
  name: string;
  text: string;
}

/**
 * Makes CommonJS packages that require Node's modules work: an ES module bundle has no `require`, but the
 * runtime has the modules.
 */
const BUILTINS: Plugin = {
  name: 'builtins',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:/ }, ({ kind, path }) =>
      kind === 'require-call' ? { path, namespace: 'builtin' } : { path, external: true },
    );
    onLoad({ filter: /./, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule('${path}');`,
      loader: 'js',
    }));
  },
};

/** As deployed, but readable, so that stack traces name functions. */
export async function readableModules(entry: string): Promise<WorkerModule[]> {
  return await modulesOf(entry, { minify: false, sourcemap: false });
}

/** As deployed: minified, without source maps. */
export async function deployedModules(entry = WORKER_ENTRY): Promise<WorkerModule[]> {
  return await modulesOf(entry, { minify: true, sourcemap: false });
}

async function modulesOf(
  entry: string,
  options: { minify: boolean; sourcemap: 'linked' | false },
): Promise<WorkerModule[]> {
  const { outputFiles } = await build({
    ...options,
    entryPoints: { index: entry },
    outdir: FOLDER,
    outExtension: { '.js': '.mjs' },
    write: false,
    bundle: true,
    splitting: true,
    format: 'esm',
    target: 'es2024',
    platform: 'neutral',
    mainFields: ['module', 'main'],
    conditions: ['workerd', 'worker', 'import'],
    external: ['cloudflare:*'],
    plugins: [BUILTINS],
    logLevel: 'error',
  });
  const files = outputFiles.map(({ path, text }) => ({ name: basename(path), text }));
  const isEntry = ({ name }: WorkerModule) => name === 'index.mjs';
  return [...files.filter(isEntry), ...files.filter((file) => !isEntry(file))];
}

/** Writes what wrangler uploads, and source maps from which the platform names functions in stack traces. */
async function writeWorker(): Promise<void> {
  const files = await modulesOf(WORKER_ENTRY, { minify: true, sourcemap: 'linked' });
  // Wrangler uploads every module of the folder, so modules of an earlier build must go.
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  for (const { name, text } of files) writeFileSync(join(FOLDER, name), text);
}

if (import.meta.main) await writeWorker();
