/** The simulated plant of the development stack, which the console drives. A deployment has none. */
import type { Context } from 'hono';
import type { AppContext } from '../env.ts';
import { handleNotFound } from './error-response.ts';

export const SIMULATOR_PATH = '/dev/simulator';

/** GET: the plant and its behaviour, or 204 without one. PUT: asks for a behaviour, which takes effect a moment later. */
export async function simulator(c: Context<AppContext>): Promise<Response> {
  const { SIMULATOR } = c.env;
  const { method } = c.req;
  if (method !== 'GET' && method !== 'PUT') return handleNotFound(c);
  if (!SIMULATOR) return method === 'GET' ? c.body(null, 204) : handleNotFound(c);
  const init = method === 'PUT' ? { method, body: await c.req.text() } : {};
  const { status, body } = await SIMULATOR.fetch(c.req.url, init);
  const headers = { 'content-type': 'application/json', 'cache-control': 'no-store' };
  return new Response(body, { status, headers });
}
