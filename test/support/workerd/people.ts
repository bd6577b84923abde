/** Users, as REST would make them. */
import { env } from 'cloudflare:workers';
import type { Role } from '../../../protocol/enums.ts';
import type { LoginAnswer } from '../../../protocol/user.ts';
import { openSession } from '../../../registry/sessions.ts';
import { findUser, registerUser, type UserRow } from '../../../registry/users.ts';
import { signAccessToken, signRefreshToken } from '../../../worker/auth/session-tokens.ts';
import { anonymous, bodyOf, type Call, Client } from './client.ts';
import { done } from './commits.ts';
import { runSql } from './d1.ts';

export const PASSWORD = 'correct horse battery';

/** The hash of that password at the lowest cost: hundreds of people log in. */
const CHEAP_HASH = 'scrypt$2$1$1$$xx6F4jgradrHMvhT7VxZDKdTzYKP-tXDNNyuyoxwGnQ';

export function uniqueEmail(): string {
  return `${crypto.randomUUID()}@example.org`;
}

/** `POST /auth/login`. */
export function logIn(email: string, password = PASSWORD): Promise<Response> {
  return anonymous.post('/auth/login', { email, password });
}

/** `POST /auth/refresh`. */
export function refresh(refreshToken: unknown): Promise<Response> {
  return anonymous.post('/auth/refresh', { refreshToken });
}

type Tokens = Pick<LoginAnswer, 'accessToken' | 'refreshToken'>;

/** Opens a session like a login. */
async function tokensOf(user: Pick<UserRow, 'id' | 'email' | 'tokenVersion'>): Promise<Tokens> {
  const now = Date.now();
  const place = { address: null, userAgent: null, network: 'unknown' };
  const sessionId = (await openSession(env.DB, user, place, now))?.id ?? '';
  const access = { userId: user.id, sessionId, tokenVersion: user.tokenVersion };
  return {
    accessToken: await signAccessToken(env.SESSION_SECRET, access, now),
    refreshToken: signRefreshToken(env.SESSION_SECRET, { sessionId, generation: 1 }),
  };
}

/** A user who is logged in. */
export class Person extends Client {
  readonly id: string;
  readonly email: string;
  accessToken: string;
  refreshToken: string;

  private constructor(user: { id: string; email: string }, tokens: Tokens) {
    super();
    this.id = user.id;
    this.email = user.email;
    this.accessToken = tokens.accessToken;
    this.refreshToken = tokens.refreshToken;
  }

  /** Registers a person and opens a session like a login, without the costly check of a password. */
  static async register(name = 'Test Person'): Promise<Person> {
    const now = Date.now();
    const given = { email: uniqueEmail(), name, passwordHash: CHEAP_HASH, provedAtMs: now };
    const { user } = done(await registerUser(env.DB, given, undefined, { address: null, now }));
    return new Person(user, await tokensOf(user));
  }

  /** The same person in another session, without the costly check of a password. */
  async newSession(): Promise<Person> {
    const user = await findUser(env.DB, this.id);
    if (!user) throw new Error('the person is not registered');
    return new Person(user, await tokensOf(user));
  }

  static async logIn(email: string, password = PASSWORD): Promise<Person> {
    const answer = await bodyOf<LoginAnswer>(await logIn(email, password), 200);
    return new Person(answer.user, answer);
  }

  protected override credential(): Record<string, string> {
    return { authorization: `Bearer ${this.accessToken}` };
  }

  /** With the session cookie and without a bearer token, as a page sends it. */
  callWithCookie(path: string, options: Call = {}): Promise<Response> {
    const headers = { cookie: `access_token=${this.accessToken}`, ...options.headers };
    return anonymous.call(path, { ...options, headers });
  }
}

/** Makes a user a member, as if they had accepted an invitation. */
export async function joinOrganization(id: string, user: { id: string }, role: Role): Promise<void> {
  const columns = 'organization_id, user_id, role, created_at_ms';
  const sql = `INSERT OR REPLACE INTO memberships (${columns}) VALUES (?, ?, ?, ?)`;
  await runSql(sql, id, user.id, role, Date.now());
}

/** Makes a user SUPER_ADMIN of the platform, which REST cannot. */
export async function makeSuperAdmin({ id }: Person): Promise<void> {
  await runSql('UPDATE users SET super_admin = 1 WHERE id = ?', id);
}
