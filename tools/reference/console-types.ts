/**
 * Writes the types of the API's paths, from our OpenAPI document, in the form that `openapi-fetch` reads. The console's
 * calls are checked against them. The known generator for this needs an older TypeScript than the project has.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ASSETS_FOLDER, buildApiDocuments } from '../assets.ts';
import { FILES } from './documents.ts';

const FILE = join(import.meta.dirname, '..', '..', 'dist', 'console', 'api.d.ts');
const METHODS = ['get', 'put', 'post', 'delete', 'patch'] as const;
const JSON_TYPE = 'application/json';

interface Schema {
  $ref?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  type?: string | string[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
}

type Content = Record<string, { schema?: Schema }>;

interface Operation {
  parameters?: { name: string; in: string; required?: boolean; schema: Schema }[];
  requestBody?: { required?: boolean; content: Content };
  responses: Record<string, { content?: Content }>;
}

interface Document {
  paths: Record<string, Partial<Record<(typeof METHODS)[number], Operation>>>;
  components: { schemas: Record<string, Schema> };
}

export function apiTypes({ paths, components }: Document): string {
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) => `    ${name}: ${typeOf(schema)};`,
  );
  const all = Object.entries(paths).map(([path, operations]) => {
    const methods = METHODS.map((method) => `${method}${operationOf(operations[method])}`);
    return `  ${JSON.stringify(path)}: { parameters: Parameters; ${methods.join('; ')} };`;
  });
  return [
    '// Written by tools/reference/console-types.ts.',
    'type Parameters = { query?: never; header?: never; path?: never; cookie?: never };',
    'export interface components {',
    '  schemas: {',
    ...schemas,
    '  };',
    '}',
    'export interface paths {',
    ...all,
    '}',
    '',
  ].join('\n');
}

function operationOf(operation: Operation | undefined): string {
  if (!operation) return '?: never';
  const of = (place: string) => {
    const own = (operation.parameters ?? []).filter((parameter) => parameter.in === place);
    // The client adds the organization to every request.
    const fields = own.map(
      ({ name, required, schema }) =>
        `${JSON.stringify(name)}${required && name !== 'x-org-id' ? '' : '?'}: ${typeOf(schema)}`,
    );
    const isNeeded = own.some(({ name, required }) => required && name !== 'x-org-id');
    return own.length === 0 ? `${place}?: never` : `${place}${isNeeded ? '' : '?'}: { ${fields.join('; ')} }`;
  };
  const body = operation.requestBody;
  const bodyType = body
    ? `requestBody${body.required === false ? '?' : ''}: { content: ${contentOf(body.content)} }`
    : 'requestBody?: never';
  const responses = Object.entries(operation.responses).map(([status, { content }]) => {
    const shape = content ? `content: ${contentOf(content)}` : 'content?: never';
    return `${/^\d+$/.test(status) ? status : JSON.stringify(status)}: { headers: object; ${shape} }`;
  });
  const parameters = ['query', 'header', 'path', 'cookie'].map(of).join('; ');
  return `: { parameters: { ${parameters} }; ${bodyType}; responses: { ${responses.join('; ')} } }`;
}

function contentOf(content: Content): string {
  const [type = JSON_TYPE, { schema } = {}] = Object.entries(content)[0] ?? [];
  return `{ ${JSON.stringify(type)}: ${schema ? typeOf(schema) : 'unknown'} }`;
}

function typeOf(schema: Schema): string {
  if (schema.$ref) return `components['schemas']['${schema.$ref.split('/').at(-1)}']`;
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return choices.map((one) => `(${typeOf(one)})`).join(' | ');
  if (schema.allOf) return schema.allOf.map((one) => `(${typeOf(one)})`).join(' & ');
  const types = [schema.type ?? 'unknown'].flat();
  return types.map((type) => plainType(type, schema)).join(' | ');
}

function plainType(type: string, schema: Schema): string {
  switch (type) {
    case 'integer':
      return 'number';
    case 'array':
      return `(${schema.items ? typeOf(schema.items) : 'unknown'})[]`;
    case 'object':
      return objectType(schema);
    default:
      return type;
  }
}

function objectType({ properties, required = [], additionalProperties }: Schema): string {
  if (!properties)
    return `Record<string, ${typeof additionalProperties === 'object' ? typeOf(additionalProperties) : 'unknown'}>`;
  const fields = Object.entries(properties).map(
    ([name, schema]) => `${JSON.stringify(name)}${required.includes(name) ? '' : '?'}: ${typeOf(schema)}`,
  );
  return `{ ${fields.join('; ')} }`;
}

if (process.argv[1] === import.meta.filename) {
  buildApiDocuments();
  const document = JSON.parse(readFileSync(join(ASSETS_FOLDER, FILES.openApi), 'utf8')) as Document;
  mkdirSync(dirname(FILE), { recursive: true });
  writeFileSync(FILE, apiTypes(document));
}
