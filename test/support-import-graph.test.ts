/** The parser that the rules of imports.test.ts rely on: imports, members, strings and cycles. */
import { describe, expect, it } from 'vitest';
import {
  COMPUTED,
  circlesOf,
  importsOf,
  linesOfMember,
  loggedBy,
  readSources,
  stringsOf,
  targetOf,
} from '#support/import-graph.ts';

describe('the import parser', () => {
  const FORMS = `
    // import 'in-a-comment';
    /* export * from 'in-a-block-comment'; */
    import 'side-effect';
    import preset from 'preset';
    import * as space from "namespace";
    import { a, type B } from 'named';
    import {
      c,
      d as e,
    } from 'many-lines';
    import { type F } from 'inline-type';
    import type { G } from 'type-import';
    import json from './data.json' with { type: 'json' };
    import legacy = require('import-equals');
    export { h } from 're-export';
    export type { I } from 're-export-type';
    export * from 'export-all';
    export * as all from 'export-all-as';
    export type * from 'export-all-type';
    type J = import('type-query').K<typeof import('nested-type-query')>;
    const text = "import 'in-a-string'"; const pattern = /import 'in-a-pattern'/;
    const lazy = async () => [await import('dynamic'), await import(\`template\`), await import(text)];
    require('required'); require.resolve('resolved');
    export const notFrom = 'elsewhere'; export { text };
    declare module 'declared' { import { L } from 'within-a-declaration'; }
  `;

  it('finds every form, and nothing in comments, strings and regular expressions', () => {
    const found = importsOf({ file: 'worker/x.ts', text: FORMS });
    expect(found.map(({ specifier, form, typeOnly }) => [specifier, form, typeOnly])).toEqual([
      ['side-effect', 'import', false],
      ['preset', 'import', false],
      ['namespace', 'import', false],
      ['named', 'import', false],
      ['many-lines', 'import', false],
      ['inline-type', 'import', false],
      ['type-import', 'import', true],
      ['./data.json', 'import', false],
      ['import-equals', 'require', false],
      ['re-export', 're-export', false],
      ['re-export-type', 're-export', true],
      ['export-all', 're-export', false],
      ['export-all-as', 're-export', false],
      ['export-all-type', 're-export', true],
      ['type-query', 'type', true],
      ['nested-type-query', 'type', true],
      ['dynamic', 'dynamic', false],
      ['template', 'dynamic', false],
      [COMPUTED, 'dynamic', false],
      ['required', 'require', false],
      ['resolved', 'require', false],
      ['within-a-declaration', 'import', false],
    ]);
  });

  it.each([
    ['worker/routes/x.ts', '../auth/y.ts', 'worker/auth/y.ts'],
    ['worker/routes/x.ts', '../../protocol/ids.ts', 'protocol/ids.ts'],
    ['worker/x.ts', './../worker/../bridge/y.ts', 'bridge/y.ts'],
    ['worker/x.ts', '../../elsewhere.ts', '../elsewhere.ts'],
    ['worker/x.ts', '..', '.'],
    ['worker/x.ts', '/etc/x.ts', '/etc/x.ts'],
    ['worker/x.ts', 'zod', undefined],
    ['worker/x.ts', '.hidden', undefined],
  ])('resolves, from %s, %s to %s', (file, specifier, target) => {
    expect(targetOf(file, specifier)).toBe(target);
  });

  it('reads the real source tree, and finds imports in it', () => {
    expect(
      readSources(['protocol'])
        .flatMap(importsOf)
        .map(({ specifier }) => specifier),
    ).toContain('zod');
  });
});

