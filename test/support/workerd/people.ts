/** Users, as REST would make them. */
import { env } from 'cloudflare:workers';
import type { LoginAnswer } from '../../../protocol/user.ts';
import { registerUser } from '../../../worker/registry/users.ts';
import { anonymous, bodyOf, type Call, Client } from './client.ts';
import { done } from './commits.ts';

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

/** A user who is logged in. */
export class Person extends Client {
  readonly id: string;
  readonly email: string;
  accessToken: string;
  refreshToken: string;

  private constructor(login: LoginAnswer) {
    super();
    this.id = login.user.id;
    this.email = login.user.email;
    this.accessToken = login.accessToken;
    this.refreshToken = login.refreshToken;
  }

  static async register(name = 'Somebody'): Promise<Person> {
    const email = uniqueEmail();
    const user = { email, name, passwordHash: CHEAP_HASH };
    done(await registerUser(env.DB, user, undefined, { address: null, now: Date.now() }));
    return await Person.logIn(email);
  }

  static async logIn(email: string, password = PASSWORD): Promise<Person> {
    return new Person(await bodyOf<LoginAnswer>(await logIn(email, password), 200));
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

/** Makes a user SUPER_ADMIN of the platform, which REST cannot. */
export async function makeSuperAdmin({ id }: Person): Promise<void> {
  await env.DB.prepare('UPDATE users SET super_admin = 1 WHERE id = ?').bind(id).run();
}
