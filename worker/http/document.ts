/** A JSON document that is the same for every caller: the isolate makes it at its first request [C-14.2]. */
import type { Context } from 'hono';
import { sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import type { AppContext } from '../env.ts';

type Json = Record<string, unknown>;

/** The handler of a route with `hasTag` that answers with the document. */
export function answerDocument(
  make: () => Json | Promise<Json>,
): (c: Context<AppContext>) => Promise<ArrayBuffer> {
  // The document, not its promise: a request must not await a promise of another request.
  let known: { bytes: ArrayBuffer; tag: string } | undefined;
  return async (c) => {
    if (!known) {
      const text = JSON.stringify(await make());
      // Encoded once: each answer would encode a text again.
      known = {
        bytes: new TextEncoder().encode(text).buffer as ArrayBuffer,
        tag: `"${sha256Hex(text).slice(0, 32)}"`,
      };
    }
    c.header('etag', known.tag);
    // Public, so a cache may store it, and must ask whether it is still current.
    c.header('cache-control', 'no-cache');
    return known.bytes;
  };
}
