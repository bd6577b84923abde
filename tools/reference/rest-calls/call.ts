/**
 * The calls that the REST reference shows: each is data, from which the reference prints a curl line, and which runs
 * against a stack. `$NAME` in a query or a body is a variable that an earlier call set.
 */
import type { Variables, World } from './world.ts';

/** Whose credential a call has. */
export type Caller = 'nobody' | 'admin' | 'petr' | 'key' | 'operator' | 'withoutOrganization' | 'elsewhere';

export interface Call {
  /** Method and path with parameters in braces: `GET /api/v1/plants/{id}`. */
  route: string;
  /** Default: the caller that the route asks for. */
  as?: Caller;
  /** The variable of each path parameter. */
  ids?: Readonly<Record<string, string>>;
  query?: string;
  body?: unknown;
  /** Further headers, with variables: `origin: https://example.com`. */
  headers?: readonly string[];
  /** The variables that the answer sets, each by the path of its value. */
  save?: Readonly<Record<string, string>>;
  /** What happens before the call and is no call over REST; `note` says it to the reader. */
  prepare?(world: World): Promise<Variables | undefined>;
  note?: string;
  /** What happens after the call, so that later calls find what they need. */
  finish?(world: World): Promise<void>;
  /** The answer does not end: the call reads what comes within this many seconds. */
  readsForSeconds?: number;
  /** The answer is text, and not one JSON value. */
  isText?: true;
  /** The call only makes what a later one needs: the reference does not show it. */
  isHidden?: true;
}

/** What the OpenAPI document says about the route of a call. */
export interface RouteFacts {
  security: readonly Record<string, unknown>[];
  hasOrganization: boolean;
}

export function callerOf(call: Call, { security }: RouteFacts): Caller {
  if (call.as) return call.as;
  if (call.route.includes('/api/v1/platform/')) return 'operator';
  if (security.length === 0) return 'nobody';
  return security.every((way) => 'apiKey' in way) ? 'key' : 'admin';
}

const CREDENTIALS: Record<Caller, readonly string[]> = {
  nobody: [],
  admin: ['authorization: Bearer $TOKEN'],
  petr: ['authorization: Bearer $PETR_TOKEN'],
  operator: ['authorization: Bearer $OPERATOR_TOKEN'],
  withoutOrganization: ['authorization: Bearer $TOKEN'],
  elsewhere: ['authorization: Bearer $TOKEN', 'x-org-id: $OTHER_ORG'],
  key: ['x-api-key: $KEY'],
};

/** The headers of a call, with variables. */
export function headersOf(call: Call, facts: RouteFacts): string[] {
  const caller = callerOf(call, facts);
  const isMember = facts.hasOrganization && (caller === 'admin' || caller === 'petr');
  return [
    ...CREDENTIALS[caller],
    ...(isMember ? ['x-org-id: $ORG'] : []),
    ...(call.headers ?? []),
    ...(call.body === undefined ? [] : ['content-type: application/json']),
  ];
}

/** The path with its query, with variables: `/api/v1/plants/$PLANT?limit=1`. */
export function pathOf({ route, ids = {}, query }: Call): string {
  const path = route
    .slice(route.indexOf(' ') + 1)
    .replace(/\{(\w+)\}/g, (_all, name: string) => `$${ids[name] ?? name}`);
  return query === undefined ? path : `${path}?${query}`;
}

export function methodOf({ route }: Call): string {
  return route.slice(0, route.indexOf(' '));
}

/** Replaces each `$NAME` in a text. Throws for a variable that no earlier call has set. */
export function filled(text: string, variables: Variables): string {
  return text.replace(/\$([A-Z][A-Z0-9_]*)/g, (_all, name: string) => {
    const value = variables[name];
    if (value === undefined) throw new Error(`no earlier call sets $${name}`);
    return value;
  });
}

/** Replaces each `$NAME` in the texts of a JSON value; a text that is only `#NAME` becomes a number. */
export function filledBody(body: unknown, variables: Variables): unknown {
  return JSON.parse(JSON.stringify(body), (_key, value: unknown) => {
    if (typeof value !== 'string') return value;
    return value.startsWith('#') ? Number(filled(`$${value.slice(1)}`, variables)) : filled(value, variables);
  });
}
