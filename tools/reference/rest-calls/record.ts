/** Records the examples of the OpenAPI document: the answers to the calls of the REST reference. */
import type { ApiErrorCode } from '../../../protocol/errors.ts';
import type { Stack } from '../../stack-file.ts';
import type { Call, RouteFacts } from './call.ts';
import { CALLS, END_CALLS } from './calls.ts';
import { ERROR_CALLS } from './errors.ts';
import { type Outcome, runCalls, type Transport } from './run.ts';

export interface Recorded {
  calls: Record<string, { body?: unknown; answer: unknown }>;
  errors: Partial<Record<ApiErrorCode, unknown>>;
}

/** Runs all calls on a stack that has none of their organizations yet. */
export async function record(
  stack: Stack,
  factsOf: (route: string) => RouteFacts,
  transport: Transport = 'fetch',
): Promise<Recorded> {
  const causes = new Map<Call, ApiErrorCode>(
    Object.entries(ERROR_CALLS).map(([code, call]) => [call, code as ApiErrorCode]),
  );
  const outcomes = await runCalls(stack, [...CALLS, ...causes.keys(), ...END_CALLS], factsOf, transport);
  const recorded: Recorded = { calls: {}, errors: {} };
  for (const outcome of outcomes) {
    const code = causes.get(outcome.call);
    if (code) recorded.errors[code] = errorOf(code, outcome);
    else if (!outcome.call.isHidden) recorded.calls[outcome.call.route] = exampleOf(outcome);
  }
  return recorded;
}

function exampleOf({ call, status, body, answer }: Outcome): Recorded['calls'][string] {
  if (status >= 300) throw new Error(`${call.route} answered ${status}: ${JSON.stringify(answer)}`);
  return body === undefined ? { answer } : { body, answer };
}

function errorOf(code: ApiErrorCode, { call, answer }: Outcome): unknown {
  if ((answer as { code?: unknown }).code !== code)
    throw new Error(`${call.route} did not answer ${code}: ${JSON.stringify(answer)}`);
  return answer;
}
