/** Converts schema errors into texts for the sender: all faults at once, up to a limit. */
import type * as z from 'zod';
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

function textOf(issue: z.core.$ZodIssue): string {
  const what = reasonOf(issue);
  return issue.path.length > 0 ? `${issue.path.join('.')}: ${what}` : what;
}

/**
 * The beginnings of messages that zod generates. These are replaced by our texts; a message that a schema
 * defines is not changed.
 */
const WRITTEN_BY_ZOD = /^(Invalid|Too small|Too big|Unrecognized)/;

/** What is wrong with one value, and what it must be. */
function reasonOf(issue: z.core.$ZodIssue): string {
  if (!WRITTEN_BY_ZOD.test(issue.message)) return issue.message;
  switch (issue.code) {
    case 'invalid_type':
      return issue.message.endsWith('received undefined')
        ? 'is required'
        : `must be ${TYPES[issue.expected] ?? `of type ${issue.expected}`}`;
    case 'too_small':
      return boundOf(issue.origin, Number(issue.minimum), issue.inclusive === false ? 'above' : 'from');
    case 'too_big':
      return boundOf(issue.origin, Number(issue.maximum), issue.inclusive === false ? 'below' : 'to');
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`;
    case 'unrecognized_keys':
      return `unknown field${issue.keys.length > 1 ? 's' : ''} ${issue.keys.map((key) => `"${key}"`).join(', ')}`;
    case 'invalid_value':
      return `must be ${oneOf(issue.values)}`;
    case 'invalid_format':
      return issue.format === 'regex' && issue.pattern !== undefined
        ? `must match ${issue.pattern}`
        : `must be ${FORMATS[issue.format] ?? `in the form of ${issue.format}`}`;
    case 'invalid_union':
      return 'has none of the allowed forms';
    default:
      return 'is not valid';
  }
}

const TYPES: Record<string, string> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  record: 'an object',
  array: 'a list',
  null: 'null',
};

const FORMATS: Record<string, string> = {
  uuid: 'a UUID',
  email: 'an e-mail address',
  datetime: 'a time such as 2026-01-15T10:00:00Z',
  date: 'a date such as 2026-01-15',
};

function boundOf(origin: string, bound: number, side: 'from' | 'above' | 'to' | 'below'): string {
  if (origin === 'string' || origin === 'array') {
    const thing = origin === 'string' ? 'character' : 'item';
    if (side === 'from' && bound === 1)
      return origin === 'string' ? 'must not be empty' : 'must have an item';
    const most = side === 'from' ? 'at least' : 'at most';
    return `must have ${most} ${bound} ${thing}${bound === 1 ? '' : 's'}`;
  }
  const words = { from: 'at least', above: 'more than', to: 'at most', below: 'less than' };
  return `must be ${words[side]} ${bound}`;
}

/** A list of words that is never cut inside a word. */
function oneOf(values: readonly unknown[]): string {
  const [first] = values;
  if (values.length === 1) return JSON.stringify(first);
  const words = values.map(String);
  const shown: string[] = [];
  for (const word of words) {
    if ([...shown, word].join(', ').length > MAX_WORDS_CHARS) break;
    shown.push(word);
  }
  const more = words.length - shown.length;
  return `one of ${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Maximum length of a list of words; short enough that the field's name also fits into one fault. */
const MAX_WORDS_CHARS = 120;
