/**
 * Role checks [C-1.2]: `requireRole`, whether a member has the role that a route requires, and
 * `requireWithinRank`, which roles a member may grant and which other members they may change.
 */
import type { Context } from 'hono';
import { includesRole, type Role } from '../../protocol/enums.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';

export function requireRole(own: Role, needed: Role): void {
  if (includesRole(own, needed)) return;
  throw new ApiError(
    'INSUFFICIENT_ORG_PERMISSIONS',
    `You need the role ${needed} or higher; your role is ${own}: ask an ORG_ADMIN for a higher one`,
  );
}

/**
 * Throws if `role` is above the caller's own role: the caller may neither grant such a role nor change a
 * member who has it.
 */
export function requireWithinRank(c: Context<AppContext>, role: Role): void {
  const own = c.get('tenant').role;
  if (own && includesRole(own, role)) return;
  throw new ApiError(
    'INSUFFICIENT_ORG_PERMISSIONS',
    `You need the role ${role} or higher to grant ${role} or to change a member who has it; your role is ${own}: ask an ORG_ADMIN`,
  );
}
