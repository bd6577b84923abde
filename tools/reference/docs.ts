/**
 * Generates the parts of docs/amqp.md and docs/mqtt.md that come from schemas, examples and limits. Each
 * follows its marker:
 *
 *   <!-- example: SiteSetpoint -->   a block of JSON: an example of the AsyncAPI document
 *   <!-- fields: SiteSetpoint -->    a table with a row for each field of a schema; the text of its last column is kept.
 *                                    Values that do not fit into a row are in a list below the table
 *   <!-- limits -->                  a table with the limit's `name` in its last column and the value before it
 *
 * `npm run docs` writes them and the signature vectors, and builds the pages that a deployment serves below /docs; a test checks that no fact is
 * missing in the two documents.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LIMITS, type LimitName } from '../../protocol/limits.ts';
import { buildAssets } from '../assets.ts';
import { COMMAND_EXAMPLES, PUBLISHES } from './asyncapi/commands.ts';
import { EVENTS, SAYS } from './asyncapi/examples.ts';
import { SCHEMAS, type SchemaName } from './asyncapi/schema.ts';
import { show } from './show-json.ts';
import { vectors } from './vectors.ts';

const DOCS = join(import.meta.dirname, '..', '..', 'docs');
const VECTORS = 'signature-vectors.json';
export const FILLED = ['amqp.md', 'mqtt.md'];
const TABLE_WIDTH = 160;

interface Field {
  $ref?: string;
  type?: string;
  const?: unknown;
  enum?: unknown[];
  format?: string;
  pattern?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  items?: Field;
  anyOf?: Field[];
  properties?: Record<string, Field>;
  required?: string[];
}

/** Returns the document with all generated parts as they are now. Throws if a marker names nothing known. */
export function fill(text: string): string {
  return text
    .replace(/(<!-- example: (\w+) -->\n```json\n)[\s\S]*?^```$/gm, (_all, before, name) => {
      return `${before}${show(exampleOf(name))}\n\`\`\``;
    })
    .replace(
      /(<!-- fields: (\w+) -->\n)((?:\|.*\n)*)(?:\n(?:- .*: one of .*\n)+)?/g,
      (_all, before, name, table) => {
        return `${before}${fieldsTable(name, table)}`;
      },
    )
    .replace(/(<!-- limits -->\n)((?:\|.*\n)*)/g, (_all, before, table) => `${before}${limitsTable(table)}`);
}

function exampleOf(name: string): unknown {
  const published = PUBLISHES[name as keyof typeof PUBLISHES] ?? EVENTS[name as keyof typeof EVENTS];
  const found =
    published?.message ??
    SAYS[name as keyof typeof SAYS] ??
    COMMAND_EXAMPLES[name as keyof typeof COMMAND_EXAMPLES];
  if (!found) throw new Error(`unknown example "${name}"`);
  return found;
}

function fieldsTable(name: string, current: string): string {
  const schema = SCHEMAS[name as SchemaName] as Field | undefined;
  if (!schema) throw new Error(`unknown schema "${name}"`);
  const meanings = new Map(rowsOf(current).map((cells) => [cells[0], cells[3] ?? '']));
  /** The fields whose values do not fit into their rows, by those values. */
  const listed = new Map<string, string[]>();
  const rows = fieldsOf(schema).map(([path, type, required]) => {
    const cell = `\`${path}\``;
    const row = (shown: string) =>
      `| ${cell} | ${shown} | ${required ? 'yes' : 'no'} | ${meanings.get(cell) ?? ''} |\n`;
    if (row(type).length <= TABLE_WIDTH + 1 || !type.includes('`, `')) return row(type);
    listed.set(type, [...(listed.get(type) ?? []), cell]);
    return row(`one of ${type.split(', ').length} words`);
  });
  const table = `| field | type | required | meaning |\n|---|---|---|---|\n${rows.join('')}`;
  const lists = [...listed].map(([values, cells]) => `- ${cells.join(', ')}: one of ${values}\n`);
  return lists.length === 0 ? table : `${table}\n${lists.join('')}`;
}

/** The cells of a table's rows, without its two header lines. */
function rowsOf(table: string): string[][] {
  const lines = table.trimEnd().split('\n').slice(2);
  return lines.map((line) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

/**
 * All fields by path, with `[]` for lists. Of alternatives it lists the fields of each; a field is required
 * if all require it.
 */
function fieldsOf(schema: Field, path = ''): [path: string, type: string, required: boolean][] {
  const forms = (schema.anyOf ?? [schema]).filter(({ properties }) => properties);
  const names = [...new Set(forms.flatMap(({ properties = {} }) => Object.keys(properties)))];
  return names.flatMap((name) => {
    const field = forms.find(({ properties }) => properties?.[name])?.properties?.[name] ?? {};
    const required = forms.every((form) => form.required?.includes(name) ?? false);
    const own = `${path}${name}`;
    const below = field.items ? fieldsOf(field.items, `${own}[].`) : fieldsOf(field, `${own}.`);
    return [[own, typeOf(field), required] as [string, string, boolean], ...below];
  });
}

function typeOf(field: Field): string {
  if (field.anyOf) return field.anyOf.map(typeOf).join(' or ');
  if (field.const !== undefined) return `\`${field.const}\``;
  if (field.enum) return field.enum.map((word) => `\`${word}\``).join(', ');
  if (field.format === 'date-time') return 'time';
  if (field.format === 'uuid') return 'UUID';
  if (field.pattern?.includes('{64}')) return '64 lower-case hex characters';
  return [wordOf(field), boundsOf(field), defaultOf(field)].filter((part) => part !== '').join(', ');
}

function wordOf({ type, items }: Field): string {
  if (type === 'array') return items?.type === 'object' ? 'list of objects' : 'list';
  return type === 'string' ? 'text' : type === 'boolean' ? 'true or false' : (type ?? 'anything');
}

function boundsOf(field: Field): string {
  const { minimum: least = field.minLength ?? field.minItems } = field;
  const { maximum: most = field.maxLength ?? field.maxItems } = field;
  const unit = field.type === 'string' ? ' characters' : '';
  if (least === undefined && most === undefined) return '';
  if (least === undefined || most === undefined)
    return least === undefined ? `at most ${plain(most)}${unit}` : `at least ${plain(least)}${unit}`;
  return `${plain(least)} to ${plain(most)}${unit}`;
}

function defaultOf(field: Field): string {
  return field.default === undefined ? '' : `default ${field.default}`;
}

function limitsTable(table: string): string {
  const rows = rowsOf(table).map(([what = '', , name = '']) => {
    const known = name.replaceAll('`', '');
    if (!Object.hasOwn(LIMITS, known)) throw new Error(`unknown limit ${name}`);
    return `| ${what} | ${amountOf(known as LimitName)} | \`${known}\` |\n`;
  });
  return `| limit | value | name |\n|---|---|---|\n${rows.join('')}`;
}

const STEPS: Record<string, readonly [each: number, unit: string][]> = {
  ms: [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'min'],
    [1_000, 's'],
    [1, 'ms'],
  ],
  bytes: [
    [1_048_576, 'MiB'],
    [1_024, 'KiB'],
    [1, 'bytes'],
  ],
};

/**
 * The value in the largest unit of which it is a whole number, and the organization's setting that can change
 * it.
 */
function amountOf(name: LimitName): string {
  const [value, unit, , setting] = LIMITS[name] as readonly [number, string, string, string?];
  const [each, word] = STEPS[unit]?.find(([size]) => value % size === 0) ?? [1, unit];
  const shown = word === 'any' ? plain(value) : `${plain(value / each)} ${word}`;
  return setting === undefined ? shown : `${shown} (setting \`${setting}\`)`;
}

/** Groups digits: `131 072`. Powers of ten from a million on are written as `1e6`. */
function plain(value: number | undefined = 0): string {
  const exponent = Math.log10(Math.abs(value));
  if (exponent >= 6 && Number.isInteger(exponent)) return `${value < 0 ? '-' : ''}1e${exponent}`;
  return String(value).replace(/\B(?=(\d{3})+$)/g, ' ');
}

if (import.meta.main) {
  for (const name of FILLED) {
    const file = join(DOCS, name);
    writeFileSync(file, fill(readFileSync(file, 'utf8')));
  }
  writeFileSync(join(DOCS, VECTORS), `${JSON.stringify(vectors(), null, 2)}\n`);
  await buildAssets();
}
