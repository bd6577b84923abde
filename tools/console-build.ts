/** Bundles the console: hashed files, so that a browser may keep them for ever, and the page that names them. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { build } from 'esbuild';

const FOLDER = join(import.meta.dirname, '..', 'console');

/** The static files by name. The page is `console.html`. */
export async function consoleFiles(): Promise<Record<string, string>> {
  const { outputFiles } = await build({
    entryPoints: { console: join(FOLDER, 'main.tsx') },
    outdir: '/',
    write: false,
    bundle: true,
    splitting: true,
    format: 'esm',
    target: 'es2023',
    minify: true,
    jsx: 'automatic',
    jsxImportSource: 'preact',
    entryNames: '[name]-[hash]',
    chunkNames: 'console-part-[hash]',
    logLevel: 'error',
  });
  const files = Object.fromEntries(outputFiles.map(({ path, text }) => [basename(path), text]));
  const charts = createRequire(import.meta.url).resolve('uplot/dist/uPlot.min.css');
  const style = [charts, join(FOLDER, 'style.css')].map((file) => readFileSync(file, 'utf8')).join('\n');
  const styleName = `console-${createHash('sha256').update(style).digest('hex').slice(0, 8)}.css`;
  const script = Object.keys(files).find((name) => /^console-[^-]+\.js$/.test(name)) ?? '';
  const page = readFileSync(join(FOLDER, 'index.html'), 'utf8');
  return {
    ...files,
    [styleName]: style,
    'console.html': page.replace('{{style}}', styleName).replace('{{script}}', script),
  };
}
