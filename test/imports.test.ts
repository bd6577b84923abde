/**
 * Who may import whom: protocol ← durable-objects ← worker; protocol ← bridge. Each file is parsed, so comments
 * and strings that look like imports count for nothing. Under verbatimModuleSyntax `import { type X }` still
 * loads its module: only `import type` and `export type` are type-only.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parseAst } from 'vitest/node';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const FOLDERS = ['protocol', 'durable-objects', 'worker', 'bridge', 'migrations'];
/** Stands for a specifier that is made at run time. */
const COMPUTED = '<computed>';
/** The modules whose values, not only types, the Worker may take from the objects. */
const SHARED_WITH_WORKER = ['durable-objects/hmac.ts', 'durable-objects/refusal-response.ts'];
const SOCKET_MODULES = ['net', 'node:net', 'tls', 'node:tls'];
const PACKAGE = /^(@[\w.-]+\/)?[\w][\w.-]*(\/|$)/;

interface Source {
  file: string;
  text: string;
}

interface Import {
  file: string;
  specifier: string;
  form: 'import' | 're-export' | 'dynamic' | 'type' | 'require';
  typeOnly: boolean;
  /** The path from the root that a relative specifier means. */
  target: string | undefined;
}

interface Node {
  type: string;
  [field: string]: unknown;
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

function* nodesOf(value: unknown): Generator<Node> {
  if (typeof value !== 'object' || value === null) return;
  if (isNode(value)) yield value;
  for (const child of Object.values(value)) yield* nodesOf(child);
}

function parse({ file, text }: Source): Node[] {
  return [...nodesOf(parseAst(text, { lang: file.endsWith('.d.ts') ? 'dts' : 'ts' }, file))];
}

/** The text of a string, or of a template without holes. */
function textOf(node: unknown): string | undefined {
  if (!isNode(node)) return undefined;
  if (node.type === 'Literal' && typeof node.value === 'string') return node.value;
  if (node.type !== 'TemplateLiteral' || !Array.isArray(node.quasis) || node.quasis.length !== 1)
    return undefined;
  return node.quasis[0].value.cooked;
}

function importsOf(source: Source): Import[] {
  return parse(source).flatMap((node) => {
    const found = importedBy(node);
    if (!found) return [];
    const specifier = textOf(found.from) ?? COMPUTED;
    const { form, typeOnly } = found;
    return [{ file: source.file, specifier, form, typeOnly, target: targetOf(source.file, specifier) }];
  });
}

function importedBy(node: Node): (Pick<Import, 'form' | 'typeOnly'> & { from: unknown }) | undefined {
  switch (node.type) {
    case 'ImportDeclaration':
      return { from: node.source, form: 'import', typeOnly: node.importKind === 'type' };
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
      if (!node.source) return undefined;
      return { from: node.source, form: 're-export', typeOnly: node.exportKind === 'type' };
    case 'ImportExpression':
      return { from: node.source, form: 'dynamic', typeOnly: false };
    case 'TSImportType':
      return { from: node.source, form: 'type', typeOnly: true };
    case 'TSImportEqualsDeclaration':
      if (!isNode(node.moduleReference) || node.moduleReference.type !== 'TSExternalModuleReference')
        return undefined;
      return {
        from: node.moduleReference.expression,
        form: 'require',
        typeOnly: node.importKind === 'type',
      };
    case 'CallExpression': {
      if (!isRequire(node.callee) || !Array.isArray(node.arguments)) return undefined;
      return { from: node.arguments[0], form: 'require', typeOnly: false };
    }
    default:
      return undefined;
  }
}

/** `require` or `require.resolve`. */
function isRequire(callee: unknown): boolean {
  if (!isNode(callee)) return false;
  if (callee.type === 'Identifier') return callee.name === 'require';
  return callee.type === 'MemberExpression' && isRequire(callee.object);
}

function targetOf(file: string, specifier: string): string | undefined {
  return /^\.{0,2}\//.test(specifier) || /^\.{1,2}$/.test(specifier)
    ? posix.join(specifier.startsWith('/') ? '' : posix.dirname(file), specifier)
    : undefined;
}

function isIn(path: string | undefined, ...folders: string[]): boolean {
  return folders.some((folder) => path === folder || path?.startsWith(`${folder}/`));
}

/** Whether the specifier is one of these packages, or a path within one. */
function isOf({ specifier }: Import, ...packages: string[]): boolean {
  return isIn(specifier, ...packages);
}

function mayWorkerTakeFromObjects({ file, target, form, typeOnly }: Import): boolean {
  if (!isIn(target, 'durable-objects')) return false;
  if (typeOnly || SHARED_WITH_WORKER.includes(target ?? '')) return true;
  return file === 'worker/index.ts' && form === 're-export';
}

interface Rule {
  title: string;
  folder: string;
  allows(found: Import): boolean;
}

const RULES: Rule[] = [
  {
    title: 'protocol imports only zod and protocol',
    folder: 'protocol',
    allows: (found) => isIn(found.target, 'protocol') || isOf(found, 'zod'),
  },
  {
    title: 'migrations imports only protocol, migrations and drizzle-orm',
    folder: 'migrations',
    allows: (found) => isIn(found.target, 'protocol', 'migrations') || isOf(found, 'drizzle-orm'),
  },
  {
    title: 'durable-objects imports only protocol, migrations/schema, durable-objects and its four packages',
    folder: 'durable-objects',
    allows: (found) =>
      isIn(found.target, 'protocol', 'migrations/schema.ts', 'durable-objects') ||
      isOf(found, 'zod', 'drizzle-orm') ||
      ['cloudflare:workers', 'node:crypto'].includes(found.specifier),
  },
  {
    title: 'worker imports only protocol, migrations/schema, worker, the objects as types and its packages',
    folder: 'worker',
    allows: (found) =>
      isIn(found.target, 'protocol', 'migrations/schema.ts', 'worker') ||
      mayWorkerTakeFromObjects(found) ||
      isOf(found, 'hono', 'jose', 'ipaddr.js', 'zod', 'drizzle-orm') ||
      found.specifier.startsWith('cloudflare:'),
  },
  {
    title: 'bridge imports only protocol, bridge, Node and packages',
    folder: 'bridge',
    allows: ({ file, specifier, target }) =>
      isIn(target, 'protocol', 'bridge') ||
      specifier.startsWith('node:') ||
      PACKAGE.test(specifier) ||
      // amqplib hides its codec: the path next to its entry is made at run time.
      (specifier === COMPUTED && isIn(file, 'bridge/amqp/wire')),
  },
  {
    title: 'bridge/amqp never imports bridge/mqtt',
    folder: 'bridge/amqp',
    allows: (found) => !isIn(found.target, 'bridge/mqtt'),
  },
  {
    title: 'bridge/mqtt never imports bridge/amqp',
    folder: 'bridge/mqtt',
    allows: (found) => !isIn(found.target, 'bridge/amqp'),
  },
  ...['bridge/amqp', 'bridge/mqtt'].map((folder) => ({
    title: `${folder} opens no sockets: it takes a duplex stream, and never imports net or tls`,
    folder,
    allows: (found: Import) => !SOCKET_MODULES.includes(found.specifier),
  })),
];

function offenders(rule: Rule, sources: Source[]): string[] {
  return sources
    .filter(({ file }) => isIn(file, rule.folder))
    .flatMap(importsOf)
    .filter((found) => !rule.allows(found))
    .map(({ file, specifier }) => `${file} -> ${specifier}`);
}

/** Every string, not only an import's, since `require.resolve` and paths reach a package too. */
function mentionsOfAmqplib(sources: Source[]): string[] {
  return sources
    .filter(({ file }) => !isIn(file, 'bridge/amqp/wire'))
    .flatMap((source) =>
      parse(source)
        .map((node) => (node.type === 'TemplateElement' ? templateText(node) : textOf(node)))
        .filter((text) => text !== undefined && /\bamqplib\b/.test(text))
        .map((text) => `${source.file} -> ${text}`),
    )
    .filter((offender, index, all) => all.indexOf(offender) === index);
}

function templateText({ value }: Node): string | undefined {
  return typeof value === 'object' && value !== null && 'cooked' in value ? String(value.cooked) : undefined;
}

function tree(files: Record<string, string>): Source[] {
  return Object.entries(files).map(([file, text]) => ({ file, text }));
}

/** The sources of the tree; a folder that is empty, or not there yet, has none. */
function readSources(): Source[] {
  return FOLDERS.filter((folder) => existsSync(join(ROOT, folder))).flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .map((name) => posix.join(folder, ...name.split('\\')))
      .filter((file) => file.endsWith('.ts') && !file.includes('/node_modules/'))
      .sort()
      .map((file) => ({ file, text: readFileSync(join(ROOT, file), 'utf8') })),
  );
}

