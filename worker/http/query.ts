/** Path and query parameters, strict: each at most once, parsed by a schema, refused by name (spec: 400 VALIDATION_ERROR). */
import type { Context } from 'hono';
import { z } from 'zod';
import type { AppContext } from '../env.ts';
import { ApiError } from './error-response.ts';

type Parameters = z.ZodObject<z.ZodRawShape>;

export function readQuery(c: Context<AppContext>, schema: Parameters): unknown {
  const raw: Record<string, string> = {};
  for (const name of Object.keys(schema.shape)) {
    const values = c.req.queries(name) ?? [];
    if (values.length > 1) throw invalid([`${name}: must be given once`]);
    if (values[0] !== undefined) raw[name] = values[0];
  }
  return parse(schema, raw);
}

export function readPath(c: Context<AppContext>, schema: Parameters): unknown {
  return parse(schema, c.req.param());
}

/** Plain digits within bounds: no sign, no exponent, nothing behind. `parameter`: what it is to its reader. */
export function integerParameter(minimum: number, maximum: number, fallback: number) {
  return z
    .string()
    .regex(/^\d{1,9}$/, `must be an integer from ${minimum} to ${maximum}`)
    .transform(Number)
    .pipe(z.int().min(minimum).max(maximum))
    .default(fallback)
    .meta({ parameter: { type: 'integer', minimum, maximum, default: fallback } });
}

function parse(schema: Parameters, raw: Record<string, string>): unknown {
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  throw invalid(parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`));
}

function invalid(details: string[]): ApiError {
  return new ApiError('VALIDATION_ERROR', 'Invalid request parameters', { details });
}
