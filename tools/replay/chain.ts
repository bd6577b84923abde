/** Reads an export and checks its chain of hashes [C-13.4]. */
import { sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import { type ExportLine, exportLine, NO_LINE } from '../../protocol/export.ts';
import { allIssues } from '../../protocol/issue.ts';
import { BrokenExport } from './result.ts';

/** A line with its number in the file, from 1. */
export interface NumberedLine {
  number: number;
  line: ExportLine;
}

/** The lines of an export. Throws a `BrokenExport` for the first line that is wrong. */
export function readExport(text: string): NumberedLine[] {
  const texts = text.split('\n');
  if (texts.at(-1) === '') texts.pop();
  if (texts.length === 0) throw new BrokenExport(1, 'the file is empty');
  let prev = NO_LINE;
  const lines = texts.map((one, index) => {
    const number = index + 1;
    const line = parsed(one, number);
    if (line.prev !== prev && index === 0) throw new BrokenExport(1, 'it is not the first line of an export');
    if (line.prev !== prev)
      throw new BrokenExport(index, 'it was changed, or a line after it was removed, added or moved');
    prev = sha256Hex(one);
    return { number, line };
  });
  const last = lines.at(-1)?.line;
  if (last?.kind !== 'end')
    throw new BrokenExport(lines.length, 'the export was cut off after this line: export again');
  if (last.lines !== lines.length)
    throw new BrokenExport(
      lines.length,
      `the end line counts ${last.lines} lines, but the file has ${lines.length}: export again`,
    );
  if (lines[0]?.line.kind !== 'plant') throw new BrokenExport(1, 'it is not the head of an export');
  return lines;
}

function parsed(text: string, number: number): ExportLine {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new BrokenExport(number, 'it is not JSON');
  }
  const line = exportLine.safeParse(value);
  if (!line.success) throw new BrokenExport(number, allIssues(line.error).join('; '));
  return line.data;
}
