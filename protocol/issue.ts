/** Converts schema errors into texts for the sender: all faults at once, up to a limit. */
import type { z } from 'zod';
import { cut } from './cut.ts';
import { LIMIT } from './limits.ts';

/** The first fault, as `field: reason`. */
export function firstIssue(error: z.ZodError): string {
  const [issue] = error.issues;
  return issue ? textOf(issue) : 'invalid';
}

/** All faults, each as `field: reason`. */
export function allIssues(error: z.ZodError): string[] {
  return error.issues.map(textOf);
}

/** The first faults, each truncated, and the number of omitted ones. */
export function boundedFaults(faults: readonly string[]): string[] {
  const shown = faults.slice(0, LIMIT.faultsReported).map((fault) => cut(fault, LIMIT.faultCharacters));
  const more = faults.length - shown.length;
  return more > 0 ? [...shown, `and ${more} more`] : shown;
}

/** `boundedFaults` as one text. */
export function faultsText(faults: readonly string[]): string {
  return boundedFaults(faults).join('; ');
}

/**
 * Options for a check across fields: zod runs it even if single fields are invalid, so that the sender gets
 * all faults at once. The check must therefore expect fields of any type.
 */
export const ACROSS_FIELDS = {
  when: ({ value }: { value: unknown }) =>
    typeof value === 'object' && value !== null && !Array.isArray(value),
};

function textOf({ path, message }: z.core.$ZodIssue): string {
  return path.length > 0 ? `${path.join('.')}: ${message}` : message;
}
