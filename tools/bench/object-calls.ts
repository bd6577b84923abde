/** What `npm run bench -- objects` sends to the Workers of both of its sides. */

export const CALLS_PATH = '/bench/calls';
/** The name of the floor's Vhost. */
export const FLOOR_VHOST = 'floor';

export interface ObjectCalls {
  object: 'SITE' | 'VHOST';
  /** Of the object. */
  name: string;
  method: string;
  /** The arguments of each call. */
  groups: unknown[][][];
}

export async function callObject(url: string, calls: ObjectCalls): Promise<void> {
  const response = await fetch(`${url}${CALLS_PATH}`, { method: 'POST', body: JSON.stringify(calls) });
  if (!response.ok) throw new Error(`${calls.method}: ${response.status} ${await response.text()}`);
}
