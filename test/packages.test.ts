/** Each workspace lists the packages that its code uses, and no others; one lock file has the versions of all. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importsOf, readSources } from '#support/import-graph.ts';

const ROOT = join(import.meta.dirname, '..');

interface Package {
  workspaces?: string[];
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
}

const read = (file: string): unknown => JSON.parse(readFileSync(join(ROOT, file), 'utf8'));
const { workspaces = [] } = read('package.json') as Package;
const { packages } = read('package-lock.json') as { packages: Record<string, Package> };

/** The folders whose code runs with the packages of a workspace. */
const FOLDERS: Record<string, string[]> = {
  bridge: ['bridge', 'protocol'],
  console: ['console'],
  tools: ['tools'],
  worker: ['worker', 'registry', 'durable-objects', 'protocol'],
};
/** Packages that code uses without an import: programs, files that are read, and modules that are found by name. */
const BY_NAME: Record<string, string[]> = {
  bridge: ['amqplib'],
  console: [],
  tools: ['swagger-ui-dist'],
  worker: [],
};

function nameOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function importedBy(folders: string[]): string[] {
  const imports = readSources(folders).flatMap(importsOf);
  const names = imports
    .filter(({ specifier, target }) => target === undefined && !/^(node|cloudflare):|^[.<#]/.test(specifier))
    .map(({ specifier }) => nameOf(specifier));
  return [...new Set(names)].sort();
}

/** All packages that these need, their own needs included. */
function closureOf(names: string[]): Set<string> {
  const found = new Set<string>();
  const add = (name: string) => {
    if (found.has(name)) return;
    found.add(name);
    for (const needed of Object.keys(packages[`node_modules/${name}`]?.dependencies ?? {})) add(needed);
  };
  for (const name of names) add(name);
  return found;
}

describe('the workspaces', () => {
  it('are those with a folder of code', () => expect(workspaces).toEqual(Object.keys(FOLDERS)));

  it.each(workspaces)('list the packages that the code uses, and no others: %s', (name) => {
    const { dependencies = {} } = read(`${name}/package.json`) as Package;
    const used = [...importedBy(FOLDERS[name] ?? []), ...(BY_NAME[name] ?? [])];
    expect(Object.keys(dependencies)).toEqual([...new Set(used)].sort());
  });

  it('use one version of each package', () => {
    const versions = new Map<string, Set<string>>();
    for (const file of ['package.json', ...workspaces.map((name) => `${name}/package.json`)]) {
      const { dependencies = {}, devDependencies = {} } = read(file) as Package;
      for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies }))
        versions.set(name, (versions.get(name) ?? new Set()).add(version));
    }
    expect([...versions].filter(([, of]) => of.size > 1)).toEqual([]);
  });

  it('leave the libraries of the Worker out of the image of the bridge', () => {
    const { dependencies = {} } = read('bridge/package.json') as Package;
    const all = closureOf(Object.keys(dependencies));
    expect(all.size).toBeGreaterThan(20);
    for (const name of ['drizzle-orm', 'hono', 'jose', 'nodemailer', '@peculiar/x509'])
      expect(all).not.toContain(name);
  });
});
