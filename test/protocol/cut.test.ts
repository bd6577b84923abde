/** A truncated text keeps its beginning in whole characters, and states its original length. */
import { expect, it } from 'vitest';
import { cut } from '../../protocol/cut.ts';

it('a text within the limit is unchanged', () => {
  expect(cut('x'.repeat(1_024), 1_024)).toBe('x'.repeat(1_024));
  expect(cut('', 0)).toBe('');
});

it('a text that is too long is truncated, and states its original length', () => {
  expect(cut('x'.repeat(100_000), 1_024)).toBe(`${'x'.repeat(1_024)}… (100000 characters)`);
});

it('truncation never splits a character of two UTF-16 units', () => {
  expect(cut('🔋'.repeat(4), 4)).toBe('🔋🔋… (8 characters)');
  expect(cut('🔋'.repeat(4), 5)).toBe('🔋🔋… (8 characters)');
});
