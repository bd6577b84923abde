/** Texts of others in the console: what a person would not see is shown escaped [C-15.2]. */
import { describe, expect, it } from 'vitest';
import { escaped } from '../../console/parts/escaped.ts';

describe('a text of another sender', () => {
  it.each([
    ['acme.command.mode', 'acme.command.mode'],
    ['two\nlines\tand a tab', 'two\nlines\tand a tab'],
    ['\u0000\u001b[2J', '\\u0000\\u001b[2J'],
    ['\u202etxt.exe', '\\u202etxt.exe'],
    ['\u2066a\u2069', '\\u2066a\\u2069'],
    ['\ud800 alone', '\\ud800 alone'],
    ['ž 😀', 'ž 😀'],
  ])('shows %j as %j', (text, shown) => {
    expect(escaped(text)).toBe(shown);
  });
});
