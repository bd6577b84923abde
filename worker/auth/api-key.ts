/** The partners' door to REST: a live API key, from an allowed address, with the scope (spec: REST partner surface). */
import { createMiddleware } from 'hono/factory';
import { markUsed } from '../../durable-objects/registry/key-use.ts';
import { reasonOf } from '../../durable-objects/registry/reason.ts';
import type { ApiKeyScope } from '../../protocol/scopes.ts';
import type { AppContext } from '../env.ts';
import { ApiError } from '../http/error-response.ts';
import { findApiKey } from '../registry/api-keys.ts';
import { clientAddress, isAllowedAddress } from './address.ts';

/** 401 without a live key, 403 from a wrong address or without the scope. */
export function requireApiKey(scope: ApiKeyScope) {
  return createMiddleware<AppContext>(async (c, next) => {
    const plaintext = c.req.header('x-api-key');
    if (!plaintext) throw new ApiError('UNAUTHORIZED', 'Missing X-API-Key header');
    const now = Date.now();
    const apiKey = await findApiKey(c.env.DB, plaintext, now);
    if (!apiKey) throw new ApiError('UNAUTHORIZED', 'Invalid API key');
    if (!isAllowedAddress(clientAddress(c.req.raw.headers, c.env.CLIENT_ADDRESS), apiKey.allowedIps)) {
      throw new ApiError('FORBIDDEN', 'The client address is not allowed for this API key');
    }
    if (!apiKey.scopes.has(scope)) throw new ApiError('FORBIDDEN', `The API key lacks the scope ${scope}`);
    c.set('apiKey', apiKey);
    const marked = markUsed(c.env.DB, apiKey, now).catch((error: unknown) => {
      console.warn('lastUsedAt not written', { keyId: apiKey.id, reason: reasonOf(error) });
    });
    c.executionCtx.waitUntil(marked);
    await next();
  });
}
