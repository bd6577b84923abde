/**
 * JSON Schemas (2020-12, the dialect of OpenAPI 3.1) of zod schemas: each named one once, under its name, and every
 * field described.
 */
import * as z from 'zod';
import { setNumberFormat } from '../../../protocol/number-format.ts';
import { FIELDS } from './fields.ts';
import { NAMES, type SchemaName } from './names.ts';
import { OWN_FIELDS } from './own-fields.ts';

export type Json = Record<string, unknown>;
type Direction = 'input' | 'output';

/** Marks, while a document is made, the schema that a name stands for. */
const NAME = 'x-name';

/** The schemas of one document. */
export class SchemaCollection {
  readonly #named = new Map<string, Json>();

  /** `#/components/schemas` with all schemas that were made so far. */
  get components(): Record<string, Json> {
    return Object.fromEntries([...this.#named].sort(([one], [other]) => (one < other ? -1 : 1)));
  }

  /**
   * The JSON Schema of a zod schema, with references to the named ones. `io`: for a request or for an answer. `place`:
   * the operation, in whose name the fields of an unnamed schema have texts of their own.
   */
  schemaOf(schema: z.ZodType, io: Direction, place: string): Json {
    const { $schema: _dialect, ...whole } = z.toJSONSchema(schema, {
      target: 'draft-2020-12',
      io,
      override: ({ zodSchema, jsonSchema }) => {
        const { parameter } = jsonSchema;
        const name = NAMES.get(zodSchema);
        if (name) jsonSchema[NAME] = name;
        setNumberFormat(jsonSchema);
        if (!parameter) return;
        // zod sees a query parameter as a string; `parameter` documents its real type, for example an integer.
        for (const key of Object.keys(jsonSchema)) delete jsonSchema[key];
        Object.assign(jsonSchema, parameter);
        setNumberFormat(jsonSchema);
      },
    });
    return this.#described(whole, place, io);
  }

  /** `place`: the schema's or the operation's name, and the fields that lead from it to this one. */
  #described(schema: Json, place: string, io: Direction): Json {
    const { [NAME]: name, ...rest } = schema as Json & { [NAME]?: SchemaName };
    if (name) return { $ref: `#/components/schemas/${this.#add(name, rest, io)}` };
    const described: Json = { ...rest };
    for (const key of ['items', 'additionalProperties'] as const) {
      const inner = rest[key];
      if (typeof inner === 'object' && inner !== null)
        described[key] = this.#described(inner as Json, place, io);
    }
    for (const key of ['anyOf', 'oneOf', 'allOf'] as const) {
      const inner = rest[key] as Json[] | undefined;
      if (inner) described[key] = inner.map((one) => this.#described(one, place, io));
    }
    if (rest.properties) {
      const fields = Object.entries(rest.properties as Record<string, Json>).map(([field, inner]) => {
        const at = `${place}.${field}`;
        return [field, { ...this.#described(inner, at, io), description: descriptionOf(field, at) }];
      });
      described.properties = Object.fromEntries(fields);
    }
    return described;
  }

  /** Returns the name under which the schema is; one that differs as a request has a name of its own. */
  #add(name: SchemaName, schema: Json, io: Direction): string {
    const described = this.#described(schema, name, io);
    const own = this.#named.get(name);
    if (own && JSON.stringify(own) === JSON.stringify(described)) return name;
    const free = own ? `${name}${io === 'input' ? 'Input' : 'Output'}` : name;
    this.#named.set(free, described);
    return free;
  }
}

/**
 * What a field or parameter means. `place` as in `OWN_FIELDS`. A field without a text gets `MISSING_TEXT`, which a test
 * finds; the document is still made.
 */
export function descriptionOf(name: string, place: string): string {
  return OWN_FIELDS[place] ?? FIELDS[name] ?? `${MISSING_TEXT} ${place}: add it to fields.ts`;
}

/** How the description of a field without a text begins. */
const MISSING_TEXT = 'No text of';
