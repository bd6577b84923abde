/** Where an event stream begins: the sequence of an event, in a header or a query parameter [C-12.3]. */
import type { Context } from 'hono';
import * as z from 'zod';
import type { AppContext } from '../env.ts';
import { invalidParameter } from './query.ts';

/** Sequences begin at the clock's milliseconds and grow by one for each event. */
const MAX_SEQUENCE = 999_999_999_999_999;
const SEQUENCE = /^\d{1,15}$/;
const SEQUENCE_FAULT = 'must be the sequence of an event, or 0';

export const afterParameter = z
  .string()
  .regex(SEQUENCE, SEQUENCE_FAULT)
  .transform(Number)
  .meta({ parameter: { type: 'integer', minimum: 0, maximum: MAX_SEQUENCE } });

/** The header with which a client resumes a stream. */
export function lastEventId(c: Context<AppContext>): number | undefined {
  const text = c.req.header('last-event-id');
  if (text === undefined || text === '') return undefined;
  if (!SEQUENCE.test(text)) throw invalidParameter(`Last-Event-ID: ${SEQUENCE_FAULT}`);
  return Number(text);
}
