/** The ports of the stack on one machine: from the environment, and free before anything starts. */
import { createServer } from 'node:net';

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

/** Throws, with what to do about it, when one of these ports stays taken: what was just killed lets go of it. */
export async function assertFree(ports: Record<string, number>): Promise<void> {
  const giveUpAt = performance.now() + WAIT_MS;
  for (const [name, port] of Object.entries(ports)) {
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
