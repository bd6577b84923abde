/**
 * The faults that a schema finds, as the sender sees them: each fault with its path, all at once, within
 * bounds.
 */
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { ACROSS_FIELDS, allIssues, boundedFaults, faultsText, firstIssue } from '../../protocol/issue.ts';

function errorOf(schema: z.ZodType, value: unknown): z.ZodError {
  const { error } = schema.safeParse(value);
  if (!error) throw new Error('nothing is wrong');
  return error;
}

describe('firstIssue', () => {
  it('names the path of the fault', () => {
    expect(firstIssue(errorOf(z.object({ a: z.array(z.number()) }), { a: [1, 'x'] }))).toMatch(/^a\.1: /);
  });

  it('describes a fault of the whole value without a path', () => {
    expect(firstIssue(errorOf(z.number('must be a number'), 'x'))).toBe('must be a number');
    expect(firstIssue(new z.ZodError([]))).toBe('invalid');
  });
});

describe('faultsText', () => {
  it('lists three faults in one text, each with its path if it has one', () => {
    const schema = z.strictObject({ a: z.number('no number'), b: z.array(z.boolean('neither')) });
    const text = faultsText(allIssues(errorOf(schema, { a: 'x', b: [true, 1], c: 1 })));
    expect(text).toBe('a: no number; b.1: neither; unknown field "c"');
  });

  it('lists twenty faults, and the number of further ones', () => {
    const faults = Array.from({ length: 700 }, (_none, n) => `slots.${n}: wrong`);
    expect(boundedFaults(faults.slice(0, 20))).toEqual(faults.slice(0, 20));
    expect(boundedFaults(faults)).toEqual([...faults.slice(0, 20), 'and 680 more']);
  });

  it('has under 250 characters for 20 000 unknown fields, and under 5 000 for 20 000 invalid values', () => {
    const names = Object.fromEntries(Array.from({ length: 20_000 }, (_none, n) => [`a name ${n}`, n]));
    expect(faultsText(allIssues(errorOf(z.strictObject({}), names))).length).toBeLessThan(250);
    const values = z.record(z.string(), z.string());
    expect(faultsText(allIssues(errorOf(values, names))).length).toBeLessThan(5_000);
  });
});

describe('the text of a fault', () => {
  it.each<[string, z.ZodType, unknown, string]>([
    ['a missing field', z.object({ a: z.number() }), {}, 'a: is required'],
    ['another type', z.array(z.number()), [true], '0: must be a number'],
    ['a value that is no list', z.array(z.number()), {}, 'must be a list'],
    ['a fraction', z.int(), 1.5, 'must be a whole number'],
    ['an empty text', z.string().min(1), '', 'must not be empty'],
    ['a short text', z.string().min(2), '', 'must have at least 2 characters'],
    ['a long list', z.array(z.int()).max(1), [1, 2], 'must have at most 1 item'],
    ['a small number', z.number().min(0), -1, 'must be at least 0'],
    ['a number at an excluded bound', z.number().gt(0), 0, 'must be more than 0'],
    ['a large number', z.number().max(5), 6, 'must be at most 5'],
    ['an unknown word', z.enum(['A', 'B']), 'C', 'must be one of A, B'],
    ['another constant', z.literal(true), false, 'must be true'],
    ['a malformed UUID', z.uuid(), 'x', 'must be a UUID'],
    ['a malformed text', z.string().regex(/^x$/), 'y', 'must match /^x$/'],
    ['an unknown field', z.strictObject({}), { a: 1 }, 'unknown field "a"'],
    ['none of several forms', z.union([z.string(), z.number()]), null, 'has none of the allowed forms'],
  ])('for %s is $3', (_title, schema, value, text) => {
    expect(firstIssue(errorOf(schema, value))).toBe(text);
  });

  it('lists the first of many allowed words whole, and states how many others there are', () => {
    const words = Array.from({ length: 40 }, (_none, n) => `WORD_${n}`) as [string, ...string[]];
    const text = firstIssue(errorOf(z.enum(words), 'x'));
    expect(text).toMatch(/^must be one of WORD_0, .*WORD_\d+ and \d+ more$/);
    expect(text.length).toBeLessThan(160);
  });
});

describe('a check across fields', () => {
  const schema = z
    .strictObject({ from: z.number('no number'), to: z.number(), note: z.string('no text').default('') })
    .refine(({ from, to }) => !(to < from), { message: 'to: before from', ...ACROSS_FIELDS });

  it('runs even when single fields are invalid', () => {
    const faults = allIssues(errorOf(schema, { from: 5, to: 1, note: 7 }));
    expect(faults).toEqual(['note: no text', 'to: before from']);
  });

  it.each([null, 'x', 5, [[]]])('is skipped for %j, which has no fields', (value) => {
    expect(allIssues(errorOf(schema, value))).toHaveLength(1);
  });
});
