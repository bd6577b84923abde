/**
 * Tests an API key with a real connection through the public listener [C-5.4]: login, vhost, and a passive
 * declaration. It uses a standard AMQP client, so that the code samples work if the test works.
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
  /** A queue of the vhost, declared passively. */
  queue: string;
  /** Sent with the login: the key is accepted once with it, even before it is active. */
  nonce: string;
}

/** Never rejects: an error is part of the result. */
export async function probe(target: ProbedKey): Promise<ConnectionTest> {
  const startedAtMs = Date.now();
  const { promise: limit, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`no answer within ${TIMEOUT_MS} ms from the AMQP listener`)),
    TIMEOUT_MS,
  );
  try {
    await Promise.race([connectAndDeclare(target), limit]);
    return { ok: true, durationMs: Date.now() - startedAtMs };
  } catch (error) {
    return { ok: false, durationMs: Date.now() - startedAtMs, error: textOf(error) };
  } finally {
    clearTimeout(timer);
  }
}

async function connectAndDeclare(target: ProbedKey): Promise<void> {
  const { host, port, username, key, vhost, queue, nonce } = target;
  // The library is a CommonJS module. Bundled as a module of its own it has only the default export.
  const { default: amqplib } = await import('amqplib');
  const connection = await amqplib.connect(
    { protocol: 'amqps', hostname: host, port, username, password: key, vhost, heartbeat: 0 },
    { noDelay: true, clientProperties: { [PROBE_PROPERTY]: nonce } },
  );
  // The pending call reports a connection error, too. Without a listener the event would throw.
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
