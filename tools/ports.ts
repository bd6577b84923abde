/**
 * The ports of the stack on one machine: read from the environment, and checked to be free before anything
 * starts.
 */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * The range of ports to choose from: below the ephemeral ports of Linux, which the system may give to any
 * program.
 */
const NOBODYS_PORTS = [20_000, 32_000] as const;
/**
 * Test workers that run in parallel choose from separate parts, so that none takes a port between its choice
 * and its use.
 */
const PARTS = 8;
/** Settings with which a stack takes any free ports. */
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

/** Reads a port from an environment variable; throws if it is invalid. 0 means any free port. */
export function portOf(name: string, fallback: number): number {
  const text = process.env[name];
  const port = text === undefined ? fallback : Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new Error(`${name} must be a port, not "${text}"`);
  return port;
}

/**
 * Throws a message for the user if two of the ports are equal or one is in use. It waits for a while first: a
 * process that was just killed frees its ports with a delay.
 */
export async function assertFree(ports: Record<string, number>): Promise<void> {
  const giveUpAt = performance.now() + WAIT_MS;
  const names = new Map<number, string>();
  for (const [name, port] of Object.entries(ports)) {
    // Each 0 becomes a different port.
    const other = port === 0 ? undefined : names.get(port);
    if (other)
      throw new Error(
        `port ${port} is set for both ${other} and ${name}: choose another port for one of them`,
      );
    names.set(port, name);
    while (await isTaken(port)) {
      if (performance.now() > giveUpAt) {
        throw new Error(
          `port ${port} is in use: stop the program that listens on it, or set ${name} to another port`,
        );
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

/** Ports that this process has already chosen, whether it listens on them yet or not. */
const chosen = new Set<number>();

/**
 * Returns a free port that it has not returned before and that is not in `besides`. The system gives it to no
 * other program by itself.
 */
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
  throw new Error(`no free port found in ${ATTEMPTS} attempts`);
}
