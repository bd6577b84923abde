/** The files of the console: how large they are, and that the page names the ones that exist. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { consoleFiles } from '../../tools/console-build.ts';

const KB = 1_000;
const SOURCES = join(import.meta.dirname, '..', '..', 'console');

describe('the files of the console', () => {
  let files: Record<string, string>;
  const sizeOf = (names: string[]) =>
    names.reduce((sum, name) => sum + gzipSync(files[name] ?? '', { level: 9 }).length, 0);

  beforeAll(async () => {
    files = await consoleFiles();
  });

  it('have at most 91 KB together, compressed, with the charts', () => {
    expect(sizeOf(Object.keys(files))).toBeLessThanOrEqual(91 * KB);
  });

  it('are loaded with at most 68 KB, because the charts come when one is shown', () => {
    const first = Object.keys(files).filter((name) => !name.startsWith('console-part-'));
    expect(first).toHaveLength(3);
    expect(sizeOf(first)).toBeLessThanOrEqual(68 * KB);
  });

  it('are named by the page, and have the same names in each build', async () => {
    const named = [...(files['console.html'] ?? '').matchAll(/"\/console\/([^"]+)"/g)].map(
      ([, name]) => name,
    );
    expect(named).toHaveLength(2);
    for (const name of named) expect(Object.keys(files)).toContain(name);
    expect(Object.keys(await consoleFiles())).toEqual(Object.keys(files));
  });

  it('make no markup from texts, and the page loads from no other origin', () => {
    const markup = /innerHTML|dangerouslySetInnerHTML|insertAdjacentHTML|document\.write/i;
    const names = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.tsx?$/.test(name),
    );
    expect(names.length).toBeGreaterThan(30);
    expect(names.filter((name) => markup.test(readFileSync(join(SOURCES, name), 'utf8')))).toEqual([]);
    expect(files['console.html']).not.toMatch(/https?:\/\//);
  });
});
