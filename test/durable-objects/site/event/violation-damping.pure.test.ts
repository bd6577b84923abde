/** The recipients of a violation alarm: other keys get one per interval, also after a failed turn [C-8.3]. */
import { expect, it } from 'vitest';
import type { Turn } from '../../../../durable-objects/object/turn.ts';
import { ViolationDamping } from '../../../../durable-objects/site/event/events.ts';

const KEYS = ['own', 'other'];
const DAMPED_MS = 10_000;

/** A turn at the given time, and a function that undoes it. */
function turnAt(now: number): { turn: Turn; fall: () => void } {
  const undos: (() => void)[] = [];
  const turn = { now, undo: (undo: () => void) => undos.push(undo) } as unknown as Turn;
  return { turn, fall: () => undos.reverse().forEach((undo) => void undo()) };
}

it('other keys get one violation alarm per limit and ten seconds, the violating key gets each', () => {
  const damping = new ViolationDamping();
  const keysAt = (now: number, limit: string) => damping.keysFor(turnAt(now).turn, limit, 'own', KEYS);
  expect(keysAt(0, 'maxImportKw')).toEqual(KEYS);
  expect(keysAt(DAMPED_MS - 1, 'maxImportKw')).toEqual(['own']);
  expect(keysAt(DAMPED_MS - 1, 'maxExportKw')).toEqual(KEYS);
  expect(keysAt(DAMPED_MS, 'maxImportKw')).toEqual(KEYS);
});

it('after a failed transaction other keys get the next violation alarm, because they received none', () => {
  const damping = new ViolationDamping();
  const { turn, fall } = turnAt(0);
  expect(damping.keysFor(turn, 'maxImportKw', 'own', KEYS)).toEqual(KEYS);
  fall();
  expect(damping.keysFor(turnAt(1).turn, 'maxImportKw', 'own', KEYS)).toEqual(KEYS);
});
