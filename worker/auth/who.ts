/** The authenticated caller, as the middleware passes it to the handlers. */
import type { Actor } from '../../durable-objects/registry/entries.ts';
import type { Role } from '../../protocol/roles.ts';
import type { SessionMembership } from '../registry/sessions.ts';
import type { UserRow } from '../registry/users.ts';

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
  /** The member's role; null for an API key. */
  role: Role | null;
  /** The plants that an API key is limited to; null = all plants. */
  allowedPlantIds: string[] | null;
}
