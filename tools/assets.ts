/**
 * Builds the static files that the Worker serves (`[assets]` in wrangler.toml): the API documents, the page that shows the
 * OpenAPI document, the pages below /docs, and the console. Wrangler's build command, `npm start` and the tests run it.
 * They are files, because generating them in the Worker would need a third more code there.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { consoleFiles } from './console-build.ts';
import { asyncApiDocument } from './reference/asyncapi/document.ts';
import { documentationPages } from './reference/documentation-pages.ts';
import { documentRules, FILES } from './reference/documents.ts';
import examples from './reference/openapi/examples.json' with { type: 'json' };

/** The routes have the types of another runtime; only the list matters here. */
const WORKER = new URL('../worker/', import.meta.url);
const { ROUTES } = await import(new URL('app.ts', WORKER).href);
const { openApiDocument } = await import(new URL('reference/openapi/document.ts', import.meta.url).href);

const ROOT = join(import.meta.dirname, '..');
const PAGE = join(import.meta.dirname, 'reference', 'openapi', 'page');

export const ASSETS_FOLDER = join(ROOT, 'dist', 'assets');

function apiDocuments(): Record<string, string> {
  return {
    [FILES.openApi]: JSON.stringify(openApiDocument(ROUTES, examples)),
    [FILES.asyncApi]: JSON.stringify(asyncApiDocument()),
  };
}

export function buildApiDocuments(): void {
  write(apiDocuments());
}

export async function buildAssets(): Promise<void> {
  const files = {
    ...apiDocuments(),
    ...(await consoleFiles()),
    ...documentRules(),
    [FILES.page]: readFileSync(join(PAGE, 'index.html'), 'utf8'),
    [FILES.start]: readFileSync(join(PAGE, 'start.js'), 'utf8'),
    [FILES.viewer]: ofViewer('swagger-ui-bundle.js'),
    // The page asks for no credentials.
    [FILES.viewerStyle]: `${ofViewer('swagger-ui.css')}.swagger-ui .auth-wrapper { display: none; }\n`,
    ...(await documentationPages()),
  };
  write(files);
  for (const entry of readdirSync(ASSETS_FOLDER, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.isFile() && !(relative(ASSETS_FOLDER, path) in files)) rmSync(path, { force: true });
  }
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

function ofViewer(name: string): string {
  const file = createRequire(import.meta.url).resolve(`swagger-ui-dist/${name}`);
  return readFileSync(file, 'utf8').replace(/\n(\/\/|\/\*)# sourceMappingURL=.*\s*$/, '\n');
}

if (process.argv[1] === import.meta.filename) await buildAssets();
