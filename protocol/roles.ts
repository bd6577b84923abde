/** Membership roles (spec: Other REST surface; [C-1.2]): each includes those before it. */
import { ROLES } from './enums.ts';

export type Role = (typeof ROLES)[number];

/** Whether a role includes another. */
export function includesRole(role: Role, other: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(other);
}