describe('the parser of imports', () => {
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

  it('finds every form, and nothing in comments, strings and patterns', () => {
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
  ])('from %s takes %s to mean %s', (file, specifier, target) => {
    expect(targetOf(file, specifier)).toBe(target);
  });

  it('reads the real tree, and finds imports in it', () => {
    expect(
      readSources()
        .flatMap(importsOf)
        .map(({ specifier }) => specifier),
    ).toContain('zod');
  });
});

describe('the rules', () => {
  const GOOD = tree({
    'protocol/a.ts': `import 'zod'; export * from './b.ts';`,
    'migrations/schema.ts': `import 'drizzle-orm/sqlite-core'; import '../protocol/a.ts';`,
    'durable-objects/a.ts': `import 'cloudflare:workers'; import 'drizzle-orm/d1'; import './site/a.ts';`,
    'durable-objects/site/a.ts': `import '../../migrations/schema.ts'; import 'node:crypto'; import 'zod';`,
    'worker/index.ts': `export { Site } from '../durable-objects/site.ts';`,
    'worker/env.ts': `export type { Env } from '../durable-objects/env.ts'; import 'drizzle-orm/d1';`,
    'worker/routes/a.ts': `import type { Site } from '../../durable-objects/site.ts'; import 'hono/cors';`,
    'worker/auth/a.ts': `import '../../durable-objects/hmac.ts'; import 'jose'; import 'cloudflare:sockets';`,
    'worker/auth/b.ts': `import '../../durable-objects/refusal-response.ts'; import '../../migrations/schema.ts';`,
    'bridge/index.ts': `import './amqp/a.ts'; import './mqtt/a.ts'; import 'node:net'; import 'ws';`,
    'bridge/amqp/a.ts': `/* as 'amqplib' does */ import 'node:stream'; import './wire/codec.ts';`,
    'bridge/amqp/wire/codec.ts': `require.resolve('amqplib'); require(path); import 'node:module';`,
    'bridge/mqtt/a.ts': `import 'aedes'; import '@scope/x/y'; import '../../protocol/a.ts';`,
  });
  const BAD = tree({
    'protocol/a.ts': `import 'zodiac'; import 'node:crypto'; import '../migrations/schema.ts';`,
    'migrations/schema.ts': `import '../durable-objects/site.ts';`,
    'durable-objects/a.ts': `import '../worker/env.ts'; import '../migrations/other.ts'; import 'hono';`,
    'durable-objects/b.ts': `import 'node:net'; import 'cloudflare:sockets'; import(name);`,
    'worker/index.ts': `import { Site } from '../durable-objects/site.ts'; import 'amqplib';`,
    'worker/a.ts': `export { Site } from '../durable-objects/site.ts'; import 'node:fs'; import 'honoured';`,
    'worker/b.ts': `import { type Env } from '../durable-objects/env.ts'; import '../bridge/link.ts';`,
    'bridge/a.ts': `import type { Env } from '../durable-objects/env.ts'; import('../worker/env.ts');`,
    'bridge/b.ts': `import '../migrations/schema.ts'; import 'cloudflare:workers'; import '../test/x.ts';`,
    'bridge/amqp/a.ts': `import '../mqtt/a.ts'; import 'net'; const path = \`\${x}/amqplib/lib/defs.js\`;`,
    'bridge/mqtt/a.ts': `import type * as amqp from '../amqp/a.ts'; import type { T } from 'node:tls';`,
    'bridge/mqtt/wire/a.ts': `import 'amqplib/callback_api'; require(path);`,
  });

  it.each(RULES.map((rule) => [rule.title, rule] as const))('accept what keeps to "%s"', (_title, rule) => {
    expect(offenders(rule, GOOD)).toEqual([]);
  });

  it('list every offender as file -> specifier', () => {
    expect(RULES.flatMap((rule) => offenders(rule, BAD))).toEqual([
      'protocol/a.ts -> zodiac',
      'protocol/a.ts -> node:crypto',
      'protocol/a.ts -> ../migrations/schema.ts',
      'migrations/schema.ts -> ../durable-objects/site.ts',
      'durable-objects/a.ts -> ../worker/env.ts',
      'durable-objects/a.ts -> ../migrations/other.ts',
      'durable-objects/a.ts -> hono',
      'durable-objects/b.ts -> node:net',
      'durable-objects/b.ts -> cloudflare:sockets',
      'durable-objects/b.ts -> <computed>',
      'worker/index.ts -> ../durable-objects/site.ts',
      'worker/index.ts -> amqplib',
      'worker/a.ts -> ../durable-objects/site.ts',
      'worker/a.ts -> node:fs',
      'worker/a.ts -> honoured',
      'worker/b.ts -> ../durable-objects/env.ts',
      'worker/b.ts -> ../bridge/link.ts',
      'bridge/a.ts -> ../durable-objects/env.ts',
      'bridge/a.ts -> ../worker/env.ts',
      'bridge/b.ts -> ../migrations/schema.ts',
      'bridge/b.ts -> cloudflare:workers',
      'bridge/b.ts -> ../test/x.ts',
      'bridge/mqtt/wire/a.ts -> <computed>',
      'bridge/amqp/a.ts -> ../mqtt/a.ts',
      'bridge/mqtt/a.ts -> ../amqp/a.ts',
      'bridge/amqp/a.ts -> net',
      'bridge/mqtt/a.ts -> node:tls',
    ]);
  });

  it('find amqplib in any string outside its folder, and let comments speak of it', () => {
    expect(mentionsOfAmqplib(GOOD)).toEqual([]);
    expect(mentionsOfAmqplib(BAD)).toEqual([
      'worker/index.ts -> amqplib',
      'bridge/amqp/a.ts -> /amqplib/lib/defs.js',
      'bridge/mqtt/wire/a.ts -> amqplib/callback_api',
    ]);
  });

  it('hold for a tree without a file', () => {
    expect(RULES.flatMap((rule) => offenders(rule, []))).toEqual([]);
    expect(mentionsOfAmqplib([])).toEqual([]);
  });
});

describe('the direction of imports', () => {
  it.each(RULES.map((rule) => [rule.title, rule] as const))('%s', (_title, rule) => {
    expect(offenders(rule, readSources())).toEqual([]);
  });

  it('only bridge/amqp/wire mentions amqplib', () => {
    expect(mentionsOfAmqplib(readSources())).toEqual([]);
  });
});
