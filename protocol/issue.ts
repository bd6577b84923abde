/** What a schema found wrong, in words for whoever sent it: all of it at once, as far as that is bounded. */
import type { z } from 'zod';
import { cut } from './cut.ts';
import { LIMIT } from './limits.ts';

/** The first thing wrong, as `field: what`. */
export function firstIssue(error: z.ZodError): string {
  const [issue] = error.issues;
  return issue ? textOf(issue) : 'invalid';
}

/** All that is wrong, each as `field: what`. */
export function allIssues(error: z.ZodError): string[] {
  return error.issues.map(textOf);
}

/** As many of them as anybody is told, and how many more there are. */
export function boundedFaults(faults: readonly string[]): string[] {
  const told = faults.slice(0, LIMIT.faultsTold).map((fault) => cut(fault, LIMIT.faultCharacters));
  const more = faults.length - told.length;
  return more > 0 ? [...told, `and ${more} more`] : told;
}

/** The same as one text. */
export function faultsText(faults: readonly string[]): string {
  return boundedFaults(faults).join('; ');
}

/**
 * For a check across fields: it runs though single fields are wrong, so that all faults are told at once. The fields
 * that it sees are then of any type.
 */
export const ACROSS_FIELDS = {
  when: ({ value }: { value: unknown }) =>
    typeof value === 'object' && value !== null && !Array.isArray(value),
};

function textOf({ path, message }: z.core.$ZodIssue): string {
  return path.length > 0 ? `${path.join('.')}: ${message}` : message;
}
