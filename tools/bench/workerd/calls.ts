/**
 * Calls of an object's methods from inside the runtime, as another object calls them: one request has many, so that the
 * request itself costs nearly nothing.
 */
import type { ObjectCalls } from '../object-calls.ts';

type Callable = Record<string, (...given: unknown[]) => Promise<unknown>>;

/** Runs the groups one after the other, the calls of a group at the same time. */
export async function runCalls(
  namespaces: Readonly<Record<ObjectCalls['object'], DurableObjectNamespace>>,
  request: Request,
): Promise<Response> {
  const { object, name, method, groups } = (await request.json()) as ObjectCalls;
  const namespace = namespaces[object];
  const stub = namespace.get(namespace.idFromName(name)) as unknown as Callable;
  for (const group of groups) {
    const answers = await Promise.all(group.map((given) => stub[method]?.(...given)));
    const refused = answers.find((answer) => isRefusal(answer));
    if (refused) return Response.json(refused, { status: 500 });
  }
  return new Response(null, { status: 204 });
}

function isRefusal(answer: unknown): boolean {
  return typeof answer === 'object' && answer !== null && 'refused' in answer;
}
