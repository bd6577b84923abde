/** What a schema found wrong, in words for whoever sent it. */
import type { z } from 'zod';

/** The first thing wrong, as `field: what`. */
export function firstIssue(error: z.ZodError): string {
  const issue = error.issues[0];
  if (!issue) return 'invalid';
  const path = issue.path.join('.');
  return path ? `${path}: ${issue.message}` : issue.message;
}
