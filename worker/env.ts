/** The Worker's bindings and what a request carries through the middleware. */
import type { Env } from '../durable-objects/env.ts';
import type { Tenant, User } from './auth/who.ts';
import type { ApiKey } from './registry/api-keys.ts';

export type { Env };

export interface AppContext {
  Bindings: Env;
  Variables: {
    requestId: string;
    /** Set behind the door of the partner surface. */
    apiKey: ApiKey;
    /** Set behind the doors of users. */
    user: User;
    /** Set behind the doors of an organization's members and keys. */
    tenant: Tenant;
    /** The parsed JSON body of a request that may have one. */
    body: unknown;
  };
}
