/** The Worker's bindings and what a request carries through the middleware. */
import type { Env } from '../durable-objects/env.ts';
import type { ApiKey } from './registry/api-keys.ts';

export type { Env };

export interface AppContext {
  Bindings: Env;
  Variables: {
    requestId: string;
    /** Set behind `requireApiKey`. */
    apiKey: ApiKey;
    /** The parsed JSON body of a request that may have one. */
    body: unknown;
  };
}
