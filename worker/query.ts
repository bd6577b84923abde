/** Query parameters, strict: each at most once, parsed by a schema, refused by name (spec: 400 VALIDATION_ERROR). */
import type { Context } from 'hono';
import { z } from 'zod';
import { isUuid } from '../protocol/ids.ts';
import type { AppContext } from './env.ts';
import { ApiError } from './error-response.ts';

export function readQuery<Shape extends z.ZodRawShape>(
  c: Context<AppContext>,
  schema: z.ZodObject<Shape>,
): z.infer<z.ZodObject<Shape>> {
  const raw: Record<string, string> = {};
  for (const name of Object.keys(schema.shape)) {
    const values = c.req.queries(name) ?? [];
    if (values.length > 1) throw invalid([`${name}: must be given once`]);
    if (values[0] !== undefined) raw[name] = values[0];
  }
  const parsed = schema.safeParse(raw);
  if (parsed.success) return parsed.data;
  throw invalid(parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`));
}

/** Plain digits within bounds: no sign, no exponent, nothing behind. */
export function integerParameter(minimum: number, maximum: number, fallback: number) {
  return z
    .string()
    .regex(/^\d{1,9}$/, `must be an integer from ${minimum} to ${maximum}`)
    .transform(Number)
    .pipe(z.number().min(minimum).max(maximum))
    .default(fallback);
}

/** A path id on the partner surface, in lower case [C-10]. */
export function uuidParameter(c: Context<AppContext>, name: string): string {
  const value = c.req.param(name) ?? '';
  if (!isUuid(value)) throw invalid([`${name}: must be a UUID`]);
  return value.toLowerCase();
}

function invalid(details: string[]): ApiError {
  return new ApiError('VALIDATION_ERROR', 'Invalid request parameters', { details });
}
