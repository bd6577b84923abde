/**
 * A real connection with a key's own credentials, from here through the public listener [C-5.4]: login, vhost, a passive
 * declaration. A stock client does it, so what works here works when it is pasted.
 */
import type { ConnectionTest } from '../../protocol/api-key-record.ts';
import { PROBE_PROPERTY } from '../../protocol/link/proof.ts';

const TIMEOUT_MS = 10_000;

export interface ProbedKey {
  host: string;
  port: number;
  username: string;
  key: string;
  vhost: string;
  /** A queue that it may declare. */
  queue: string;
  /** Carried through the dial: it opens the key once, whatever its state. */
  nonce: string;
}

/** Never rejects: what went wrong is the answer. */
export async function probe(target: ProbedKey): Promise<ConnectionTest> {
  const startedAtMs = Date.now();
  const { promise: limit, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${TIMEOUT_MS} ms`)), TIMEOUT_MS);
  try {
    await Promise.race([connectAndDeclare(target), limit]);
    return { ok: true, durationMs: Date.now() - startedAtMs };
  } catch (error) {
    return { ok: false, durationMs: Date.now() - startedAtMs, error: textOf(error) };
  } finally {
    clearTimeout(timer);
  }
}

async function connectAndDeclare({
  host,
  port,
  username,
  key,
  vhost,
  queue,
  nonce,
}: ProbedKey): Promise<void> {
  const { connect } = await import('amqplib');
  const connection = await connect(
    { protocol: 'amqps', hostname: host, port, username, password: key, vhost, heartbeat: 0 },
    { noDelay: true, clientProperties: { [PROBE_PROPERTY]: nonce } },
  );
  // What breaks it is told by the call that waits for it.
  connection.on('error', () => {});
  try {
    const channel = await connection.createChannel();
    await channel.checkQueue(queue);
  } finally {
    await connection.close().catch(() => {});
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, 500) : String(error);
}
