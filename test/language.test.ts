/**
 * The turns of phrase that hid what happens, in every text that a person reads: sources, docs, OpenAPI and AsyncAPI.
 * CONTRIBUTING.md, "How we write", says what to write instead.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const FOLDERS = [
  'protocol',
  'registry',
  'durable-objects',
  'worker',
  'bridge',
  'console',
  'tools',
  'examples',
  'docs',
  'test',
];
const PAGES = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md'];
const TEXTS = /\.(ts|tsx|css|html|md|txt|yml|py|mjs|sh|c|java|toml)$/;

/** This file contains the phrases as patterns. */
const THIS = 'test/language.test.ts';

const FORBIDDEN: readonly RegExp[] = [
  /\bof before\b(?!\.\w)/i,
  /\banew\b/i,
  /\b(is|are|was|were|be|been) told\b/i,
  /\btell(s|ing)? (of|about|how|what|which|whether|when|the)\b/i,
  /\bwho looks\b/i,
  /\bno more\b(?! than)/i,
  /\bsomebody\b/i,
  /\bbehind it\b/i,
  /\bone of them is none\b/i,
  /\bwhoever\b/i,
  /\bfor good\b/i,
  /\bbut for\b/i,
  /\bnobody's\b/i,
  /\bof its own accord\b/i,
  /\bthe one of before\b/i,
  /\bhears? of\b/i,
  /\bmakes? good\b/i,
  /\btakes? in\b/i,
];

/**
 * A name with "told" or "tell" as one of its words: `tellSite`, `otherTold`, `MAX_TOLD`. Say what happens
 * instead: it is sent, reported, notified or stored.
 */
const TOLD_NAME =
  /(?<![A-Za-z])([Tt](old|ells?|elling)|TOLD|TELL)(?![a-z])|(?<=[a-z])T(old|ells?|elling)(?![a-z])/;

/** Programs. */
const CODE = /\.(ts|tsx|py|mjs|sh|c|java)$/;

/** Where a phrase is meant: path, and the text of the line. */
const EXCEPTIONS: readonly [path: string, text: string, why: string][] = [
  ['CONTRIBUTING.md', '| an alert that somebody has seen |', 'an example of what not to write'],
  ['CONTRIBUTING.md', '| expired before its device could be told |', 'an example of what not to write'],
];

interface Line {
  path: string;
  number: number;
  text: string;
}

function linesOf(folder: string): Line[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && TEXTS.test(entry.name) && !entry.parentPath.includes('node_modules'))
    .flatMap((entry) => linesIn(relative(ROOT, join(entry.parentPath, entry.name))));
}

function linesIn(path: string): Line[] {
  const lines = readFileSync(join(ROOT, path), 'utf8').split('\n');
  return lines.map((text, index) => ({ path, number: index + 1, text }));
}

function isException({ path, text }: Line): boolean {
  return EXCEPTIONS.some(([where, part]) => path === where && text.includes(part));
}

const LINES = [...FOLDERS.flatMap(linesOf), ...PAGES.flatMap(linesIn)].filter(
  (line) => line.path !== THIS && !isException(line),
);

function offenders(pattern: RegExp, lines: readonly Line[]): string[] {
  return lines
    .filter(({ text }) => pattern.test(text))
    .map(({ path, number, text }) => `${path}:${number}: ${text.trim()}`);
}

describe('the texts of the project', () => {
  it.each(FORBIDDEN)('do not say %s', (pattern) => {
    expect(offenders(pattern, LINES)).toEqual([]);
  });

  it('use no name with the word "told" or "tell"', () => {
    const code = LINES.filter(({ path }) => CODE.test(path));
    expect(offenders(TOLD_NAME, code)).toEqual([]);
  });

  it('have no table line of more than 160 characters', () => {
    const lines = [...linesOf('docs'), ...PAGES.flatMap(linesIn)];
    const wide = lines.filter(({ text }) => text.startsWith('|') && text.length > 160);
    expect(wide.map(({ path, number, text }) => `${path}:${number}: ${text.length} characters`)).toEqual([]);
  });

  it('need every exception that is listed', () => {
    const unused = EXCEPTIONS.filter(
      ([path, text]) => !linesIn(path).some((line) => line.text.includes(text)),
    );
    expect(unused).toEqual([]);
  });

  it('are reported if they have a forbidden phrase or name', () => {
    const samples = ['the secret of before', 'is told once', 'no more rows', 'a noteTold name', 'MAX_TOLD'];
    const lines = samples.map((text, index) => ({ path: 'sample.ts', number: index + 1, text }));
    const found = [...FORBIDDEN, TOLD_NAME].flatMap((pattern) => offenders(pattern, lines));
    expect(found).toHaveLength(samples.length + 1);
  });
});
