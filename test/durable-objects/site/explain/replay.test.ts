/** The export of a plant, and its replay: every decision is derived again, and each change is found [C-13.4]. */
import { afterEach } from 'vitest';
import { exportOf, RECORDED_DAYS } from '#workerd/recorded-days.ts';
import { MINUTE, passTime } from '#workerd/site-clock.ts';
import { sendTelemetry } from '#workerd/site-devices.ts';
import type { PlannedScene } from '#workerd/site-plan.ts';
import { batch, batteryCommand, charge, submission } from '#workerd/site-submissions.ts';
import { describe, expect, it } from '#workerd/site-test.ts';
import { sha256Hex } from '../../../../durable-objects/secrets/hmac.ts';
import { KINDS } from '../../../../durable-objects/site/command/kind/kinds.ts';
import { LEVELS } from '../../../../durable-objects/site/plan/stack.ts';
import { chainedText, NO_LINE } from '../../../../protocol/export.ts';
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

  it('is named for a judgement with the command, what was recorded and what is derived', () => {
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

  it('is named for a verdict', () => {
    const { verdictTolerance, verdictToleranceKw } = LIMIT;
    undo.push(() => Object.assign(LIMIT, { verdictTolerance, verdictToleranceKw }));
    Object.assign(LIMIT, { verdictTolerance: 10, verdictToleranceKw: 1_000 });
    expect(replay(displacements).differences.map(({ text }) => text)).toContain(
      'verdict: recorded "DEVIATED", derived "COMPLETED"',
    );
  });

  it('names the line of the file that has the recorded decision, for each difference [C-13.4]', () => {
    const { stages } = KINDS.SITE_SETPOINT;
    const { verdictTolerance, verdictToleranceKw } = LIMIT;
    undo.push(() => Object.assign(KINDS.SITE_SETPOINT, { stages }));
    undo.push(() => Object.assign(LIMIT, { verdictTolerance, verdictToleranceKw }));
    Object.assign(KINDS.SITE_SETPOINT, { stages: stages.filter(([name]) => name !== 'constraint') });
    Object.assign(LIMIT, { verdictTolerance: 10, verdictToleranceKw: 1_000 });
    const lines = linesOf(displacements).map((text) => JSON.parse(text));
    const { differences } = replay(displacements);
    const kinds = new Set(differences.map(({ text }) => text.split(':')[0]));
    expect([...kinds]).toEqual(expect.arrayContaining(['acknowledgement', 'verdict']));
    for (const { number, about } of differences) {
      // The lines of a file begin with 1.
      const line = lines[number - 1];
      expect(about).toBe(line.kind === 'plan' ? 'plan' : `${line.commandType} ${line.id}`);
    }
    const numbers = differences.map(({ number }) => number);
    expect(numbers).toEqual(numbers.toSorted((one, other) => one - other));
  });

  it('names the line of each change of the plan that differs [C-13.4]', () => {
    const levels = [...LEVELS];
    undo.push(() => void (LEVELS as unknown as string[]).splice(0, 3, ...levels));
    (LEVELS as unknown as string[]).reverse();
    const lines = linesOf(displacements).map((text) => JSON.parse(text));
    const ofPlan = replay(displacements).differences.filter(({ about }) => about === 'plan');
    expect(ofPlan.length).toBeGreaterThan(3);
    for (const { number } of ofPlan) expect(lines[number - 1].kind).toBe('plan');
  });

  it('is named for the plan', () => {
    const levels = [...LEVELS];
    undo.push(() => void (LEVELS as unknown as string[]).splice(0, 3, ...levels));
    (LEVELS as unknown as string[]).reverse();
    const { differences } = replay(displacements);
    expect(differences.filter(({ about }) => about === 'plan').length).toBeGreaterThan(3);
  });
});

describe('the replay of a plant with a faulty asset', () => {
  /** The exported commands of a battery, some while it reports a fault. */
  async function recordFaults(scene: PlannedScene): Promise<string> {
    const { plant, partner, link } = scene;
    const fromMs = Date.now();
    await sendTelemetry(link, plant.gateway, {
      'BESS-1/fault': 3,
      'BESS-1/socPercent': 50,
      'FVE-1/fault': 0,
    });
    const curtail = batteryCommand(undefined, { deviceId: 'FVE-1', assetType: 'FVE', command: 'FVE_STOP' });
    await partner.submit(charge(5));
    await partner.submit(submission('device', batch(batteryCommand(5), curtail)));
    await sendTelemetry(link, plant.gateway, { 'BESS-1/fault': 0 });
    await partner.submit(charge(5));
    await passTime(plant.id, MINUTE);
    return await exportOf(plant.id, fromMs, Date.now());
  }

  it('derives the refusals of the asset while it reports a fault, and none after [C-13.4]', async ({
    plannedSite,
  }) => {
    const text = await recordFaults(plannedSite);
    const commands = linesOf(text)
      .map((line) => JSON.parse(line))
      .filter(({ kind }) => kind === 'command');
    expect(commands.map(({ status, rejectionCode }) => [status === 'REJECTED', rejectionCode])).toEqual([
      [true, 'DEVICE_FAULT'],
      [false, null],
      [false, null],
    ]);
    expect(commands.map(({ inputs }) => inputs.view.fault['BESS-1'])).toEqual([true, true, false]);
    expect(commands[1].results).toMatchObject([{ rejectionCode: 'DEVICE_FAULT' }, { deviceId: 'FVE-1' }]);
    const { differences, judgements, skipped } = replay(text);
    expect(differences).toEqual([]);
    expect([judgements, skipped]).toEqual([3, 0]);
  });

  it('finds a recorded fault that was left out or changed, in the line of its command [C-13.4]', async ({
    plannedSite,
  }) => {
    const text = await recordFaults(plannedSite);
    const rewritten = (change: (fault: Record<string, boolean>) => void): string => {
      let prev = NO_LINE;
      const lines = linesOf(text).map((line) => {
        const { prev: _old, ...rest } = JSON.parse(line);
        if (rest.kind === 'command') change(rest.inputs.view.fault);
        const next = chainedText(rest, prev);
        prev = sha256Hex(next);
        return next;
      });
      return textOf(lines);
    };
    const numbers = linesOf(text).flatMap((line, index) => {
      const { kind } = JSON.parse(line);
      return kind === 'command' ? [index + 1] : [];
    });
    const changed = replay(rewritten((fault) => Object.assign(fault, { 'BESS-1': false })));
    expect([...new Set(changed.differences.map(({ number }) => number))]).toEqual(numbers.slice(0, 2));
    const dropped = replay(rewritten((fault) => void Reflect.deleteProperty(fault, 'BESS-1')));
    expect(dropped.differences.map(({ number, text: what }) => [number, what])).toEqual(
      numbers.map((number) => [number, expect.stringContaining('no fault of BESS-1')]),
    );
  });
});
