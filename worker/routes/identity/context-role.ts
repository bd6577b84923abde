/** The role that a user record shows: in the organization that the request names, or in the only one there is [C-1.5]. */
import type { Context } from 'hono';
import type { Role } from '../../../protocol/roles.ts';
import type { User } from '../../auth/who.ts';
import type { AppContext } from '../../env.ts';

export function contextRole(c: Context<AppContext>, { memberships }: User): Role | null {
  const wanted = c.req.header('x-org-id')?.toLowerCase();
  const [only, ...others] = memberships;
  if (wanted === undefined) return only && others.length === 0 ? only.role : null;
  return memberships.find(({ organizationId }) => organizationId === wanted)?.role ?? null;
}
