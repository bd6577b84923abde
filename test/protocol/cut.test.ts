/** A text that is cut keeps its beginning, whole characters, and says how long it was. */
import { expect, it } from 'vitest';
import { cut } from '../../protocol/cut.ts';

it('leaves alone what fits', () => {
  expect(cut('x'.repeat(1_024), 1_024)).toBe('x'.repeat(1_024));
  expect(cut('', 0)).toBe('');
});

it('cuts what does not, and says how long it was', () => {
  expect(cut('x'.repeat(100_000), 1_024)).toBe(`${'x'.repeat(1_024)}… (100000 characters)`);
});

it('splits no character', () => {
  expect(cut('🔋'.repeat(4), 4)).toBe('🔋🔋… (8 characters)');
  expect(cut('🔋'.repeat(4), 5)).toBe('🔋🔋… (8 characters)');
});
