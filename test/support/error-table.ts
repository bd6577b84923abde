/**
 * Where each error code of the specification is answered and tested: the routes that declare it, and the suites that
 * assert it by name. `test/error-codes.test.ts` asks for both.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ApiErrorCode, ERROR_STATUS } from '../../protocol/errors.ts';

const ROOT = join(import.meta.dirname, '..', '..');
/** The folders of the suites that send requests to the product. */
const SUITES = ['test/worker', 'test/system', 'test/durable-objects'];

/** Codes that no route declares although the product answers them, and where it does. */
export const ELSEWHERE: Partial<Record<ApiErrorCode, { place: string; why: string }>> = {
  CSP_VIOLATION_LOGGED: {
    place: 'POST /csp-report',
    why: 'it is the code of the good answer, with status 200, and no error of the route',
  },
};

export interface ErrorUse {
  /** As `POST /devices`, in the order of the routes. */
  routes: string[];
  /** As `test/worker/routes/devices.test.ts`. */
  suites: string[];
}

export type ErrorTable = Record<ApiErrorCode, ErrorUse>;

/** `expectError(…, 404, 'CODE')`, `expectSameError(…)`, and `code: 'CODE'` in the argument of a matcher. */
const ASSERTIONS = [
  /\bexpect(?:Same)?Error\([^;]*?,\s*[\w.]+,\s*'([A-Z_]+)',?\s*\)/g,
  /\.to[A-Z]\w+\([^;]*?\bcode: '([A-Z_]+)'/g,
];
/** A test with a table of cases that ends with `expectError(…, code)`; the code is the last value of each case. */
const CASES = /\bit\.for\((?:(?!\bit[.(])[\s\S])*?\bexpect(?:Same)?Error\([^;]*?,\s*code,?\s*\)/g;
const CODE_OF_CASE = /'([A-Z_]+)',?\s*\]/g;

/** The codes that the source of a suite asserts. A code in a mere list or a title is not among them. */
export function assertedCodes(source: string): Set<string> {
  const cases = [...source.matchAll(CASES)].map(([text]) => text);
  const found = [
    ...ASSERTIONS.flatMap((pattern) => [...source.matchAll(pattern)]),
    ...cases.flatMap((text) => [...text.matchAll(CODE_OF_CASE)]),
  ];
  return new Set(found.map(([, code = '']) => code));
}

/** Returns the routes and suites of every code, also of the reserved ones, which have none. */
export async function errorTable(): Promise<ErrorTable> {
  const routes = await declaredByRoutes();
  const suites = SUITES.flatMap(suitesIn).map((name) => {
    return { name, codes: assertedCodes(readFileSync(join(ROOT, name), 'utf8')) };
  });
  const uses = codesInOrder().map((code) => [
    code,
    {
      routes: routes.filter(({ codes }) => codes.includes(code)).map(({ name }) => name),
      suites: suites.filter(({ codes }) => codes.has(code)).map(({ name }) => name),
    },
  ]);
  return Object.fromEntries(uses) as ErrorTable;
}

function codesInOrder(): ApiErrorCode[] {
  return (Object.keys(ERROR_STATUS) as ApiErrorCode[]).sort();
}

/** The Worker is written for another runtime's types, so the compiler must not follow these imports. */
async function declaredByRoutes(): Promise<{ name: string; codes: readonly string[] }[]> {
  const worker = new URL('../../worker/', import.meta.url);
  const { ROUTES } = await import(new URL('app.ts', worker).href);
  const { errorsOf } = await import(new URL('route.ts', worker).href);
  return (ROUTES as { method: string; path: string }[]).map((route) => {
    return { name: `${route.method} ${route.path.replace('/api/v1', '')}`, codes: errorsOf(route) };
  });
}

function suitesIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join(folder, name))
    .sort();
}
