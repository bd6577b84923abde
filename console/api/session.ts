/** Who is logged in, and in which of their organizations. */
import { computed, signal } from '@preact/signals';
import type { components } from '../../dist/console/api.d.ts';
import { ROLES } from '../../protocol/enums.ts';

export type User = components['schemas']['User'];
type Role = (typeof ROLES)[number];

const CHOSEN = 'organization';
/** The id of the user whose session this browser has, because its cookie cannot be read. */
const SESSION_USER = 'sessionUser';

/** Undefined: not known yet; null: nobody. */
export const user = signal<User | null | undefined>(undefined);
/** Whether a session has ended while it was in use. */
export const hasExpired = signal(false);

const chosen = signal(localStorage.getItem(CHOSEN));

export const membership = computed(() => {
  const all = user.value?.memberships ?? [];
  return all.find(({ organizationId: id }) => id === chosen.value) ?? all[0] ?? null;
});

export const organizationId = computed(() => membership.value?.organizationId ?? null);

export function chooseOrganization(id: string): void {
  localStorage.setItem(CHOSEN, id);
  chosen.value = id;
}

/** Whether the user has at least this role here. The API refuses the rest; the console only hides it. */
export function may(role: Role): boolean {
  const own = membership.value?.role;
  return own !== undefined && ROLES.indexOf(own) >= ROLES.indexOf(role);
}

export function signedIn(next: User): void {
  localStorage.setItem(SESSION_USER, next.id);
  hasExpired.value = false;
  user.value = next;
}

/** Whether it is worth asking who is logged in. */
export function mayHaveSession(): boolean {
  return localStorage.getItem(SESSION_USER) !== null;
}

export function signedOut(): void {
  localStorage.removeItem(SESSION_USER);
  if (user.value != null) hasExpired.value = true;
  user.value = null;
}

// Another tab has logged out, or has logged in as another user: this one must not go on with their cookie.
window.addEventListener('storage', ({ key, newValue }) => {
  if (key === SESSION_USER && user.value && newValue !== user.value.id) window.location.reload();
});
