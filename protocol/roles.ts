/** Membership roles (spec: Other REST surface; [C-1.2]). Each role includes the roles before it. */
import { ROLES } from './enums.ts';

export type Role = (typeof ROLES)[number];

/** Whether `role` includes `other`. */
export function includesRole(role: Role, other: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(other);
}
