/** docs/decisions.md defines every clause that a comment or a test title cites. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const PLACES = [
  'bridge',
  'docs',
  'durable-objects',
  'examples',
  'registry',
  'protocol',
  'test',
  'tools',
  'worker',
];
const FILES = PLACES.flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|md|py|mjs|sql)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name)),
).concat(['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md'].map((name) => join(ROOT, name)));

const decisions = readFileSync(join(ROOT, 'docs', 'decisions.md'), 'utf8');
const headings = [...decisions.matchAll(/^### (C-\d+(?:\.\d+)?) \S.*\n(\S.*)/gm)];
const decided = headings.map(([, clause = '']) => clause);

describe('docs/decisions.md', () => {
  it('has each clause that the sources cite', () => {
    const cited = FILES.flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(/[['](C-\d+(?:\.\d+)?)[\]']/g)].map(
        ([, clause = '']) => clause,
      ),
    );
    expect([...new Set(cited)].filter((clause) => !decided.includes(clause))).toEqual([]);
    expect(new Set(cited).size).toBeGreaterThan(50);
  });

  it('has each clause once, in order, with text under its heading', () => {
    const place = (clause: string) => clause.split(/[-.]/).map(Number);
    const inOrder = [...new Set(decided)].sort((left, right) => {
      const [[, a = 0, b = 0], [, c = 0, d = 0]] = [place(left), place(right)];
      return a - c || b - d;
    });
    expect(decided).toEqual(inOrder);
    expect(decisions.match(/^### /gm)).toHaveLength(decided.length);
    for (const [, clause, text = ''] of headings) expect([clause, text.length > 60]).toEqual([clause, true]);
  });
});
