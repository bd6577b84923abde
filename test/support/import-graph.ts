/**
 * A parser's view of the sources: their imports and import cycles. Comments and strings that look like
 * imports do not count. Under verbatimModuleSyntax `import { type X }` still loads its module: only `import
 * type` and `export type` are type-only.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAst } from 'vitest/node';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Represents a specifier that is computed at run time. */
export const COMPUTED = '<computed>';

/** A file by its path from the root, with slashes. */
export interface Source {
  file: string;
  text: string;
}

/** One import of a file, in any form. */
export interface Import {
  file: string;
  specifier: string;
  form: 'import' | 're-export' | 'dynamic' | 'type' | 'require';
  typeOnly: boolean;
  /** The path from the root that a relative specifier resolves to. */
  target: string | undefined;
}

interface Node {
  type: string;
  [field: string]: unknown;
}

/** The TypeScript sources in these folders of the real tree; an empty or missing folder has none. */
export function readSources(folders: string[]): Source[] {
  return folders
    .filter((folder) => existsSync(join(ROOT, folder)))
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .map((name) => posix.join(folder, ...name.split('\\')))
        .filter((file) => /\.tsx?$/.test(file) && !file.includes('/node_modules/'))
        .sort()
        .map((file) => ({ file, text: readFileSync(join(ROOT, file), 'utf8') })),
    );
}

/** All imports of a source, in the order of its text. */
export function importsOf(source: Source): Import[] {
  return nodesOf(source).flatMap((node) => {
    const found = importedBy(node);
    if (!found) return [];
    const specifier = textOf(found.from) ?? COMPUTED;
    const { form, typeOnly } = found;
    return [{ file: source.file, specifier, form, typeOnly, target: targetOf(source.file, specifier) }];
  });
}

/** The path from the root that a specifier in this file resolves to, unless it names a package. */
export function targetOf(file: string, specifier: string): string | undefined {
  return /^\.{0,2}\//.test(specifier) || /^\.{1,2}$/.test(specifier)
    ? posix.join(specifier.startsWith('/') ? '' : posix.dirname(file), specifier)
    : undefined;
}

/** Every string of a source, and every text part of a template. */
export function stringsOf(source: Source): string[] {
  return nodesOf(source).flatMap((node) => {
    if (node.type === 'Literal' && typeof node.value === 'string') return [node.value];
    return node.type === 'TemplateElement' ? [cookedText(node)] : [];
  });
}

/**
 * The lines, from 1, on which a member expression ends in these names: `this.#storage.sql.exec` in `sql`,
 * `exec`.
 */
export function linesOfMember(source: Source, ...names: string[]): number[] {
  return nodesOf(source)
    .filter((node) => node.type === 'MemberExpression' && endsIn(node, names))
    .map(({ start }) => source.text.slice(0, Number(start)).split('\n').length);
}

/** The titles of the tests of a source: `it('title', …)`, `it.each(…)('title', …)`. */
export function titlesOf(source: Source): string[] {
  return nodesOf(source).flatMap((node) => {
    if (node.type !== 'CallExpression' || calledName(node) !== 'it') return [];
    const [first] = node.arguments as Node[];
    const title = textOf(first) ?? beginningOf(first);
    return title === undefined ? [] : [title];
  });
}

/** The name at the beginning of a call: `it` of `it.each(rows)('title')`. */
function calledName(node: Node): string | undefined {
  const callee = bare(node.callee);
  if (callee?.type === 'CallExpression') return calledName(callee);
  return nameOf(callee?.type === 'MemberExpression' ? callee.object : callee) as string | undefined;
}

/** The text of a template before its first expression. */
function beginningOf(node: Node | undefined): string | undefined {
  const [first] = node?.type === 'TemplateLiteral' ? (node.quasis as Node[]) : [];
  return first && cookedText(first);
}

/** A log call: `console.warn('it failed', { reason })`. */
export interface Logged {
  /** Undefined when the argument is not a string. */
  message: string | undefined;
  level: string;
  /** Undefined when the argument is not an object of named fields. */
  fields: string[] | undefined;
}

