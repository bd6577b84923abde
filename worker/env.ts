/** The Worker's bindings, and what the middleware sets on a request: its caller, its organization and its body. */
import type { Env } from '../durable-objects/env.ts';
import type { Role } from '../protocol/enums.ts';
import type { Actor } from '../registry/entries.ts';
import type { ApiKey } from '../registry/key-lookup.ts';
import type { SessionMembership } from '../registry/sessions.ts';
import type { UserRow } from '../registry/users.ts';

export type { Env };

export interface User {
  row: UserRow;
  sessionId: string;
  via: 'cookie' | 'bearer';
  memberships: SessionMembership[];
}

/** The organization of a request, and the caller's identity and rights in it. */
export interface Tenant {
  organizationId: string;
  slug: string;
  actor: Actor;
  /** The member's role; ORG_ADMIN for a support session; null for an API key. */
  role: Role | null;
  /** The plants that an API key is limited to; null = all plants. */
  allowedPlantIds: string[] | null;
  /** The ceilings of the organization that differ from the default ones; none for a support session, which only reads. */
  ceilings: Record<string, number>;
}

export interface AppContext {
  Bindings: Env;
  Variables: {
    requestId: string;
    /** Set by doors that accept API keys, if the caller has one. */
    apiKey: ApiKey;
    /** Set by doors that accept users, if the caller is one and not a key, the operator or a support session. */
    user: User;
    /** Set by the operator's door. */
    operator: Actor;
    /** Set by doors that accept members, API keys or support sessions of an organization. */
    tenant: Tenant;
    /** The parsed JSON body, if the request has one. */
    body: unknown;
  };
}
