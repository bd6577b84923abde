/**
 * Static files that `tools/assets.ts` builds. A deployment answers the API documents without the Worker [C-15.7]; where it
 * does not, an isolate reads a document once, and answers later requests from memory [C-14.2].
 */
import type { Context } from 'hono';
import { sha256Hex } from '../../durable-objects/secrets/hmac.ts';
import type { AppContext } from '../env.ts';

/** Looks for a static file; its answer may be 404. */
export async function findAsset(c: Context<AppContext>, file: string, headers = new Headers()) {
  return await c.env.ASSETS.fetch(new Request(`https://assets.local/${file}`, { headers }));
}

/** Reads a static file. `headers`: those of the request, with which the answer may be 304. */
export async function asset(c: Context<AppContext>, file: string, headers?: Headers): Promise<Response> {
  const response = await findAsset(c, file, headers);
  if (!response.ok && response.status !== 304)
    throw new Error(`the static file ${file} is missing: run \`node tools/assets.ts\` and deploy again`);
  return response;
}

/** The handler of a route with `hasTag` that answers with a document. */
export function answerDocument(file: string): (c: Context<AppContext>) => Promise<ArrayBuffer> {
  // Holds the document and not its promise, because in workerd a request must not await a promise of another
  // request.
  let known: { bytes: ArrayBuffer; tag: string } | undefined;
  return async (c) => {
    if (!known) {
      const text = await (await asset(c, file)).text();
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
