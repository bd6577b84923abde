/** Whom a violated limit is told: others once in a while, also when the turn that was to tell them fell [C-8.3]. */
import { expect, it } from 'vitest';
import type { Turn } from '../../../../durable-objects/object/turn.ts';
import { ViolationDamping } from '../../../../durable-objects/site/event/violation-damping.ts';

const KEYS = ['own', 'other'];
const DAMPED_MS = 10_000;

/** A turn at that moment, and what undoes it. */
function turnAt(now: number): { turn: Turn; fall: () => void } {
  const undos: (() => void)[] = [];
  const turn = { now, undo: (undo: () => void) => undos.push(undo) } as unknown as Turn;
  return { turn, fall: () => undos.reverse().forEach((undo) => void undo()) };
}

it('tells others once per limit and ten seconds, the key itself each time', () => {
  const damping = new ViolationDamping();
  const told = (now: number, limit: string) => damping.keysFor(turnAt(now).turn, limit, 'own', KEYS);
  expect(told(0, 'maxImportKw')).toEqual(KEYS);
  expect(told(DAMPED_MS - 1, 'maxImportKw')).toEqual(['own']);
  expect(told(DAMPED_MS - 1, 'maxExportKw')).toEqual(KEYS);
  expect(told(DAMPED_MS, 'maxImportKw')).toEqual(KEYS);
});

it('tells them after a turn that fell: nobody has heard of it', () => {
  const damping = new ViolationDamping();
  const { turn, fall } = turnAt(0);
  expect(damping.keysFor(turn, 'maxImportKw', 'own', KEYS)).toEqual(KEYS);
  fall();
  expect(damping.keysFor(turnAt(1).turn, 'maxImportKw', 'own', KEYS)).toEqual(KEYS);
});
