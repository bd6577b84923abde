/** Each command that takes arguments, or starts something, explains itself when it is asked for help. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..', '..');
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};
const LINES_OF_A_SCREEN = 24;

function run(...given: string[]) {
  return spawnSync(process.execPath, given, { cwd: ROOT, encoding: 'utf8' });
}

/** The tools that `npm run sitewire -- --help` names, as its reader sees them. */
const TOOLS = [...run('tools/sitewire.ts', '--help').stdout.matchAll(/^ {2}(\S+) +\S/gm)].map(
  ([, name = '']) => name,
);
/** It takes no arguments, and writes what it generates. */
const WITHOUT_HELP = ['examples'];
const COMMANDS = [
  { name: 'npm start', command: ['tools/dev.ts'] },
  { name: 'npm run demo', command: ['tools/demo.ts'] },
  { name: 'npm run bench', command: ['tools/bench/index.ts'] },
  ...TOOLS.filter((name) => !WITHOUT_HELP.includes(name)).map((name) => {
    return { name: `npm run sitewire -- ${name}`, command: ['tools/sitewire.ts', name] };
  }),
];

describe('a command for people', () => {
  it.each(COMMANDS)(
    '$name prints its usage for --help and -h, and does nothing else',
    ({ name, command }) => {
      for (const option of ['--help', '-h']) {
        const { status, stdout, stderr } = run(...command, option);
        expect([status, stderr]).toEqual([0, '']);
        expect(stdout.replace('npm run -s', 'npm run')).toMatch(new RegExp(`^${name}\\b`));
      }
    },
  );
});

describe('npm run', () => {
  it('shows at most twelve scripts', () => {
    expect(Object.keys(scripts).length).toBeLessThanOrEqual(12);
  });

  it('has the tools for people in one command line, whose help fits a screen', () => {
    const { status, stdout } = run('tools/sitewire.ts', '--help');
    expect(status).toBe(0);
    expect(stdout.trimEnd().split('\n').length).toBeLessThanOrEqual(LINES_OF_A_SCREEN);
    expect(TOOLS).toEqual(expect.arrayContaining(['send', 'gateway', 'token', 'mail', 'check', 'simulate']));
    expect(TOOLS).toEqual(expect.arrayContaining(['replay', 'admin']));
  });

  it.each(['', 'sent', '__proto__', 'toString'])('refuses the tool %j, and names the known ones', (name) => {
    const { status, stderr } = run('tools/sitewire.ts', ...(name === '' ? [] : [name]));
    expect(status).toBe(2);
    expect(stderr).toContain('npm run sitewire -- <tool>');
  });
});
