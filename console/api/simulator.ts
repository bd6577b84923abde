/** The simulated plant of a development stack; deployments have none. */
import type { Behaviour } from '../try-outcomes.ts';
import { errorOf, send } from './client.ts';

const PATH = '/dev/simulator';

export interface Simulated {
  plantId: string;
  behaviour: Behaviour;
}

/** Null: this is no development stack, which is always on the machine of its browser. */
export async function readSimulated(): Promise<Simulated | null> {
  if (!/^(localhost|127\.0\.0\.1|\[::1\])$/.test(location.hostname)) return null;
  const answer = await send(new Request(PATH));
  return answer.status === 200 ? ((await answer.json()) as Simulated) : null;
}

/** Asks for a behaviour, which takes effect a moment later. Throws `CallError` for a refusal. */
export async function requestBehaviour(behaviour: Behaviour): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  const body = JSON.stringify({ behaviour });
  const answer = await send(new Request(PATH, { method: 'PUT', headers, body }));
  if (!answer.ok) throw errorOf(answer.status, await answer.json().catch(() => undefined));
}
