/**
 * A JSON document that is the same for every caller. The isolate makes it when it is first requested, and
 * answers later requests from memory [C-14.2].
 */
import type { Context } from 'hono';
import { sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import type { AppContext } from '../env.ts';

type Json = Record<string, unknown>;

/** The handler of a route with `hasTag` that answers with the document. */
export function answerDocument(
  make: () => Json | Promise<Json>,
): (c: Context<AppContext>) => Promise<ArrayBuffer> {
  // Holds the document and not its promise, because in workerd a request must not await a promise of another
  // request.
  let known: { bytes: ArrayBuffer; tag: string } | undefined;
  return async (c) => {
    if (!known) {
      const text = JSON.stringify(await make());
      // Stored as bytes, because a text would be encoded again for each answer.
      known = {
        bytes: new TextEncoder().encode(text).buffer as ArrayBuffer,
        tag: `"${sha256Hex(text).slice(0, 32)}"`,
      };
    }
    c.header('etag', known.tag);
    // The document is public, so a cache may store it; before each use the cache must check that it is current.
    c.header('cache-control', 'no-cache');
    return known.bytes;
  };
}
