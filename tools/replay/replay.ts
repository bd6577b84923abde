/** Derives every decision of an export again with the code at hand, and lists what differs [C-13.4]. */
import { sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import type { PlanFacts } from '../../durable-objects/site/explain/facts.ts';
import type { ExportedCommand, ExportHead } from '../../protocol/export.ts';
import { type NumberedLine, readExport } from './chain.ts';
import { judgeAgain } from './judgement.ts';
import { PlanReplay } from './plan.ts';
import type { ReplayResult } from './result.ts';
import { VerdictReplay } from './verdict.ts';

/** Throws a `BrokenExport` if the chain of the file is broken. */
export function replay(text: string): ReplayResult {
  const all = readExport(text);
  const commands = all.filter(
    (one): one is NumberedLine & { line: ExportedCommand & { prev: string } } => one.line.kind === 'command',
  );
  const plan = new PlanReplay(commands[0]?.line.sequence ?? Number.POSITIVE_INFINITY);
  const verdicts = new VerdictReplay(all[0]?.line as unknown as ExportHead);
  const result: ReplayResult = {
    lines: all.length,
    sha256: sha256Hex(text.trimEnd().split('\n').at(-1) ?? ''),
    judgements: 0,
    plans: 0,
    verdicts: 0,
    skipped: 0,
    differences: [],
  };
  const note = (number: number, about: string, texts: readonly string[]) =>
    result.differences.push(...texts.map((one) => ({ number, about, text: one })));
  for (const { number, line } of all) {
    if (line.kind === 'sample') verdicts.add(line.atMs, line.data);
    if (line.kind === 'command') {
      const found = judgeAgain(line);
      if (found === undefined) result.skipped += 1;
      else result.judgements += 1;
      note(number, `${line.commandType} ${line.id}`, [...(found ?? []), ...plan.take(line)]);
    }
    if (line.kind === 'plan') {
      result.plans += 1;
      note(number, 'plan', plan.compare(line.atMs, line.facts as unknown as PlanFacts));
    }
  }
  const ends = plan.compareEnds();
  for (const { number, line } of commands) {
    const found = verdicts.compare(line);
    if (found !== undefined) result.verdicts += 1;
    note(number, `${line.commandType} ${line.id}`, [...(found ?? []), ...(ends.get(line.sequence) ?? [])]);
  }
  result.differences.sort((one, other) => one.number - other.number);
  return result;
}
