/**
 * The formats of numbers in both documents, and the types that generators make of them: a generator without a format
 * makes 32 bits of an integer, and a time in milliseconds does not fit [C-15.8].
 */
import { describe, expect, it } from 'vitest';
import { asyncApiDocument } from '../tools/reference/asyncapi/document.ts';
import examples from '../tools/reference/openapi/examples.json' with { type: 'json' };

type Json = Record<string, unknown>;

/** The Worker is written for another runtime's types; only its list of routes matters here. */
const WORKER = new URL('../worker/', import.meta.url);
const { ROUTES } = await import(new URL('app.ts', WORKER).href);
const { openApiDocument } = await import(
  new URL('../tools/reference/openapi/document.ts', import.meta.url).href
);
const DOCUMENTS = {
  openapi: openApiDocument(ROUTES, examples) as Json,
  asyncapi: asyncApiDocument() as unknown as Json,
};
const INT32 = 2 ** 31;

interface Found {
  /** The names that lead to the schema. */
  path: string;
  schema: Json;
  types: unknown[];
}

/** All schemas of numbers; examples are values, not schemas. */
function numbersIn(node: unknown, path: string[] = []): Found[] {
  if (typeof node !== 'object' || node === null) return [];
  const schema = node as Json;
  const types = [schema.type].flat();
  const isNumber = types.includes('integer') || types.includes('number');
  const inner = Object.entries(schema).flatMap(([name, value]) =>
    ['example', 'examples', 'enum', 'const', 'default'].includes(name)
      ? []
      : numbersIn(value, [...path, name]),
  );
  return isNumber && path.at(-1) !== 'properties'
    ? [{ path: path.join('/'), schema, types }, ...inner]
    : inner;
}

/** Whether every value that the schema allows fits into 32 bits. */
function fitsInt32({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Json): boolean {
  const [low, high] = [minimum ?? exclusiveMinimum, maximum ?? exclusiveMaximum];
  return typeof low === 'number' && low >= -INT32 && typeof high === 'number' && high < INT32;
}

describe.each(Object.entries(DOCUMENTS))('the numbers of %s.json', (_, document) => {
  const found = numbersIn(document);

  it('have a format each: int32 where the bounds fit it, int64 for any other integer, double [C-15.8]', () => {
    expect(found.length).toBeGreaterThan(20);
    const wrong = found.flatMap(({ path, schema, types }) => {
      const wanted = types.includes('number') ? 'double' : fitsInt32(schema) ? 'int32' : 'int64';
      return schema.format === wanted ? [] : [`${path}: ${schema.format}, not ${wanted}`];
    });
    expect(wrong).toEqual([]);
  });

  it('are 64 bits wide where they are sequences, times in ms or counts of bytes [C-15.8]', () => {
    const wide = found.filter(({ path, types }) => {
      const name = path.split('/').findLast((one) => !/^(anyOf|oneOf|\d+|schema)$/.test(one)) ?? '';
      const isWide = /^(sequence|lastSequence|deliveredUpTo|firstKept|missedBefore|ts|.*Ms|.*Bytes)$/.test(
        name,
      );
      return isWide && types.includes('integer');
    });
    expect(wide.length).toBeGreaterThan(3);
    expect(wide.filter(({ schema }) => schema.format !== 'int64').map(({ path }) => path)).toEqual([]);
  });
});

interface Generator {
  generate(schema: Json): Promise<{ result: string }[]>;
}
type Generators = Record<'JavaGenerator' | 'CSharpGenerator' | 'KotlinGenerator', new () => Generator>;

/** Not a type import: the tests run without the package, too. */
const MODELINA = '@asyncapi/modelina';
const generators = await import(MODELINA).then(
  (loaded) => loaded as Generators,
  () => undefined,
);

/** The named schema with its numbers and nothing that refers to others. */
function flat(document: Json, name: string): Json {
  const { schemas } = document.components as { schemas: Record<string, Json> };
  const { properties, required } = schemas[name] as { properties: Record<string, Json>; required?: string[] };
  const numbers = Object.entries(properties).filter(([, one]) => numbersIn(one).length > 0);
  return {
    ...{ $schema: 'http://json-schema.org/draft-07/schema#', $id: name, type: 'object' },
    ...{ properties: Object.fromEntries(numbers), additionalProperties: false },
    required: (required ?? []).filter((field) => numbers.some(([own]) => own === field)),
  };
}

describe.skipIf(!generators)(`generated types${generators ? '' : ` (skipped: install ${MODELINA})`}`, () => {
  const WIDE: [keyof typeof DOCUMENTS, string, string][] = [
    ['openapi', 'JournalEvent', 'sequence'],
    ['openapi', 'EventPage', 'next'],
    ['openapi', 'WebhookDelivery', 'lastSequence'],
    ['openapi', 'TokenRenewal', 'ts'],
    ['asyncapi', 'DeviceTelemetry', 'ts'],
    ['asyncapi', 'Command', 'ts'],
  ];

  it.each([
    ['JavaGenerator', (name: string) => new RegExp(`private (long|Long) ${name};`)],
    ['CSharpGenerator', (name: string) => new RegExp(`long\\??\\s+${name}`, 'i')],
    ['KotlinGenerator', (name: string) => new RegExp(`val ${name}: Long`)],
  ] as const)(
    'hold, in %s, a sequence and a time in milliseconds [C-15.8]',
    async (language, declaration) => {
      for (const [document, schema, field] of WIDE) {
        const models = await new (generators as Generators)[language]().generate(
          flat(DOCUMENTS[document], schema),
        );
        const text = models.map(({ result }) => result).join('\n');
        expect([schema, text]).toEqual([schema, expect.stringMatching(declaration(field))]);
      }
    },
  );
});
