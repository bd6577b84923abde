/** Clients of the REST API: a user with a session, a partner with an API key, or a client without a credential. */
import { expect } from 'vitest';
import type { Env } from '../../../durable-objects/env.ts';
import { composeApiKey } from '../../../protocol/api-key.ts';
import { restRequest, sendRequest } from './rest.ts';
import type { Key } from './world.ts';

export interface Call {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Sent as JSON. */
  body?: unknown;
  /** `x-org-id`. */
  org?: string;
  headers?: Record<string, string>;
}

type CallOptions = Pick<Call, 'org' | 'headers'>;

/** Checks the status of an answer and returns its JSON body. */
export async function bodyOf<Body>(response: Response, status: number): Promise<Body> {
  const text = await response.text();
  expect([response.status, text]).toEqual([status, expect.any(String)]);
  expect(response.headers.get('content-type')).toBe('application/json');
  return JSON.parse(text) as Body;
}

/** A client without a credential; subclasses have one. Paths are relative to /api/v1. */
export class Client {
  protected credential(): Record<string, string> {
    return {};
  }

  /** `bindings`: those that differ from the environment's. */
  call(path: string, options: Call = {}, bindings?: Partial<Env>): Promise<Response> {
    const { method = 'GET', body, org, headers = {} } = options;
    const request = restRequest(`/api/v1${path}`, {
      method,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(org === undefined ? {} : { 'x-org-id': org }),
        ...this.credential(),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return sendRequest(request, bindings);
  }

  post(path: string, body?: unknown, options: CallOptions = {}): Promise<Response> {
    return this.call(path, { ...options, method: 'POST', body });
  }

  put(path: string, body?: unknown, options: CallOptions = {}): Promise<Response> {
    return this.call(path, { ...options, method: 'PUT', body });
  }

  patch(path: string, body?: unknown, options: CallOptions = {}): Promise<Response> {
    return this.call(path, { ...options, method: 'PATCH', body });
  }

  delete(path: string, options: CallOptions = {}): Promise<Response> {
    return this.call(path, { ...options, method: 'DELETE' });
  }

  /** `POST /devices/{id}/{operation}`. */
  operate(deviceId: string, operation: string, body?: unknown): Promise<Response> {
    return this.post(`/devices/${deviceId}/${operation}`, body);
  }

  /** The body of an answer that must have this status. */
  async read<Body>(path: string, options: Call = {}, status = 200): Promise<Body> {
    return await bodyOf<Body>(await this.call(path, options), status);
  }

  /** The body of a POST's 201. */
  async create<Body>(path: string, body?: unknown, options: CallOptions = {}): Promise<Body> {
    return await bodyOf<Body>(await this.post(path, body, options), 201);
  }

  /** The body of a PATCH's 200. */
  async change<Body>(path: string, body?: unknown, options: CallOptions = {}): Promise<Body> {
    return await bodyOf<Body>(await this.patch(path, body, options), 200);
  }

  /** The body of a DELETE's 200. */
  async remove<Body>(path: string, options: CallOptions = {}): Promise<Body> {
    return await bodyOf<Body>(await this.delete(path, options), 200);
  }
}

export const anonymous = new Client();

export class KeyClient extends Client implements Key {
  readonly id: string;
  readonly key: string;
  readonly signingKey: string;

  constructor({ id, key, signingKey }: Key) {
    super();
    this.id = id;
    this.key = key;
    this.signingKey = signingKey;
  }

  protected override credential(): Record<string, string> {
    return { 'x-api-key': this.key };
  }
}

/** The plaintext of a key that no organization has. */
export function unknownKey(): string {
  return composeApiKey(crypto.getRandomValues(new Uint8Array(128)));
}
