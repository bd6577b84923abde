/** Each command that takes arguments, or starts something, explains itself when it is asked for help. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..', '..');
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};
/** They take no arguments, and write or check what they generate. */
const WITHOUT_HELP = ['vectors', 'docs', 'examples', 'types'];
const COMMANDS = Object.entries(scripts)
  .map(([name, script]) => ({ name, file: /^(?:exec )?node (tools\/\S+\.ts)/.exec(script)?.[1] }))
  .filter((one): one is { name: string; file: string } => one.file !== undefined)
  .filter(({ name }) => !WITHOUT_HELP.includes(name));

describe('npm run', () => {
  it.each(COMMANDS)('$name prints its usage for --help and -h, and does nothing else', ({ name, file }) => {
    const command = name === 'start' ? 'npm start' : `npm run ${name}`;
    for (const option of ['--help', '-h']) {
      const { status, stdout, stderr } = spawnSync(process.execPath, [file, option], {
        cwd: ROOT,
        encoding: 'utf8',
      });
      expect([status, stderr]).toEqual([0, '']);
      expect(stdout.replace('npm run -s', 'npm run')).toMatch(new RegExp(`^${command}\\b`));
    }
  });

  it('has these commands', () => {
    expect(COMMANDS.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['start', 'demo', 'admin', 'device:check', 'send', 'bench']),
    );
  });
});
