/** A disk that is full only for the edge: its process cannot write to a file until there is room again. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const WORKERD_PATH = 'MINIFLARE_WORKERD_PATH';

/**
 * From here on a new runtime gets an error from its write on a full disk, instead of a signal that ends it.
 */
export function surviveFullDisks(): { restore(): void } {
  const folder = mkdtempSync(join(tmpdir(), 'sitewire-workerd-'));
  const script = join(folder, 'run');
  const { default: binary } = createRequire(import.meta.url)('workerd') as { default: string };
  writeFileSync(script, `#!/bin/sh\ntrap '' XFSZ\nexec '${binary}' "$@"\n`);
  chmodSync(script, 0o755);
  const before = process.env[WORKERD_PATH];
  process.env[WORKERD_PATH] = script;
  return {
    restore: () => {
      if (before === undefined) delete process.env[WORKERD_PATH];
      else process.env[WORKERD_PATH] = before;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function fillDisk(pid: number | undefined): void {
  execFileSync('prlimit', ['--pid', String(pid), '--fsize=0:unlimited']);
}

export function emptyDisk(pid: number | undefined): void {
  execFileSync('prlimit', ['--pid', String(pid), '--fsize=unlimited:unlimited']);
}
