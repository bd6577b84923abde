/** The modules that wrangler uploads: how large they are, and what an isolate starts with. */
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { deployedModules, type WorkerModule } from '../../tools/worker-build.ts';

const KIB = 1_024;

function gzipped(modules: readonly WorkerModule[]): number {
  return modules.reduce((total, { text }) => total + gzipSync(text).length, 0);
}

/** A module and all that it imports with `import … from`, and not with `import()`. */
function withImports(name: string, modules: readonly WorkerModule[], found = new Set<WorkerModule>()) {
  const module = modules.find((one) => one.name === name);
  if (!module || found.has(module)) return found;
  found.add(module);
  const imports = module.text.matchAll(/(?:from|import)"\.\/([^"]+\.mjs)"/g);
  for (const [, imported = ''] of imports) withImports(imported, modules, found);
  return found;
}

describe('the deployed Worker', async () => {
  const modules = await deployedModules();
  const atStart = withImports('index.mjs', modules);

  it('starts with at most 328 KiB of code, compressed', () => {
    expect(modules[0]?.name).toBe('index.mjs');
    expect(gzipped([...atStart])).toBeLessThanOrEqual(328 * KIB);
  });

  it('has at most 453 KiB of code, compressed', () => {
    expect(gzipped(modules)).toBeLessThanOrEqual(453 * KIB);
  });

  it.each([
    ['the X.509 library', 'x509.es-'],
    ['the AMQP client', 'channel_api-'],
    ['the SMTP client', 'smtp-connection-'],
    ['the composer of mails', 'mime-node-'],
  ])('has %s in a module that it does not start with', (_library, name) => {
    const module = modules.find((one) => one.name.startsWith(name));
    expect(module).toBeDefined();
    expect([...atStart]).not.toContain(module);
  });
});
