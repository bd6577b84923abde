/** Users and their organizations, as REST would make them. */
import { env } from 'cloudflare:workers';
import { expect } from 'vitest';
import type { OrganizationRecord } from '../../../protocol/organization.ts';
import type { Role } from '../../../protocol/roles.ts';
import type { LoginAnswer } from '../../../protocol/user.ts';
import { addMember, changeRole, listMembers, removeMember } from '../../../worker/registry/organizations.ts';
import { registerUser } from '../../../worker/registry/registration.ts';
import { auditOf, done } from './commits.ts';
import { send } from './rest.ts';

export const PASSWORD = 'correct horse battery';

/** Of that password, at the least cost that there is: hundreds of people log in. */
const CHEAP_HASH = 'scrypt$2$1$1$$xx6F4jgradrHMvhT7VxZDKdTzYKP-tXDNNyuyoxwGnQ';

export interface Call {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Sent as JSON. */
  body?: unknown;
  /** `x-org-id`. */
  org?: string;
  headers?: Record<string, string>;
}

export function call(
  path: string,
  { method = 'GET', body, org, headers = {} }: Call = {},
): Promise<Response> {
  return send(`/api/v1${path}`, {
    method,
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(org === undefined ? {} : { 'x-org-id': org }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/** The body of an answer with this status. */
export async function bodyOf<Body>(response: Response, status: number): Promise<Body> {
  const text = await response.text();
  expect([response.status, text]).toEqual([status, expect.any(String)]);
  return JSON.parse(text) as Body;
}

/** A user who is logged in. */
export class Person {
  readonly id: string;
  readonly email: string;
  accessToken: string;
  refreshToken: string;

  private constructor(login: LoginAnswer) {
    this.id = login.user.id;
    this.email = login.user.email;
    this.accessToken = login.accessToken;
    this.refreshToken = login.refreshToken;
  }

  static async register(name = 'Somebody'): Promise<Person> {
    const email = `${crypto.randomUUID()}@example.org`;
    const user = { email, name, passwordHash: CHEAP_HASH };
    done(await registerUser(env.DB, user, undefined, { address: null, now: Date.now() }));
    return await Person.logIn(email);
  }

  static async logIn(email: string, password = PASSWORD): Promise<Person> {
    const login = await call('/auth/login', { method: 'POST', body: { email, password } });
    return new Person(await bodyOf<LoginAnswer>(login, 200));
  }

  /** With the bearer. */
  call(path: string, options: Call = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${this.accessToken}`, ...options.headers };
    return call(path, { ...options, headers });
  }

  /** With the cookie alone, as a page has it. */
  callWithCookie(path: string, options: Call = {}): Promise<Response> {
    const headers = { cookie: `access_token=${this.accessToken}`, ...options.headers };
    return call(path, { ...options, headers });
  }

  /** The body of an answer that is right. */
  async read<Body>(path: string, options: Call = {}, status = 200): Promise<Body> {
    return await bodyOf<Body>(await this.call(path, options), status);
  }
}

/** An organization with one member of each role. */
export interface Team {
  id: string;
  slug: string;
  viewer: Person;
  operator: Person;
  admin: Person;
  orgAdmin: Person;
}

export async function createTeam(): Promise<Team> {
  const orgAdmin = await Person.register();
  const slug = `org-${crypto.randomUUID().slice(0, 8)}`;
  const made = { method: 'POST', body: { name: slug, slug } } as const;
  const { id } = await orgAdmin.read<OrganizationRecord>('/organizations', made, 201);
  const join = async (role: Role) => {
    const person = await Person.register();
    const body = { email: person.email, role };
    await orgAdmin.read(`/organizations/${id}/members`, { method: 'POST', body }, 201);
    return person;
  };
  const [viewer, operator, admin] = await Promise.all([join('VIEWER'), join('OPERATOR'), join('ADMIN')]);
  return { id, slug, viewer, operator, admin, orgAdmin };
}

/** Roles as `createTeam` gives them, and nobody else in. */
export async function resetRoles({ id, slug, viewer, operator, admin, orgAdmin }: Team): Promise<void> {
  const auditAs = (event: string) => auditOf({ id, slug, adminId: orgAdmin.id }, event, 'USER');
  const now = Date.now();
  const { rows } = await listMembers(env.DB, id, { page: 1, limit: 100 });
  const found = new Map(rows.map(({ user, role }) => [user.id, role]));
  // First whoever is to be ORG_ADMIN: there must be one, whoever goes.
  const roles = [
    [orgAdmin, 'ORG_ADMIN'],
    [viewer, 'VIEWER'],
    [operator, 'OPERATOR'],
    [admin, 'ADMIN'],
  ] as const;
  for (const [{ id: userId }, role] of roles) {
    const from = found.get(userId);
    found.delete(userId);
    if (!from) await addMember(env.DB, id, { userId, role }, auditAs('member.added')(userId), now);
    else if (from !== role)
      await changeRole(env.DB, id, userId, { from, to: role }, auditAs('member.role_changed')(userId), now);
  }
  for (const [userId, role] of found)
    await removeMember(env.DB, id, userId, role, auditAs('member.removed')(userId), now);
}

/** A platform SUPER_ADMIN: nothing in REST makes one. */
export async function makeSuperAdmin({ id }: Person): Promise<void> {
  await env.DB.prepare('UPDATE users SET super_admin = 1 WHERE id = ?').bind(id).run();
}
