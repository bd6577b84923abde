/** The export of a plant, and its replay: every decision is derived again, and each change is found [C-13.4]. */
import { afterEach } from 'vitest';
import { RECORDED_DAYS } from '#workerd/recorded-days.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { KINDS } from '../../../../durable-objects/site/command/kind/kinds.ts';
import { LEVELS } from '../../../../durable-objects/site/plan/stack.ts';
import { LIMIT } from '../../../../protocol/limits.ts';
import { readExport } from '../../../../tools/replay/chain.ts';
import { replay } from '../../../../tools/replay/replay.ts';
import displacements from '../../../recorded-days/displacements.ndjson?raw';
import outages from '../../../recorded-days/outages.ndjson?raw';
import slots from '../../../recorded-days/slots.ndjson?raw';

const RECORDED = { displacements, outages, slots };
const linesOf = (text: string) => text.trimEnd().split('\n');
const textOf = (lines: readonly string[]) => `${lines.join('\n')}\n`;

describe('the replay of a day', () => {
  it.each(RECORDED_DAYS)('%s, recorded by earlier code, derives every decision alike [C-13.4]', (day) => {
    const { differences, judgements, plans, verdicts, skipped } = replay(RECORDED[day]);
    expect(differences).toEqual([]);
    expect(skipped).toBe(0);
    expect(Math.min(judgements, plans, verdicts)).toBeGreaterThan(0);
  });
});

describe('a file that is no whole export', () => {
  const lines = linesOf(displacements);

  it('is refused with the number of the line that was altered, whichever line it is', () => {
    for (let index = 0; index < lines.length - 1; index += 7) {
      const altered = lines.with(
        index,
        (lines[index] ?? '')
          .replace(/"atMs":(\d+)/, (_all, ms) => `"atMs":${Number(ms) + 1}`)
          .replace('"format":1', '"format": 1'),
      );
      expect(altered[index]).not.toBe(lines[index]);
      expect(() => readExport(textOf(altered))).toThrow(new RegExp(`^line ${index + 1}: `));
    }
  });

  const broken: [string, (all: string[]) => string[], RegExp][] = [
    ['with a line removed', (all) => all.toSpliced(5, 1), /^line 5: /],
    ['with a line twice', (all) => all.toSpliced(5, 0, all[5] ?? ''), /^line 6: /],
    ['with two lines exchanged', (all) => all.toSpliced(5, 2, all[6] ?? '', all[5] ?? ''), /^line 5: /],
    ['that was cut off', (all) => all.slice(0, -1), /cut off/],
    ['without its first line', (all) => all.slice(1), /^line 1: it is not the first line/],
    ['with text', (all) => all.with(4, 'text'), /^line 5: it is not JSON/],
    [
      'with another number of lines',
      (all) => all.with(-1, (all.at(-1) ?? '').replace(/"lines":\d+/, '"lines":3')),
      /counts 3 lines/,
    ],
    ['that is empty', () => [], /empty|not JSON/],
  ];
  it.each(broken)('%s is refused', (_what, change, why) => {
    expect(() => readExport(textOf(change([...lines])))).toThrow(why);
  });
});

describe('a changed rule', () => {
  const undo: (() => void)[] = [];
  afterEach(() => {
    for (const one of undo.splice(0)) one();
  });

  it('of a judgement is named with the command, what was recorded and what is derived', () => {
    const { stages } = KINDS.SITE_SETPOINT;
    undo.push(() => Object.assign(KINDS.SITE_SETPOINT, { stages }));
    Object.assign(KINDS.SITE_SETPOINT, { stages: stages.filter(([name]) => name !== 'constraint') });
    const { differences } = replay(displacements);
    expect(differences.length).toBeGreaterThan(0);
    for (const { about, text } of differences.filter(({ text: one }) => one.startsWith('acknowledgement')))
      expect([about, text]).toEqual([
        expect.stringMatching(/^SITE_SETPOINT [0-9a-f-]{36}$/),
        expect.stringMatching(
          /^acknowledgement: recorded "REJECTED CONSTRAINT_VIOLATION .*", derived "accepted"$/,
        ),
      ]);
  });

  it('of a verdict is named', () => {
    const { verdictTolerance, verdictToleranceKw } = LIMIT;
    undo.push(() => Object.assign(LIMIT, { verdictTolerance, verdictToleranceKw }));
    Object.assign(LIMIT, { verdictTolerance: 10, verdictToleranceKw: 1_000 });
    expect(replay(displacements).differences.map(({ text }) => text)).toContain(
      'verdict: recorded "DEVIATED", derived "COMPLETED"',
    );
  });

  it('of the plan is named', () => {
    const levels = [...LEVELS];
    undo.push(() => void (LEVELS as unknown as string[]).splice(0, 3, ...levels));
    (LEVELS as unknown as string[]).reverse();
    const { differences } = replay(displacements);
    expect(differences.filter(({ about }) => about === 'plan').length).toBeGreaterThan(3);
  });
});
