/**
 * The one function per language that quotes a text in code to copy [C-15.2], checked by the languages themselves: each
 * prints what it read.
 */
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hasPrograms, PYTHON } from '#support/programs.ts';
import { javaScriptText, pythonText, shellText } from '../../protocol/quoted.ts';

const HOSTILE = [
  '',
  ' ',
  "'",
  "''",
  '"',
  '\\',
  "\\'",
  "'\\''",
  '`id`',
  '$(id)',
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it must stay a plain text.
  '${id}',
  '$HOME',
  '!!',
  '-n',
  '*',
  '~',
  '#',
  'a\nb',
  'a\r\nb\n',
  '\t',
  '"""',
  "'''",
  '\\u0041',
  '\\x41',
  '\\N{BULLET}',
  '{0} %s',
  '</script>',
  '\u0001\u0007\u001b[31m\u007f',
  '\u0085\u2028\u2029\u202e\u2066\ufeff',
  'č€😀',
];
const SAMPLES = [
  ...HOSTILE,
  ...fc.sample(fc.string({ unit: 'binary', maxLength: 20 }), { numRuns: 200, seed: 15 }),
  ...fc.sample(fc.string({ unit: fc.constantFrom(...`'"\\\`$!{}\n`), maxLength: 12 }), {
    numRuns: 200,
    seed: 2,
  }),
];
/** No argument of a program can have NUL. */
const PASSABLE = SAMPLES.filter((text) => !text.includes('\0'));

function printed(command: string, program: string): string[] {
  const output = execFileSync(command, command === PYTHON ? ['-'] : [], {
    input: program,
    encoding: 'utf8',
    env: { PATH: process.env.PATH ?? '', HOME: '/canary', PYTHONIOENCODING: 'utf-8' },
  });
  return output.split('\0').slice(0, -1);
}

describe('shellText', () => {
  it.skipIf(!hasPrograms('bash')).each(['sh', 'bash'])(
    'is read back by %s, whatever the text [C-15.2]',
    (shell) => {
      const program = PASSABLE.map((text) => `printf '%s\\0' ${shellText(text)}\n`).join('');
      expect(printed(shell, program)).toEqual(PASSABLE);
    },
  );

  it('refuses NUL, which no shell can pass on [C-15.2]', () => {
    expect(() => shellText('a\0b')).toThrow(/NUL/);
  });
});

describe('javaScriptText', () => {
  it('is read back by Node, whatever the text [C-15.2]', () => {
    const program = SAMPLES.map((text) => `  ${javaScriptText(text)},\n`).join('');
    const shown = `process.stdout.write(JSON.stringify([\n${program}]) + '\\0')`;
    const [list = '[]'] = printed(process.execPath, shown);
    expect(JSON.parse(list)).toEqual(SAMPLES);
  });
});

describe('pythonText', () => {
  it('is read back by Python, whatever the text [C-15.2]', () => {
    const program = SAMPLES.map((text) => `  ${pythonText(text)},\n`).join('');
    const [list = '[]'] = printed(PYTHON, `import json\nprint(json.dumps([\n${program}]), end='\\0')`);
    expect(JSON.parse(list)).toEqual(SAMPLES);
  });
});

describe('every quoted text', () => {
  it('has one line without control characters or bidirectional overrides in Node and Python [C-15.2]', () => {
    for (const text of SAMPLES)
      for (const quoted of [javaScriptText(text), pythonText(text)])
        expect(quoted).not.toMatch(/[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u);
  });
});
