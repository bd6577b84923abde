/** What a schema found wrong, in words for whoever sent it. */
import type { z } from 'zod';

const MAX_ISSUES = 20;

/** The first thing wrong, as `field: what`. */
export function firstIssue(error: z.ZodError): string {
  const [issue] = error.issues;
  return issue ? textOf(issue) : 'invalid';
}

/** All that is wrong, up to twenty things. */
export function allIssues(error: z.ZodError): string[] {
  return error.issues.slice(0, MAX_ISSUES).map(textOf);
}

function textOf({ path, message }: z.core.$ZodIssue): string {
  return path.length > 0 ? `${path.join('.')}: ${message}` : message;
}
