/**
 * The pages of REST calls and of errors, in Markdown, from the routes and the recorded calls. They are served below /docs.
 * A call or a text that is missing fails the build and a test.
 */
import { type ApiErrorCode, ERROR_STATUS } from '../../protocol/errors.ts';
import { ERROR_TEXTS } from './openapi/errors.ts';
import examples from './openapi/examples.json' with { type: 'json' };
import { TAGS, tagOf } from './openapi/tags.ts';
import type { Call } from './rest-calls/call.ts';
import { CALLS, END_CALLS } from './rest-calls/calls.ts';
import { curlOf } from './rest-calls/curl.ts';
import { NOT_SHOWN } from './rest-calls/errors.ts';
import { type DocumentedRoute, documentedRoutes, factsOf } from './rest-calls/route-facts.ts';
import { show } from './show-json.ts';

const LONG_TEXT = 160;
const recorded = examples as {
  calls: Record<string, { answer: unknown }>;
  errors: Partial<Record<ApiErrorCode, unknown>>;
};

/** /docs/rest-calls */
export async function callsPage(): Promise<string> {
  const routes = await documentedRoutes();
  const calls = [...CALLS, ...END_CALLS].filter(({ isHidden }) => !isHidden);
  const sections = TAGS.map(({ name, description }) => {
    const own = calls.filter(({ route }) => tagOf(route.slice(route.indexOf(' ') + 1)) === name);
    return [`## ${name}`, description, ...own.map((call) => callSection(call, routes))].join('\n\n');
  });
  return `${[CALLS_INTRO, ...sections].join('\n\n')}\n`;
}

const CALLS_INTRO = `# REST calls

This page is for developers: one call of each route, as a command that runs, and its answer.
[REST](rest.md) says how to log in, what scopes there are and what applies to every call; [Error codes](errors.md) has the error codes.
[The reference](/api/v1/docs) has all fields and parameters.

A test runs every call on a new stack and compares the answer.
Ids, times and secrets differ from run to run; here they are examples.

\`\`\`sh
URL=http://127.0.0.1:8787                              # npm start
NOW=$(date -u +%FT%TZ); AN_HOUR_AGO=$(date -u -d '-1 hour' +%FT%TZ); IN_AN_HOUR=$(date -u -d '+1 hour' +%FT%TZ)
\`\`\`

Each call says which variables its answer sets, and later calls use them.
\`OPERATOR_TOKEN\` is the token of the operator: on a development stack it is \`operator.token\` in \`.dev/stack.json\`.`;

function callSection(call: Call, routes: ReadonlyMap<string, DocumentedRoute>): string {
  const { route, note, save = {} } = call;
  const documented = routes.get(route);
  if (!documented) throw new Error(`no route ${route}`);
  const answer = recorded.calls[route]?.answer;
  const kept = Object.entries(save).map(([name, path]) => `\`${name}\` is \`${path}\``);
  return [
    `### ${documented.summary}`,
    `\`${route}\`\n${documented.description.split('. Answers: ')[0]?.replace(/\.?$/, '.')}`,
    ...(note === undefined ? [] : [note]),
    `\`\`\`sh\n${curlOf(call, factsOf(documented))}\n\`\`\``,
    `${documented.status}: ${documented.answer}.`,
    answer === undefined
      ? 'No answer is recorded.'
      : typeof answer === 'string'
        ? `\`\`\`text\n${shortLines(answer)}\n\`\`\``
        : `\`\`\`json\n${show(shortened(answer))}\n\`\`\``,
    ...(kept.length === 0 ? [] : [`Of the answer ${kept.join(', ')}.`]),
  ].join('\n\n');
}

/** The text with its long lines cut. */
function shortLines(text: string): string {
  const lines = text.trimEnd().split('\n');
  return lines.map((line) => (line.length > LONG_TEXT ? `${line.slice(0, LONG_TEXT)}…` : line)).join('\n');
}

/** The value with its long texts cut. */
function shortened(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (_key, one: unknown) =>
    typeof one === 'string' && one.length > LONG_TEXT ? `${one.slice(0, LONG_TEXT)}…` : one,
  );
}

/** /docs/errors */
export async function errorsPage(): Promise<string> {
  const routes = await documentedRoutes();
  const codes = (Object.keys(ERROR_STATUS) as ApiErrorCode[]).sort();
  const used = codes.filter((code) => ERROR_TEXTS[code] !== null);
  const reserved = codes.filter((code) => ERROR_TEXTS[code] === null);
  const sections = used.map((code) => errorSection(code, [...routes.values()]));
  const rest = `## Codes that no route answers\n\nThe specification lists them for features that this version does not have: ${reserved.map((code) => `\`${code}\``).join(', ')}.`;
  return `${[ERRORS_INTRO, ...sections, rest].join('\n\n')}\n`;
}

const ERRORS_INTRO = `# Error codes

This page is for developers who call REST: when each code is answered, and what to do then.
Every error has the same form; \`code\` is stable, so use it in programs.`;

function errorSection(code: ApiErrorCode, routes: readonly DocumentedRoute[]): string {
  const text = ERROR_TEXTS[code];
  const example = recorded.errors[code];
  const own = routes.filter(({ codes }) => codes.includes(code)).map(({ route }) => `\`${route}\``);
  const shown = own.length > MANY ? `${own.length} routes` : own.join(', ');
  return [
    `## ${code}`,
    `Status ${ERROR_STATUS[code]}.\n${text?.when}\n${text?.remedy}`,
    ...(own.length === 0 ? [] : [`Answered by: ${shown}.`]),
    ...(example === undefined
      ? [`No example: ${NOT_SHOWN[code]}`]
      : [`\`\`\`json\n${show(example)}\n\`\`\``]),
  ].join('\n\n');
}

const MANY = 6;
