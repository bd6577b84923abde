/** Who asks, as the middleware tells the handlers. */
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

/** The organization that a request is about, and who acts there. */
export interface Tenant {
  organizationId: string;
  slug: string;
  actor: Actor;
  /** A member's; a key has none. */
  role: Role | null;
  /** Plants that a key is limited to; null = every one. */
  allowedPlantIds: string[] | null;
}
