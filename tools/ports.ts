/** The ports of the stack on one machine: from the environment, and free before anything starts. */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below those that Linux gives to whoever asks for any. */
const NOBODYS_PORTS = [20_000, 32_000] as const;
/** Test suites that run beside one another take theirs from parts of it: none is taken between its choice and its use. */
const PARTS = 8;
/** What makes a stack take ports that are free. */
export const ANY_PORT = {
  SITEWIRE_HTTP_PORT: '0',
  SITEWIRE_AMQPS_PORT: '0',
  SITEWIRE_MQTTS_PORT: '0',
  SITEWIRE_MTLS_PORT: '0',
  SITEWIRE_METRICS_PORT: '0',
};

const ATTEMPTS = 100;
const WAIT_MS = 2_000;
const PAUSE_MS = 50;

/** An environment variable's port; throws when it is none. 0 takes any that is free. */
export function portOf(name: string, fallback: number): number {
  const text = process.env[name];
  const port = text === undefined ? fallback : Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new Error(`${name} must be a port, not "${text}"`);
  return port;
}

/** Throws, with what to do about it, when two of these ports are one, or one stays taken: what was just killed lets go of it. */
export async function assertFree(ports: Record<string, number>): Promise<void> {
  const giveUpAt = performance.now() + WAIT_MS;
  const names = new Map<number, string>();
  for (const [name, port] of Object.entries(ports)) {
    // Each 0 becomes another.
    const other = port === 0 ? undefined : names.get(port);
    if (other) throw new Error(`port ${port} is both ${other} and ${name}: choose another for one of them`);
    names.set(port, name);
    while (await isTaken(port)) {
      if (performance.now() > giveUpAt) {
        throw new Error(`port ${port} is taken: stop what listens there, or choose another with ${name}`);
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

function isTaken(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE') resolve(true);
      else reject(new Error(`port ${port} cannot be used: ${error.message}`));
    });
    server.listen(port, () => server.close(() => resolve(false)));
  });
}

function ownPorts(): [from: number, to: number] {
  const [from, to] = NOBODYS_PORTS;
  const part = process.env.VITEST_POOL_ID;
  if (part === undefined) return [from, to];
  const size = Math.floor((to - from) / PARTS);
  const start = from + (Number(part) % PARTS) * size;
  return [start, start + size];
}

/** What this process has chosen: it may not listen there yet. */
const chosen = new Set<number>();

/** A free port, another each time and none of `besides`, that the system gives nobody by chance while it is not listened on. */
export async function freePort(besides: readonly number[] = []): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = randomInt(...ownPorts());
    if (chosen.has(port) || besides.includes(port)) continue;
    chosen.add(port);
    const server = createServer().listen(port);
    const listens = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!listens) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
  throw new Error(`none of ${ATTEMPTS} ports is free`);
}
