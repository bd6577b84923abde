/** The curl line of a call, as the reference shows it. */
import { type Call, headersOf, methodOf, pathOf, type RouteFacts } from './call.ts';

/** A command for a POSIX shell; its variables are those of the calls before it, and `URL`. */
export function curlOf(call: Call, facts: RouteFacts): string {
  const method = methodOf(call);
  const body = call.body === undefined ? [] : [`-d '${bodyOf(call.body)}'`];
  const parts = [
    ...(method === 'GET' ? [] : [`-X ${method}`]),
    `"$URL${pathOf(call)}"`,
    ...headersOf(call, facts).map((header) => `-H "${header}"`),
    ...body,
  ];
  const stream = call.readsForSeconds === undefined ? '' : `-N -m ${call.readsForSeconds} `;
  return `curl -sS ${stream}${parts.join(' \\\n  ')}`;
}

/** The body between single quotes: a variable ends them, so that the shell replaces it. */
function bodyOf(body: unknown): string {
  return JSON.stringify(body)
    .replaceAll("'", "'\\''")
    .replace(
      /"#([A-Z][A-Z0-9_]*)"|\$([A-Z][A-Z0-9_]*)/g,
      (_all, number?: string, text?: string) => `'"$${number ?? text}"'`,
    );
}
