/**
 * A separate process: clients without a credential. From `run` to `stop`, each of them sends one request after the
 * other over a connection of its own, and does not wait after a 429.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { composeApiKey } from '../../protocol/api-key.ts';
import { LIMIT } from '../../protocol/limits.ts';
import { repeat } from './plant-load.ts';

export type Attack = 'openapi.json' | 'wrong passwords' | 'unknown API keys' | '1 MiB bodies';

/** `addresses`: one for each client, as the platform would report it to the Worker. */
export type RequesterOrder =
  | { kind: 'run'; url: string; attack: Attack; addresses: string[] }
  | { kind: 'stop' };

/** `answers`: how many there were of each status; requests without an answer count as 0. */
export interface RequesterWord {
  kind: 'stopped';
  answers: Record<number, number>;
  seconds: number;
}

interface Sent {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: string;
}

const JSON_TYPE = { 'content-type': 'application/json' };
/** A body of maximum size with as many small values as possible, because these take the longest to parse. */
const LARGE_BODY = `[${'0,'.repeat((LIMIT.restBodyBytes - 4) / 2)}0]`;

let isRunning = false;

function sentBy(attack: Attack): Sent {
  switch (attack) {
    case 'openapi.json':
      return { method: 'GET', path: '/openapi.json' };
    case 'wrong passwords': {
      // A new address each time, because an address with ten failures is locked and then costs no hash.
      const body = JSON.stringify({ email: `${randomUUID()}@example.com`, password: 'a wrong password' });
      return { method: 'POST', path: '/auth/login', headers: JSON_TYPE, body };
    }
    case 'unknown API keys':
      return { method: 'GET', path: '/vcp/sites', headers: { 'x-api-key': composeApiKey(randomBytes(128)) } };
    case '1 MiB bodies':
      return { method: 'POST', path: '/auth/login', headers: JSON_TYPE, body: LARGE_BODY };
  }
}

async function statusOf(url: string, agent: Agent, address: string, sent: Sent): Promise<number> {
  const { method, path, headers = {}, body = '' } = sent;
  const asked = request(`${url}/api/v1${path}`, {
    agent,
    method,
    headers: { ...headers, 'content-length': Buffer.byteLength(body), 'cf-connecting-ip': address },
  });
  asked.end(body);
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  answer.resume();
  await once(answer, 'end');
  return answer.statusCode ?? 0;
}

async function run({ url, attack, addresses }: Extract<RequesterOrder, { kind: 'run' }>): Promise<void> {
  isRunning = true;
  const startedAt = performance.now();
  const answers: Record<number, number> = {};
  const client = async (address: string) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    await repeat(
      1,
      () => !isRunning,
      async () => {
        const status = await statusOf(url, agent, address, sentBy(attack)).catch(() => 0);
        answers[status] = (answers[status] ?? 0) + 1;
      },
    );
    agent.destroy();
  };
  await Promise.all(addresses.map(client));
  const word: RequesterWord = { kind: 'stopped', answers, seconds: (performance.now() - startedAt) / 1_000 };
  process.send?.(word);
}

process.on('message', (order: RequesterOrder) => {
  if (order.kind === 'run') void run(order);
  else isRunning = false;
});
process.on('disconnect', () => process.exit(0));
