/**
 * Parses path parameters, query parameters and bodies by their schemas. A query parameter may be given only once.
 * Errors name the field (spec: 400 VALIDATION_ERROR).
 */
import type { Context } from 'hono';
import * as z from 'zod';
import { cut } from '../../protocol/cut.ts';
import type { ApiErrorCode } from '../../protocol/errors.ts';
import { formatInstant, parseInstant, uuid } from '../../protocol/ids.ts';
import { allIssues, boundedFaults } from '../../protocol/issue.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { nearest } from '../../protocol/nearest.ts';
import { PAGE, type PageRequest } from '../../protocol/page.ts';
import type { AppContext } from '../env.ts';
import { ApiError, invalidBody } from './error-response.ts';
import { parseCursor } from './long-page.ts';

const MAX_NAME_CHARS = 64;

type Parameters = z.ZodObject<z.ZodRawShape>;
type ParameterCode = 'VALIDATION_ERROR' | 'INVALID_UUID';

export function readQuery(c: Context<AppContext>, schema: Parameters): unknown {
  requireKnown(Object.keys(c.req.queries()), Object.keys(schema.shape));
  const raw: Record<string, string> = {};
  const repeated: string[] = [];
  for (const name of Object.keys(schema.shape)) {
    const values = c.req.queries(name) ?? [];
    if (values.length > 1) repeated.push(`${name}: given ${values.length} times: send it once`);
    if (values[0] !== undefined) raw[name] = values[0];
  }
  if (repeated.length > 0) throw invalid(repeated);
  const query = parse(schema, raw);
  if (schema.shape.page === pageParameters.page) requireReach(schema, query as PageRequest);
  return query;
}

/** Throws 400 for a parameter that the route does not have: a filter that is ignored answers with everything [C-10]. */
function requireKnown(given: readonly string[], known: readonly string[]): void {
  const faults = given
    .filter((name) => !known.includes(name))
    .map((name) => {
      const suggestion = nearest(name, known);
      const remedy = suggestion
        ? `did you mean "${suggestion}"?`
        : known.length > 0
          ? `known are ${known.join(', ')}`
          : 'this request takes none';
      return `${cut(name, MAX_NAME_CHARS)}: unknown query parameter: ${remedy}`;
    });
  if (faults.length > 0) throw invalid(faults);
}

/**
 * Throws 400 for a page after the first LIMIT.listTotal rows. The number is limited because the database
 * reads all rows before a page, too [C-14.3].
 */
function requireReach(schema: Parameters, { page, limit, before }: PageRequest): void {
  if (before !== undefined && page !== 1) throw invalidParameter('page: omit it if you send before');
  if ((page - 1) * limit < LIMIT.listTotal) return;
  const remedy = 'before' in schema.shape ? 'send meta.next as before for later ones' : 'use a filter';
  throw invalidParameter(`page: pages reach only the first ${LIMIT.listTotal} rows: ${remedy}`);
}

/** `code`: INVALID_UUID on admin surfaces, VALIDATION_ERROR on the partner surface and on public routes [C-10]. */
export function readPath(c: Context<AppContext>, schema: Parameters, code: ParameterCode): unknown {
  return parse(schema, c.req.param(), code);
}

/**
 * Parses the JSON body by its schema; errors name unknown fields. `fieldCodes`: the error codes of single fields; the
 * first one of a field with a fault is answered, and `details` has all faults.
 */
export function readBody(
  c: Context<AppContext>,
  schema: z.ZodType,
  {
    isBodyOptional,
    fieldCodes = {},
  }: { isBodyOptional?: true; fieldCodes?: Readonly<Record<string, ApiErrorCode>> },
): unknown {
  const given = c.get('body');
  const body = given === undefined && isBodyOptional ? {} : given;
  if (body === undefined) throw invalidBody('body: required, as a JSON object');
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const faults = boundedFaults(allIssues(parsed.error));
  const fields = parsed.error.issues.map(({ path }) => String(path[0]));
  const code = fields.map((field) => fieldCodes[field]).find((one) => one !== undefined);
  if (code === undefined) throw invalidBody(...faults);
  throw new ApiError(code, `Invalid body: ${faults[0]}`, { details: faults });
}

/** The id in a path. */
export const idParameter = z.object({ id: uuid });

/** Query parameters of a paged list (spec: List endpoints). */
export const pageParameters = {
  page: integerParameter(1, PAGE.last, 1),
  limit: integerParameter(1, PAGE.rows, PAGE.rowsDefault),
};

/** Query parameters of a paged list that may have more rows than `page` can reach. */
export const longPageParameters = {
  ...pageParameters,
  before: z
    .string()
    .max(1_000)
    .transform((text, context) => {
      const cursor = parseCursor(text);
      if (!cursor) context.addIssue('must be meta.next of an earlier page');
      return cursor ?? z.NEVER;
    })
    .meta({ parameter: { type: 'string' } })
    .optional(),
};

/**
 * Schema of an integer within bounds, written only with digits. `parameter` is its schema in the OpenAPI
 * document.
 */
export function integerParameter(minimum: number, maximum: number, fallback: number) {
  return z
    .string()
    .regex(/^\d{1,9}$/, `must be an integer from ${minimum} to ${maximum}`)
    .transform(Number)
    .pipe(z.int().min(minimum).max(maximum))
    .default(fallback)
    .meta({ parameter: { type: 'integer', minimum, maximum, default: fallback } });
}

/** An ISO 8601 instant with a time zone, in epoch milliseconds. */
export const instantParameter = z
  .string()
  .transform((text, context) => {
    const atMs = parseInstant(text);
    if (atMs === undefined)
      context.addIssue('must be an ISO 8601 instant with a time zone, for example 2026-01-15T10:00:00Z');
    return atMs ?? z.NEVER;
  })
  .meta({ parameter: { type: 'string', format: 'date-time' } });

/** Throws 400 unless `from` is before `to`. */
export function requireRange(fromMs: number, toMs: number): void {
  if (fromMs < toMs) return;
  throw invalidParameter(`from: ${formatInstant(fromMs)} must be before to, ${formatInstant(toMs)}`);
}

/** Throws 400 if the range is longer than one request may have. `fits`: what the client can request instead. */
export function requireSpan(fromMs: number, toMs: number, most: { spanMs: number; fits: string }): void {
  if (toMs - fromMs <= most.spanMs) return;
  throw invalidParameter(`to: the range is longer than ${most.spanMs / 86_400_000} days; ${most.fits}`);
}

/** 400 for one parameter. `detail`: `name: what is wrong`. */
export function invalidParameter(detail: string): ApiError {
  return invalid([detail]);
}

function parse(
  schema: Parameters,
  raw: Record<string, string>,
  code: ParameterCode = 'VALIDATION_ERROR',
): unknown {
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  throw invalid(allIssues(parsed.error), code);
}

function invalid(details: string[], code: ParameterCode = 'VALIDATION_ERROR'): ApiError {
  const bounded = boundedFaults(details);
  return new ApiError(code, `Invalid request parameters: ${bounded[0]}`, { details: bounded });
}
