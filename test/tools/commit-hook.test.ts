/** The hook that keeps the subjects of commits findable: the area first, then a sentence. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

const HOOK = join(import.meta.dirname, '..', '..', '.githooks', 'commit-msg');
const folder = mkdtempSync(join(tmpdir(), 'sitewire-hook-'));
afterAll(() => rmSync(folder, { recursive: true }));

function check(message: string) {
  const file = join(folder, 'message');
  writeFileSync(file, message);
  return spawnSync('sh', [HOOK, file], { encoding: 'utf8' });
}

describe('the hook of a commit message', () => {
  it.each([
    'worker: name the columns of each insert\n\nWhy.',
    'worker, objects: end a key at once',
    'Revert "docs: say what is"',
  ])('takes %j', (message) => {
    expect(check(message).status).toBe(0);
  });

  it.each(['mend what a reader found', 'misc: mend', 'worker,objects: end a key', 'worker end a key', ''])(
    'refuses %j, and names the areas',
    (message) => {
      const { status, stderr } = check(message);
      expect(status).toBe(1);
      expect(stderr).toContain('Areas: bridge, ');
    },
  );
});
