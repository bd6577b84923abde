/** A title of a test is a verb and its clause; the `describe` around it is the subject (CONTRIBUTING.md, "How we write"). */
import { describe, expect, it } from 'vitest';
import { readSources, titlesOf } from '#support/import-graph.ts';

/** With one of these, a title continues its subject, and cannot be understood without it. */
const CONTINUES = /^(that|of|with|without|and)\b/i;

describe('the titles of the tests', () => {
  const titles = readSources(['test']).flatMap((source) =>
    titlesOf(source).map((title) => ({ file: source.file, title })),
  );

  it('begin with a verb, and do not continue the subject', () => {
    expect(titles.length).toBeGreaterThan(3_000);
    expect(titles.filter(({ title }) => CONTINUES.test(title))).toEqual([]);
  });

  it('are found in every form of a test', () => {
    const forms = ["it('a', f)", "it.each([1])('b', f)", "it.for(x)('c', {}, f)", 'it.skipIf(y)(`d`, f)'];
    const text = `${forms.join('; ')}; test('e', f); so('f')`;
    expect(titlesOf({ file: 'x.ts', text })).toEqual(['a', 'b', 'c', 'd']);
  });
});