describe('the finder of member expressions', () => {
  const linesOf = (text: string) => linesOfMember({ file: 'worker/x.ts', text }, 'sql', 'exec');

  it.each([
    'sql.exec(query);',
    'this.sql.exec<Row>(query);',
    'class A { #storage = 0; b() { this.#storage.sql.exec(query); } }',
    'class A { #sql = 0; b() { this.#sql.exec(query); } }',
    'context?.storage?.sql?.exec(query);',
    'context.storage.sql!.exec(query);',
    '(context.storage as State).sql.exec(query);',
    '(context.sql as Sql).exec(query);',
    "storage['sql']['exec'](query);",
    'const run = sql.exec;',
  ])('finds %s', (text) => {
    expect(linesOf(text)).toEqual([1]);
  });

  it('returns the line, from 1, on which each expression begins', () => {
    expect(linesOf('sql.exec(a);\n\nthis.storage\n  .sql.exec(b);\n')).toEqual([1, 3]);
  });

  it.each([
    '// sql.exec(query)',
    "const text = 'sql.exec(query)';",
    '/sql/.exec(text);',
    'database.exec(query);',
    'sql.execute(query);',
    'sql[exec](query);',
    'exec.sql(query);',
    'nosql.exec(query);',
    'sql.other.exec(query);',
  ])('does not find %s', (text) => {
    expect(linesOf(text)).toEqual([]);
  });
});

describe('the finder of strings', () => {
  it('returns strings and the text parts of templates, and no comments', () => {
    const text = `import 'a'; /* 'b' */ const c = ['d', \`e\${f}g\`];`;
    expect(stringsOf({ file: 'worker/x.ts', text })).toEqual(['a', 'd', 'e', 'g']);
  });
});

describe('the finder of log lines', () => {
  const logged = (text: string) => loggedBy({ file: 'worker/x.ts', text });

  it('returns the message, the level, and the names of the fields', () => {
    expect(logged(`console.warn('it failed', { reason: why(), id }); log.warn('x', {});`)).toEqual([
      { message: 'it failed', level: 'warn', fields: ['reason', 'id'] },
    ]);
  });

  it.each([
    `console.error(text, { a })`,
    `console.error('x')`,
    `console.error('x', all)`,
    `console.error('x', { ...all })`,
    `console.error('x', { [a]: 1 })`,
    `console.error('x', { a }, more)`,
  ])('returns a partial result for %s', (text) => {
    const [line] = logged(text);
    expect(line?.level).toBe('error');
    expect([line?.message, line?.fields]).toContain(undefined);
  });
});

describe('the finder of import cycles', () => {
  /** Files of one folder with their imports, each named by a letter. */
  function circlesIn(graph: Record<string, string>): string[] {
    const sources = Object.entries(graph).map(([name, imported]) => ({
      file: `worker/${name}.ts`,
      text: [...imported].map((other) => `import type { T } from './${other}.ts';`).join('\n'),
    }));
    return circlesOf(sources).map((circle) =>
      circle.map((file) => file.replace(/^worker\/|\.ts$/g, '')).join(''),
    );
  }

  it('finds none in a tree, nor where two paths lead to one file', () => {
    expect(circlesIn({ a: 'bc', b: 'd', c: 'd', d: '' })).toEqual([]);
  });

  it('ignores a file that is not among the sources', () => {
    expect(circlesIn({ a: 'x', b: 'ax' })).toEqual([]);
  });

  it('finds a file that imports itself', () => {
    expect(circlesIn({ a: 'a' })).toEqual(['a']);
  });

  it('finds two files that import each other once, the first by name first', () => {
    expect(circlesIn({ b: 'a', a: 'b' })).toEqual(['ab']);
  });

  it('finds a long cycle that is reached through files outside it', () => {
    expect(circlesIn({ a: 'b', b: 'c', c: 'd', d: 'eb', e: '' })).toEqual(['bcd']);
  });

  it('finds each of two cycles that share a file or an import', () => {
    expect(circlesIn({ a: 'b', b: 'ac', c: 'b' })).toEqual(['ab', 'bc']);
    expect(circlesIn({ a: 'b', b: 'cd', c: 'a', d: 'a' })).toEqual(['abc', 'abd']);
  });

  it.each([
    ['an import', `import './a.ts';`],
    ['a type import', `import type { A } from './a.ts';`],
    ['a re-export', `export * from './a.ts';`],
    ['a type in place', `type A = import('./a.ts').A;`],
    ['a dynamic import', `await import('./a.ts');`],
  ])('counts %s as an import', (_form, text) => {
    const sources = [
      { file: 'worker/a.ts', text: `import './b.ts';` },
      { file: 'worker/b.ts', text },
    ];
    expect(circlesOf(sources)).toEqual([['worker/a.ts', 'worker/b.ts']]);
  });
});
