/** The Worker's bindings, and the variables that the middleware sets on a request. */
import type { Env } from '../durable-objects/env.ts';
import type { Tenant, User } from './auth/who.ts';
import type { ApiKey } from './registry/api-keys.ts';

export type { Env };

export interface AppContext {
  Bindings: Env;
  Variables: {
    requestId: string;
    /** Set by doors that accept API keys. */
    apiKey: ApiKey;
    /** Set by doors that accept users. */
    user: User;
    /** Set by doors that accept members or API keys of an organization. */
    tenant: Tenant;
    /** The parsed JSON body, if the request has one. */
    body: unknown;
  };
}
