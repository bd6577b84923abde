/** When all keys get a violation alarm: once per interval, also after a failed turn [C-8.3]. */
import { expect, it } from 'vitest';
import type { Turn } from '../../../../durable-objects/object/turn.ts';
import { ViolationDamping } from '../../../../durable-objects/site/event/events.ts';

const DAMPED_MS = 10_000;

/** A turn at the given time, and a function that undoes it. */
function turnAt(now: number): { turn: Turn; fall: () => void } {
  const undos: (() => void)[] = [];
  const turn = { now, undo: (undo: () => void) => undos.push(undo) } as unknown as Turn;
  return { turn, fall: () => undos.reverse().forEach((undo) => void undo()) };
}

it('all keys get one violation alarm per limit and ten seconds', () => {
  const damping = new ViolationDamping();
  const isDueAt = (now: number, limit: string) => damping.isDue(turnAt(now).turn, limit);
  expect(isDueAt(0, 'maxImportKw')).toBe(true);
  expect(isDueAt(DAMPED_MS - 1, 'maxImportKw')).toBe(false);
  expect(isDueAt(DAMPED_MS - 1, 'maxExportKw')).toBe(true);
  expect(isDueAt(DAMPED_MS, 'maxImportKw')).toBe(true);
});

it('after a failed transaction all keys get the next violation alarm, because they received none', () => {
  const damping = new ViolationDamping();
  const { turn, fall } = turnAt(0);
  expect(damping.isDue(turn, 'maxImportKw')).toBe(true);
  fall();
  expect(damping.isDue(turnAt(1).turn, 'maxImportKw')).toBe(true);
});
