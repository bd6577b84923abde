/** Tables of our documents, found by their heading. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const DOCS = join(import.meta.dirname, '..', '..', 'docs');

/** The rows of the first table under a heading, without its header row: each cell as written. */
export function readTable(document: string, heading: string): string[][] {
  const lines = readFileSync(join(DOCS, document), 'utf8').split('\n');
  const start = lines.findIndex((line) => line.replace(/^#+ /, '') === heading && line.startsWith('#'));
  if (start < 0) throw new Error(`${document} has no heading '${heading}'`);
  const end = lines.findIndex((line, at) => at > start && line.startsWith('#'));
  const under = lines.slice(start + 1, end < 0 ? undefined : end);
  const first = under.findIndex((line) => line.startsWith('|'));
  const rest = under.slice(first);
  const length = rest.findIndex((line) => !line.startsWith('|'));
  const rows = rest.slice(2, length < 0 ? undefined : length);
  if (first < 0 || rows.length === 0) throw new Error(`${document} has no table under '${heading}'`);
  return rows.map((row) =>
    row
      .slice(1, row.lastIndexOf('|'))
      .split('|')
      .map((cell) => cell.trim()),
  );
}

/** The words of a cell that are formatted as code. */
export function codeOf(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, word = '']) => word);
}
