/** A REST client with a user's login, for tools and tests. */
import type { CreatedApiKey } from '../protocol/api-key-record.ts';
import type { Page } from '../protocol/page.ts';

export interface Login {
  email: string;
  password: string;
}

export interface RestAnswer<Body> {
  status: number;
  body: Body;
}

export class AdminClient {
  readonly #baseUrl: string;
  readonly #login: Login;
  #accessToken: string;
  /** Sent as `x-org-id`. */
  organizationId: string | undefined;

  private constructor(baseUrl: string, login: Login, accessToken: string) {
    this.#baseUrl = baseUrl;
    this.#login = login;
    this.#accessToken = accessToken;
  }

  /** Valid for 15 minutes after the last login [C-1.4]. */
  get accessToken(): string {
    return this.#accessToken;
  }

  static async enter(baseUrl: string, login: Login): Promise<AdminClient> {
    return new AdminClient(baseUrl, login, await AdminClient.#logIn(baseUrl, login));
  }

  static async #logIn(baseUrl: string, login: Login): Promise<string> {
    const { status, body } = await post<{ accessToken: string }>(baseUrl, '/auth/login', login);
    if (status !== 200) throw failure('POST', '/auth/login', status, body);
    return body.accessToken;
  }

  /** Returns the answer for any status. Logs in again if the access token has expired. */
  async ask<Body>(method: string, path: string, body?: unknown): Promise<RestAnswer<Body>> {
    const answer = await this.#ask<Body>(method, path, body);
    if (answer.status !== 401) return answer;
    this.#accessToken = await AdminClient.#logIn(this.#baseUrl, this.#login);
    return await this.#ask<Body>(method, path, body);
  }

  async #ask<Body>(method: string, path: string, body?: unknown): Promise<RestAnswer<Body>> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.#accessToken}` };
    if (this.organizationId) headers['x-org-id'] = this.organizationId;
    return await request<Body>(this.#baseUrl, method, path, headers, body);
  }

  /** Returns the body of a successful answer; throws for any other status. */
  async call<Body>(method: string, path: string, body?: unknown): Promise<Body> {
    const answer = await this.ask<Body>(method, path, body);
    if (answer.status >= 300) throw failure(method, path, answer.status, answer.body);
    return answer.body;
  }

  /** All rows of a paged list. */
  async list<Row>(path: string): Promise<Row[]> {
    const rows: Row[] = [];
    for (let page = 1; ; page++) {
      const { data, meta } = await this.call<Page<Row>>('GET', `${path}?page=${page}&limit=100`);
      rows.push(...data);
      if (page >= meta.totalPages) return rows;
    }
  }

  async createKey(request: Record<string, unknown>): Promise<CreatedApiKey> {
    return await this.call<CreatedApiKey>('POST', '/partner/api-keys', request);
  }
}

/** A REST client of the deployment's operator. It sends one of the values of OPERATOR_TOKEN. */
export class Operator {
  readonly #baseUrl: string;
  readonly #headers: Record<string, string>;

  constructor(baseUrl: string, token: string) {
    this.#baseUrl = baseUrl;
    this.#headers = { authorization: `Bearer ${token}` };
  }

  async ask<Body>(method: string, path: string, body?: unknown): Promise<RestAnswer<Body>> {
    return await request<Body>(this.#baseUrl, method, `/platform${path}`, this.#headers, body);
  }

  /** Returns the body of a successful answer; throws for any other status. */
  async call<Body>(method: string, path: string, body?: unknown): Promise<Body> {
    const answer = await this.ask<Body>(method, path, body);
    if (answer.status >= 300) throw failure(method, `/platform${path}`, answer.status, answer.body);
    return answer.body;
  }

  /** Returns false if the address has an account already. */
  async createOrganization(
    organization: { name: string; slug: string },
    admin: Login & { name: string },
  ): Promise<boolean> {
    const body = { ...organization, admin };
    const answer = await this.ask<{ code?: string }>('POST', '/organizations', body);
    if (answer.status === 201) return true;
    if (answer.body.code === 'EMAIL_ALREADY_REGISTERED') return false;
    throw failure('POST', '/platform/organizations', answer.status, answer.body);
  }
}

async function post<Body>(baseUrl: string, path: string, body: unknown): Promise<RestAnswer<Body>> {
  return await request<Body>(baseUrl, 'POST', path, {}, body);
}

async function request<Body>(
  baseUrl: string,
  method: string,
  path: string,
  headers: Record<string, string>,
  body: unknown,
): Promise<RestAnswer<Body>> {
  const response = await fetch(`${baseUrl}/api/v1${path}`, {
    method,
    // Every request opens a new connection, because a restarted edge has closed the old ones.
    headers: {
      connection: 'close',
      ...headers,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Body };
}

function failure(method: string, path: string, status: number, body: unknown): Error {
  return new Error(`${method} ${path} answered ${status}: ${messageOf(body)}`);
}

/** The message of an error envelope with its details, or the body as it is. */
function messageOf(body: unknown): string {
  const { message, details } = (body ?? {}) as { message?: unknown; details?: unknown };
  if (typeof message !== 'string') return JSON.stringify(body);
  return details === undefined ? message : `${message} ${JSON.stringify(details)}`;
}
