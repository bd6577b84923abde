/** Runs the calls of the REST reference against a stack, and makes their answers comparable. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Stack } from '../../stack-file.ts';
import { type Call, filled, filledBody, headersOf, methodOf, pathOf, type RouteFacts } from './call.ts';
import { curlOf } from './curl.ts';
import { Placeholders } from './placeholders.ts';
import { type Variables, World } from './world.ts';

const execute = promisify(execFile);
const HOUR_MS = 3_600_000;

export interface Outcome {
  call: Call;
  status: number;
  /** The body that was sent, and the answer, both with placeholders. */
  body: unknown;
  answer: unknown;
}

/** How a call is sent: by this process, or by curl, as the reader of the reference sends it. */
export type Transport = 'fetch' | 'curl';

/** Runs each call in turn, whatever its answer is. */
export async function runCalls(
  stack: Stack,
  calls: readonly Call[],
  factsOf: (route: string) => RouteFacts,
  transport: Transport,
): Promise<Outcome[]> {
  const now = Date.now();
  const at = (hours: number) => new Date(now + hours * HOUR_MS).toISOString();
  const variables: Variables = {
    OPERATOR_TOKEN: stack.operator.token,
    NOW: at(0),
    TWO_HOURS_AGO: at(-2),
    AN_HOUR_AGO: at(-1),
    IN_AN_HOUR: at(1),
    IN_TWO_HOURS: at(2),
  };
  const world = new World(stack, variables);
  const placeholders = new Placeholders(stack, now);
  const outcomes: Outcome[] = [];
  try {
    for (const call of calls) {
      Object.assign(variables, await call.prepare?.(world));
      const facts = factsOf(call.route);
      const body = call.body === undefined ? undefined : filledBody(call.body, variables);
      const { status, answer } =
        transport === 'curl'
          ? await byCurl(stack.baseUrl, call, curlOf(call, facts), variables)
          : await byFetch(stack.baseUrl, call, facts, { variables, body });
      for (const [name, path] of Object.entries(call.save ?? {}))
        variables[name] = valueAt(answer, path, call);
      await call.finish?.(world);
      outcomes.push({ call, status, body: placeholders.in(body), answer: placeholders.in(answer) });
    }
  } finally {
    await world.close();
  }
  return outcomes;
}

/** curl ends with this code when the time of `-m` is over. */
const CURL_TIMEOUT = 28;

async function byCurl(baseUrl: string, call: Call, line: string, variables: Variables) {
  const env = { PATH: process.env.PATH, URL: baseUrl, ...variables };
  const isStream = call.readsForSeconds !== undefined;
  const { stdout } = await execute('sh', ['-c', `${line} -w '\\n%{http_code}'`], {
    env,
    maxBuffer: 10_000_000,
  }).catch((error: Error & { code?: number; stdout?: string }) => {
    if (!isStream || error.code !== CURL_TIMEOUT) throw error;
    return { stdout: error.stdout ?? '' };
  });
  const end = stdout.lastIndexOf('\n');
  const text = stdout.slice(0, end);
  return {
    status: Number(stdout.slice(end + 1)),
    answer: isStream || call.isText ? text : (JSON.parse(text) as unknown),
  };
}

async function byFetch(
  baseUrl: string,
  call: Call,
  facts: RouteFacts,
  { variables, body }: { variables: Variables; body: unknown },
) {
  const headers = headersOf(call, facts).map((line): [string, string] => {
    const colon = line.indexOf(': ');
    return [line.slice(0, colon), filled(line.slice(colon + 2), variables)];
  });
  const response = await fetch(`${baseUrl}${filled(pathOf(call), variables)}`, {
    method: methodOf(call),
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (call.readsForSeconds !== undefined)
    return { status: response.status, answer: await readFor(response, call.readsForSeconds) };
  return {
    status: response.status,
    answer: call.isText ? await response.text() : ((await response.json()) as unknown),
  };
}

/** What a stream sends within that time. */
async function readFor(response: Response, seconds: number): Promise<string> {
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const timer = setTimeout(() => void reader.cancel(), seconds * 1_000);
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  clearTimeout(timer);
  return text;
}

function valueAt(answer: unknown, path: string, { route }: Call): string {
  const value = path
    .split('.')
    .reduce<unknown>((one, key) => (one as Record<string, unknown> | undefined)?.[key], answer);
  if (typeof value === 'number') return String(value);
  if (typeof value !== 'string')
    throw new Error(`${route}: the answer has no ${path}: ${JSON.stringify(answer).slice(0, 500)}`);
  return value;
}
