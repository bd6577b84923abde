/**
 * Builds the static files that the Worker serves (`[assets]` in wrangler.toml): the API documents, the page that shows the
 * OpenAPI document, and the console. Wrangler's build command, `npm start` and the tests run it. They are files, because
 * generating them in the Worker would need a third more code there.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { asyncApiDocument } from '../worker/asyncapi/document.ts';
import examples from '../worker/openapi/examples.json' with { type: 'json' };
import { consoleFiles } from './console-build.ts';
import { documentRules, FILES } from './documents.ts';

/** The routes have the types of another runtime; only the list matters here. */
const WORKER = new URL('../worker/', import.meta.url);
const { ROUTES } = await import(new URL('app.ts', WORKER).href);
const { openApiDocument } = await import(new URL('openapi/document.ts', WORKER).href);

const ROOT = join(import.meta.dirname, '..');
const PAGE = join(ROOT, 'worker', 'openapi', 'page');
/** Redoc would load its own logo from this address. */
const LOGO = 'https://cdn.redoc.ly/redoc/logo-mini.svg';

export const ASSETS_FOLDER = join(ROOT, 'dist', 'assets');

export function buildApiDocuments(): void {
  write({
    [FILES.openApi]: JSON.stringify(openApiDocument(ROUTES, examples)),
    [FILES.asyncApi]: JSON.stringify(asyncApiDocument()),
  });
}

async function buildAssets(): Promise<void> {
  buildApiDocuments();
  const consoleParts = await consoleFiles();
  write(consoleParts);
  for (const name of readdirSync(ASSETS_FOLDER))
    if (name.startsWith('console') && !(name in consoleParts)) rmSync(join(ASSETS_FOLDER, name));
  write({
    ...documentRules(),
    [FILES.page]: readFileSync(join(PAGE, 'index.html'), 'utf8'),
    [FILES.start]: readFileSync(join(PAGE, 'start.js'), 'utf8'),
    [FILES.viewer]: redoc(),
  });
}

function write(files: Record<string, string>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(ASSETS_FOLDER, name)), { recursive: true });
    // In one step, because another process may read it.
    const temporary = join(ROOT, 'dist', `.${basename(name)}.${process.pid}`);
    writeFileSync(temporary, text);
    renameSync(temporary, join(ASSETS_FOLDER, name));
  }
}

function redoc(): string {
  const file = createRequire(import.meta.url).resolve('redoc/bundles/redoc.standalone.js');
  const text = readFileSync(file, 'utf8');
  if (!text.includes(LOGO)) throw new Error(`Redoc has no ${LOGO}: look which other address it calls now`);
  return text.replaceAll(LOGO, 'data:,').replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n');
}

if (process.argv[1] === import.meta.filename) await buildAssets();