/** All `console` calls of a source, in the order of its text. */
export function loggedBy(source: Source): Logged[] {
  return nodesOf(source).flatMap((node) => {
    const callee = node.type === 'CallExpression' ? bare(node.callee) : undefined;
    if (callee?.type !== 'MemberExpression' || nameOf(callee.object) !== 'console') return [];
    const [message, fields, ...others] = node.arguments as unknown[];
    const named = others.length === 0 ? fieldsOf(bare(fields)) : undefined;
    return [{ message: textOf(message), level: String(nameOf(callee.property)), fields: named }];
  });
}

function fieldsOf(object: Node | undefined): string[] | undefined {
  if (object?.type !== 'ObjectExpression') return undefined;
  const names = (object.properties as Node[]).map(({ key, computed }) =>
    computed ? undefined : nameOf(key),
  );
  return names.every((name) => typeof name === 'string') ? names : undefined;
}

/**
 * The cycles in which files import each other, types included. Each lists its files, the first by name first.
 * Every import on a cycle is on a returned one, but a tangle may have cycles that are not returned.
 */
export function circlesOf(sources: Source[]): string[][] {
  const graph = new Map(sources.map((source) => [source.file, importsOf(source)]));
  const next = (file: string) =>
    (graph.get(file) ?? []).flatMap(({ target }) =>
      target !== undefined && graph.has(target) ? [target] : [],
    );
  const circles = [...graph.keys()].flatMap((file) =>
    next(file).flatMap((imported) => {
      const way = shortestWay(imported, file, next);
      return way ? [fromTheLeast(way)] : [];
    }),
  );
  return [...new Map(circles.map((circle) => [circle.join(), circle])).values()];
}

/** The files on a shortest import path between two files, both included. */
function shortestWay(from: string, to: string, next: (file: string) => string[]): string[] | undefined {
  const seen = new Set([from]);
  const ways = [[from]];
  for (const way of ways) {
    const last = way.at(-1)!;
    if (last === to) return way;
    for (const file of next(last)) {
      if (seen.has(file)) continue;
      seen.add(file);
      ways.push([...way, file]);
    }
  }
  return undefined;
}

function fromTheLeast(circle: string[]): string[] {
  const least = circle.indexOf([...circle].sort()[0]!);
  return [...circle.slice(least), ...circle.slice(0, least)];
}

const parsed = new WeakMap<Source, Node[]>();

function nodesOf(source: Source): Node[] {
  const known = parsed.get(source);
  if (known) return known;
  const { file, text } = source;
  const nodes = [
    ...nodesWithin(
      parseAst(text, { lang: file.endsWith('.d.ts') ? 'dts' : file.endsWith('.tsx') ? 'tsx' : 'ts' }, file),
    ),
  ];
  parsed.set(source, nodes);
  return nodes;
}

function* nodesWithin(value: unknown): Generator<Node> {
  if (typeof value !== 'object' || value === null) return;
  if (isNode(value)) yield value;
  for (const child of Object.values(value)) yield* nodesWithin(child);
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
}

/** The text of a string, or of a template without expressions. */
function textOf(node: unknown): string | undefined {
  if (!isNode(node)) return undefined;
  if (node.type === 'Literal' && typeof node.value === 'string') return node.value;
  if (node.type !== 'TemplateLiteral' || !Array.isArray(node.quasis) || node.quasis.length !== 1)
    return undefined;
  return cookedText(node.quasis[0]);
}

function cookedText({ value }: Node): string {
  return typeof value === 'object' && value !== null && 'cooked' in value ? String(value.cooked) : '';
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

/**
 * Whether an expression is a name, or a member of that name, and the expression before it ends in the other
 * names.
 */
function endsIn(expression: unknown, names: string[]): boolean {
  const name = names.at(-1);
  if (name === undefined) return true;
  const node = bare(expression);
  if (node?.type !== 'MemberExpression') return names.length === 1 && nameOf(node) === name;
  const member = node.computed ? textOf(node.property) : nameOf(node.property);
  return member === name && endsIn(node.object, names.slice(0, -1));
}

function nameOf(node: unknown): unknown {
  if (!isNode(node)) return undefined;
  return node.type === 'Identifier' || node.type === 'PrivateIdentifier' ? node.name : undefined;
}

/** An expression without the parentheses, `?.`, `!` and type assertions around it. */
function bare(expression: unknown): Node | undefined {
  if (!isNode(expression)) return undefined;
  const wrapped = /^(Parenthesized|Chain|TSNonNull|TSAs|TSSatisfies|TSTypeAssertion)/.test(expression.type);
  return wrapped ? bare(expression.expression) : expression;
}
